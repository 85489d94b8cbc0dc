"""Ops and CodecOps: the operations that layers call, as typed tables, which choose.py makes. The plain versions in
`kernels/plain*.py` define what each operation computes; every faster version is tested against them. Letters in shape
comments: B rows, P positions, H hidden width, D width of a head, V codes, G code groups, T frames, C channels, E
experts. Does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from omnitts_cli.kernels.tracks import Tracks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    Tensor = Any

RUNNING, END, LIMIT, STALL, BROKEN = range(5)
"""Why a slot has stopped."""


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer of a decoder stack."""

    input_norm: Tensor  # [H]
    qkv: Tensor  # [(heads + 2 kv) D, H]
    q_norm: Tensor  # [D]
    k_norm: Tensor  # [D]
    out: Tensor  # [H, heads * D]
    mlp_norm: Tensor  # [H]
    gate_up: Tensor  # [2 * inner, H], gate over up
    down: Tensor  # [H, inner]


class Normed(NamedTuple):
    """Rows of the residual stream; the input of the next product is their RMS norm."""

    rows: Tensor  # [..., H], the residual stream
    weight: Tensor  # [H]
    eps: float
    value: Tensor | None = None  # [..., H] the norm, if the operation that made the rows has computed it

    def in_slots(self) -> Normed:
        """As [B, 1, H], for rows [B, H] with one of each slot."""
        value = None if self.value is None else self.value[:, None]
        return Normed(self.rows[:, None], self.weight, self.eps, value)

    def last(self) -> Normed:
        """Only the last of each P, for rows [B, P, H]."""
        rows = self.rows[:, -1]
        if self.value is self.rows:
            return Normed(rows, self.weight, self.eps, rows)
        return Normed(rows, self.weight, self.eps, None if self.value is None else self.value[:, -1])


@dataclass(frozen=True)
class ExpertBlock:
    """A mixture of experts: each row is routed to some of the first `count`; the rest process every row."""

    router: Tensor  # [count, H], plus one row for the gate of the shared experts, if there are any
    gate_up: Tensor  # [experts, 2 I, H], gate over up
    down: Tensor  # [experts, H, I]
    count: int
    chosen: int
    renormalised: bool  # the chosen experts' weights add up to one


class Columns(Protocol):
    """The slot table, by column, which frames read and write."""

    row: Tensor  # [slots, H]
    position: Tensor  # [slots] int64, as every column without another type
    report: Tensor  # [2, slots]: frames made, and the stop reason
    live: Tensor  # [slots] bool
    limit: Tensor
    codes: Tensor  # [slots, frames, G]
    reference: Tensor
    seen: Tensor  # [slots, codes] bool
    last: Tensor
    repeats: Tensor
    text: Tensor  # [slots, text rows, H]
    written: Tensor
    closed: Tensor  # [slots] bool
    pad: Tensor  # [slots, H]


class CodeTables(Protocol):
    """Embeddings of the codes, by group."""

    first: Tensor  # [V, H]
    rest: Tensor  # [G - 1, codes, H]

    def frame(self, codes: Tensor) -> Tensor:
        """[..., G] -> [..., H], the sum over the groups."""
        ...


class Linear(Protocol):
    def __call__(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, /) -> Tensor:
        """x [..., inputs], weight [outputs, inputs] -> [..., outputs]."""
        ...


AttendCached = Callable[[Tensor, Tensor, Tensor, float, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int], Tensor]
Choose = Callable[[Tensor, Tensor, Tensor, int, Tensor, Tensor, Tensor], Tensor]
ChooseRow = Callable[[Tensor, Tensor, Tensor, int, Tensor, Tensor, Tensor, Normed | None], tuple[Tensor, Normed | None]]
FirstScores = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int, int], Tensor]
FinishFrame = Callable[[Columns, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, CodeTables, int, int], None]
LearnAttend = Callable[[Tensor, Tensor, Tensor, float, Tensor, Tensor, int], Tensor]
CodecAttend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int, Tensor], None]
"""The plain versions say what the arguments of these are: `plain.attend_cached`, `choose`, and so on."""


class FusedStack(Protocol):
    most_rows: int  # rows per slot in one call; with more, as in a long prompt, layer by layer is as fast
    numbers: str | None  # type of keys and values; None: that of the weights

    def __call__(
        self,
        rows: Tensor,  # [B, P, H]
        positions: Tensor,  # [B, P] int64
        slots: Tensor,  # [B] int64
        cos: Tensor,  # [capacity, D / 2] float32
        sin: Tensor,
        keys: Tensor,  # [layers, slots, kv, capacity, D], written
        values: Tensor,
        /,
    ) -> Tensor:
        """All layers and the final norm: [B, P, H], as a tensor or an array of NumPy."""
        ...


FuseStack = Callable[[Sequence[LayerWeights], Tensor, int, float], FusedStack | None]
"""(layers, final norm [H], kv heads, eps) -> the stack as one operation, or None where layer by layer is as fast."""


class FusedStep(Protocol):
    most_rows: int  # the largest B of one call

    def __call__(
        self, rows: Tensor, positions: Tensor, slots: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, /
    ) -> Tensor:
        """As a FusedStack, for one position of each slot: rows [B, H], positions [B] -> [B, H]."""
        ...

    def prompts(self, rows: Tensor, attend: Callable[[int, Tensor], Tensor], /) -> Tensor | None:
        """All layers and the final norm for prompts [B, P, H], or None if layer by layer is as fast. `attend` takes a
        layer and its projection, returns the heads, and writes the cache.
        """
        ...

    def check(self) -> None:
        """Raise an error if an earlier call went wrong. Does not wait for the device."""
        ...


@dataclass(frozen=True)
class PredictorParts:
    """A predictor's weights, for devices that run its part of a frame as one operation."""

    layers: Sequence[LayerWeights]
    norm: Tensor  # [P], the final one
    eps: float
    kv_heads: int
    cos: Tensor  # [G, D / 2] float32
    sin: Tensor
    heads: Tensor  # [G - 1, codes, P]
    tables: Tensor  # [G - 2, codes, P]: the input rows after groups 1..G-2


class FusedPredictor(Protocol):
    most_rows: int

    def __call__(
        self,
        hidden: Tensor,  # [B, P] the talker's hidden state, narrowed
        first: Tensor,  # [B, P] the input row of group 0's code
        first_codes: Tensor,  # [B] int64
        seeds: Tensor,  # these five as in Choose
        frames: Tensor,
        temperature: Tensor,
        top_k: Tensor,
        top_p: Tensor,
        /,
    ) -> Tensor:
        """All codes of a frame: [B, G]."""
        ...

    def check(self) -> None:
        """Raise an error if an earlier call went wrong. Does not wait for the device."""
        ...


@dataclass(frozen=True)
class FrameParts:
    """Everything that one frame reads and writes, for devices that run a frame as one operation."""

    talker: FusedStack
    predictor: FusedStack
    cache: Any  # the talker's: keys, values, cos, sin
    turns: tuple[Tensor, Tensor]  # cosine and sine of the predictor's positions, [G, D / 2]
    head: Tensor  # [V, H]
    heads: Tensor  # [G - 1, codes, P]
    project: tuple[Tensor, Tensor] | None  # weight [P, H] and bias from the talker's width to the predictor's
    inputs: list[Tensor]  # [codes, P] each: the predictor's input rows after groups 0..G-2
    first: Tensor  # [V, H] embeddings of group 0
    rest: Tensor  # [G - 1, codes, H] embeddings of the other groups
    table: Columns
    controls: Any  # sampling settings of each slot, by column
    end: int  # the code that ends a speech
    least_frames: int
    stall: int


class LowRank(NamedTuple):
    """A pair of narrow matrices of an adapter, beside some of a weight's rows."""

    a: Tensor  # [R, inputs]
    b: Tensor  # [end - begin, R]
    scale: float
    begin: int
    end: int


@dataclass(frozen=True)
class LearnOps:
    """Operations on whole sequences, with gradients: what learning does between its products."""

    norm: Callable[[Tensor, Tensor, float], Tensor]  # x [..., H], weight [H], eps
    # a product [..., H], the residual [..., H], norm [H], eps -> their sum, with that norm
    add_norm: Callable[[Tensor, Tensor, Tensor, float], Normed]
    swiglu: Callable[[Tensor], Tensor]  # gate beside up [..., 2 inner] -> silu(gate) * up [..., inner]
    attend: LearnAttend
    # x [..., inputs], weight [outputs, inputs], bias, pairs in the order of their rows, share of x that they do not
    # see -> x weight + bias + the sum of scale * b (a x) [..., outputs]
    low_rank: Callable[[Tensor, Tensor, Tensor | None, Sequence[LowRank], float], Tensor]


EIGHT = "uint8"
"""The type of a matrix in 8 bits: its bytes, in the layout of the device."""
GROUP, SMALL_GROUP = 32, 8
"""Inputs of a matrix in 8 bits that share a scale; small groups are for matrices whose errors are heard most."""


def grouped_shape(shape: tuple[int, ...], group: int) -> tuple[int, ...]:
    """The shape of the bytes of matrices [..., outputs, inputs] on a card: inputs, then a float16 for each group."""
    return (*shape[:-1], shape[-1] + 2 * shape[-1] // group)


def type_name(dtype: object) -> str:
    """The name of a type of numbers, of PyTorch or of NumPy: "float32"."""
    return str(dtype).removeprefix("torch.")


class TextParts(NamedTuple):
    """Weights and biases of the MLP between the table of the text and its rows."""

    inner: Tensor  # [M, W]
    inner_bias: Tensor
    out: Tensor  # [H, M]
    out_bias: Tensor


@dataclass(frozen=True)
class EightBits:
    """Makes matrices in 8 bits, for devices whose operations take them in the place of others."""

    size_bytes: Callable[[int, int, bool], int]  # outputs, inputs, paired -> bytes of a matrix
    # weight [outputs, inputs] float32, its bytes (written), paired: gate over up, whose blocks take turns. A ValueError
    # says why a weight cannot be used
    make: Callable[[np.ndarray, np.ndarray, bool], None]
    sum_of: Callable[[np.ndarray], str]  # bytes, a multiple of 64 -> digits that change if a byte does
    # requests that are best made together: while someone listens, and for a file
    together: tuple[int, int]


@dataclass(frozen=True)
class Ops:
    """Operations of the language side. The plain versions are in `kernels/plain.py` and `kernels/plain_frame.py`."""

    linear: Linear
    norm: Callable[[Normed], Tensor]  # -> [..., H]
    norm_linear: Callable[[Normed, Tensor], Tensor]  # weight [outputs, H] -> [..., outputs]
    norm_swiglu: Callable[[Normed, Tensor], Tensor]  # gate_up [2 inner, H] -> silu(gate) * up [..., inner]
    # x [..., inputs], weight [H, inputs], residual [..., H], norm [H], eps -> residual + x weight, with that norm
    linear_add: Callable[[Tensor, Tensor, Tensor, Tensor, float], Normed]
    attend_cached: AttendCached
    choose: Choose
    experts: Callable[[Tensor, Tensor, float, ExpertBlock], Tensor]  # x [..., H], norm [H], eps -> x + experts(norm(x))
    # table, slots [B] -> input rows [B, H], positions [B], frames made [B], whether each may advance [B] bool
    begin: Callable[[Columns, Tensor], tuple[Tensor, Tensor, Tensor, Tensor]]
    # columns [slots] each, slots [B] -> the entries of these slots [B], column by column
    pick: Callable[[Sequence[Tensor], Tensor], list[Tensor]]
    first_scores: FirstScores
    finish: FinishFrame
    # hidden states [B, H], head [V, H] -> logits [B, V] in float32, whatever the precision of the operands
    scores: Callable[[Tensor, Tensor], Tensor]
    learn: LearnOps
    eight: EightBits | None = None  # None: matrices have to be floats
    # weight [..., outputs, inputs], inputs that share a scale -> a matrix in 8 bits, on its own device; a ValueError
    # says why there is none. None: `eight` makes them, or they have to be floats
    pack: Callable[[Tensor, int], Tensor] | None = None
    # as `choose`, and a table, rows [codes, W] -> codes [B], and their rows [B, W]; a code beyond the table gets its
    # last row. None: `choose`, then an embedding
    choose_row: ChooseRow | None = None
    codec: CodecOps | None = None  # None: the codec runs its own layers
    fuse_stack: FuseStack | None = None
    # the talker's head, the MLP of text rows [N, W] -> [N, H] -> that MLP as one operation, or None
    fuse_text: Callable[[Tensor, TextParts], Callable[[Tensor], Tensor] | None] | None = None
    # the same operations for contexts of thousands of rows; None: this table is used. There, `width` of attend_cached
    # must be exact for several rows of one slot: the position after the last of them
    long: Ops | None = None
    # layers, final norm, kv heads, eps -> the stack for one position a slot; None where it does not suit
    fuse_step: Callable[[Sequence[LayerWeights], Tensor, int, float], FusedStep | None] | None = None
    # the predictor's part of a frame as one operation; None where it does not suit the shapes or the device
    fuse_predictor: Callable[[PredictorParts], FusedPredictor | None] | None = None
    # whether a row has the same bits in a batch of any size
    exact: bool = False
    # a whole frame of slots [B] as one operation, or None where the model's stacks are not fused ones of the device
    fuse_frame: Callable[[FrameParts], Callable[[Tensor], None] | None] | None = None


@dataclass(frozen=True)
class Product:
    """y = activation(weight [x(t), x(t + dilation), ...] + bias): a linear layer or convolution of the codec."""

    weight: Tensor  # [outputs, taps * inputs] operands
    bias: Tensor | None = None  # [outputs] float32
    taps: int = 1
    dilation: int = 1
    eps: float | None = None  # of an RMS norm of x before the product; its weight is folded into `weight`
    activation: str = ""  # "snake", "gelu", "swiglu" (silu of the first half times the second), or none
    scale: Tensor | None = None  # [outputs] float32, of snake
    inverse: Tensor | None = None
    counts: Tensor | None = None  # int32 semaphores of kernels that split one product; zeros before and after
    columns: int = 0  # per frame, if calls consist of whole frames; 0: any number


Unit = tuple[Product, Product]
"""A residual unit of the codec: convolution and pointwise."""


class CodecProduct(Protocol):
    """As `plain_codec.product`."""

    def __call__(
        self,
        x: Tensor,
        layer: Product,
        residual: Tensor | None = None,
        before: Tensor | None = None,
        out: Tensor | None = None,
    ) -> None: ...


@dataclass(frozen=True)
class DecoderParts:
    """A decoder that begins with code books: its weights, and the state of its slots. For devices that run it as one
    operation; the layers are those of `models/slot_decoder.py`. They are made each time they are asked for.
    """

    books: Tensor  # [G, V, W] float32
    opening: Product
    layers: Sequence[Any]  # of the transformer
    leaving: Product
    stretches: Sequence[Any]
    widen: Product
    rises: Sequence[Any]
    closing: Tensor  # [taps, C] float32
    closing_bias: Tensor  # [1]
    tracks: Tracks
    rates: Tensor  # [D / 2] float32: rotation per frame, in radians
    window: int
    samples: int  # a frame
    history: Tensor  # [slots, kept], written as the rest
    frames: Tensor  # [slots] int64
    keys: Tensor  # [layers, slots, heads, ring, D]
    values: Tensor
    size_bytes: int  # of the decoder's weights in float32


class FusedDecoder(Protocol):
    threads: int  # of a call

    def __call__(self, codes: Tensor, slots: Tensor, /) -> Tensor:
        """codes [B, T, G] of slots [B] -> sound [B, samples]."""
        ...


@dataclass(frozen=True)
class CodecOps:
    """Operations of the streaming codec. The plain versions are in `kernels/plain_codec.py`; results are written
    into tensors of the caller."""

    operand: torch.dtype  # number format of the inputs of products; sums are float32
    # codes [B, T, G], books [G, V, W] float32 -> out [B, T, 2 W] operands
    embed_codes: Callable[[Tensor, Tensor, Tensor], None]
    product: CodecProduct
    # x, convolution, pointwise, residual [B, columns, C] in place if the flag is set, out [B, columns, C]
    residual_unit: Callable[[Tensor, Product, Product, Tensor, bool, Tensor], None]
    attend: CodecAttend
    # x [B, columns + taps - 1, C], weight [taps, C], bias [C], eps -> out [B, columns, C]: depthwise, then layer norm
    depthwise_norm: Callable[[Tensor, Tensor, Tensor, float, Tensor], None]
    # x [B, columns + taps - 1, C], weight [taps, C], bias [1] -> sound [B, columns] float32 in -1..1
    output_conv: Callable[[Tensor, Tensor, Tensor, Tensor], None]
    # frames [slots], slots [B], cut, made [B, columns, C], the same before the activation or None: the first `cut`
    # columns become zero in streams that begin with this call
    zero_start: Callable[[Tensor, Tensor, int, Tensor, Tensor | None], None]
    # buffer, tracks, history [slots, kept], slots [B], frames of this call: the front of every track, from the slots
    load_history: Callable[[Tensor, Tracks, Tensor, Tensor, int], None]
    # buffer, tracks, history [slots, kept], slots [B], frames [slots] (advanced), frames of this call: the reverse
    store_history: Callable[[Tensor, Tracks, Tensor, Tensor, Tensor, int], None]
    warm_up: Callable[[Callable[[], None]], None]  # compile all kernels that the given function calls
    # the weights of a decoder, and whether large ones may be stored in float16 -> the decoder as one operation; None
    # where layer by layer is as fast
    fuse_decoder: Callable[[DecoderParts, bool], FusedDecoder | None] | None = None
    # one frame of one stream at a time, where it is not one operation: products round by the number of columns
    one_by_one: bool = False
    # input and product of the last rise; tracks of its units and of `output_conv`, the units (convolution and
    # pointwise), then what `output_conv` takes -> whether it ran all of this. It writes only those columns of the
    # tracks that the next call needs
    close: Callable[[Tensor, Product, Sequence[Tensor], Sequence[Unit], Tensor, Tensor, Tensor], bool] | None = None
