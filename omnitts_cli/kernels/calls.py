"""What the choice of a kernel needs to know of a call, and the conditions in the table of choose.py: whether a variant
suits the shapes of a call.

A call holds numbers only, so that the choice can also be asked for a card that is not here.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from omnitts_cli.kernels import tiles
from omnitts_cli.kernels.cpu.library import SMALL
from omnitts_cli.kernels.cuda import attend, codec_last, codec_tiles, layout, prefetched
from omnitts_cli.kernels.ops import (
    EIGHT,
    DecoderParts,
    ExpertBlock,
    FrameParts,
    LayerWeights,
    Normed,
    PredictorParts,
    Product,
    Unit,
    type_name,
)
from omnitts_cli.kernels.tiles import GATED

BF16, FP16, FP32 = "bfloat16", "float16", "float32"
HALVES = (BF16, FP16)
MOST_TRACKS = 64
"""The most tracks that the decoder in C takes."""


class ProductCall(NamedTuple):
    """A product of the talker, the predictor or the thinker."""

    rows: int
    dtype: str
    outputs: int  # gates and ups both count
    inputs: int
    neat: bool = True  # operands are contiguous, at addresses from which the copy engine can fetch
    normed_neat: bool = True  # the same after the norm


class AttentionCall(NamedTuple):
    rows: int  # requests
    dtype: str
    positions: int  # of each
    capacity: int
    heads: int
    kv_heads: int
    depth: int
    neat: bool = True


class MixtureCall(NamedTuple):
    rows: int
    dtype: str
    hidden: int
    inner: int
    shared: bool  # some experts process every row


class StackCall(NamedTuple):
    """A stack of layers that may become one operation. `rows` 0: for any number of rows."""

    rows: int
    dtype: str  # EIGHT: matrices in 8 bits
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    depth: int
    eps: float
    size_bytes: int
    layers: int
    groups: int = 0  # code groups and codes, of a predictor
    codes: int = 0


class FrameCall(NamedTuple):
    """A frame that may become one operation: the variants of its stacks."""

    rows: int
    dtype: str
    talker: str
    predictor: str


class TextCall(NamedTuple):
    rows: int
    dtype: str


class DecoderCall(NamedTuple):
    rows: int
    dtype: str
    tracks: int


class CodecCall(NamedTuple):
    """A product of the codec."""

    rows: int  # streams
    dtype: str  # of the weights
    columns: int
    inputs: int
    outputs: int  # of the weights: gates and ups both count
    taps: int
    dilation: int
    activation: str
    normed: bool = False
    biased: bool = True
    adds: bool = False  # a residual
    keeps: bool = False  # `before`
    gives: bool = True  # `out`
    splits: bool = True  # there are semaphores for products that are split
    frame: int = 0  # columns of a frame
    neat: bool = True
    even: tuple[bool, bool] = (True, True)  # addresses of the weights and of the result
    flat: bool = True  # what is added and written is contiguous
    halves: bool = True  # and float16, except `out`
    device: int = 0
    ordered: bool = False


class UnitCall(NamedTuple):
    """A residual unit of the codec."""

    rows: int
    dtype: str
    columns: int
    channels: int
    taps: int
    dilation: int
    frame: int = 0
    neat: bool = True
    even: tuple[bool, bool] = (True, True)
    halves: bool = True
    device: int = 0
    ordered: bool = False


class CloseCall(NamedTuple):
    """The last rise of the codec, its units and the sound."""

    rows: int
    dtype: str
    columns: int
    known: bool  # the layers are those of the released codec
    frame: int = 0
    neat: bool = True
    device: int = 0
    ordered: bool = False


# ---- facts of a call, from its arguments


def even(operand: Tensor) -> bool:
    return operand.data_ptr() % 16 == 0


def aligned(operand: Tensor) -> bool:
    return operand.is_contiguous() and even(operand)


def of_eight(x: Tensor, weight: Tensor) -> ProductCall:
    """With a matrix of bytes, which shows its outputs on a card only."""
    outputs = weight.shape[0] if len(weight.shape) == 2 else 0
    return ProductCall(x.numel() // x.shape[-1], EIGHT, outputs, x.shape[-1])


def of_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> ProductCall:
    if (dtype := type_name(weight.dtype)) == EIGHT:
        return of_eight(x, weight)
    outputs, inputs = weight.shape
    return ProductCall(x.numel() // inputs, dtype, outputs, inputs)


def of_normed(x: Normed, weight: Tensor) -> ProductCall:
    if (dtype := type_name(weight.dtype)) == EIGHT:
        return of_eight(x.rows, weight)
    outputs, inputs = weight.shape
    fit = aligned(weight) and x.rows.dtype == weight.dtype
    normed_neat = fit and (x.value is None or aligned(x.value))
    return ProductCall(x.rows.numel() // inputs, dtype, outputs, inputs, fit and aligned(x.rows), normed_neat)


def of_added(x: Tensor, weight: Tensor, residual: Tensor, norm: Tensor, eps: float) -> ProductCall:
    if type_name(weight.dtype) == EIGHT:
        return of_eight(x, weight)
    outputs, inputs = weight.shape
    neat = aligned(weight) and x.dtype == weight.dtype  # rows are made contiguous
    return ProductCall(x.numel() // inputs, type_name(weight.dtype), outputs, inputs, neat, neat)


def of_attention(
    qkv: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, cos: Tensor, sin: Tensor,
    keys: Tensor, values: Tensor, slots: Tensor, positions: Tensor, width: int,
) -> AttentionCall:  # fmt: skip
    kv_heads, capacity, depth = keys.shape[1:]
    heads = qkv.shape[-1] // depth - 2 * kv_heads
    neat = qkv.dtype == keys.dtype and qkv.is_contiguous() and keys.is_contiguous()
    return AttentionCall(
        positions.shape[0], type_name(qkv.dtype), positions.shape[1], capacity, heads, kv_heads, depth, neat
    )


def of_mixture(x: Tensor, norm: Tensor, eps: float, block: ExpertBlock) -> MixtureCall:
    every, hidden, inner = block.down.shape
    return MixtureCall(x.numel() // hidden, type_name(x.dtype), hidden, inner, every != block.count)


def of_stack(layers: Sequence[LayerWeights], norm: Tensor, kv_heads: int, eps: float) -> StackCall:
    first, hidden = layers[0], norm.shape[0]
    dtype = EIGHT if type_name(first.qkv.dtype) == EIGHT else type_name(norm.dtype)
    size = sum(weight.nbytes for layer in layers for weight in vars(layer).values())
    if dtype == EIGHT:  # a matrix of bytes does not show its shape
        return StackCall(0, dtype, hidden, 0, 0, kv_heads, first.q_norm.shape[0], eps, size, len(layers))
    depth = first.q_norm.shape[0]
    wide, inner = first.out.shape[1], first.down.shape[1]
    wanted = [(hidden,), (wide + 2 * kv_heads * depth, hidden), (depth,), (depth,), (hidden, wide), (hidden,)]
    wanted += [(2 * inner, hidden), (hidden, inner)]
    heads = wide // depth if all(shapes(layer) == wanted for layer in layers) else 0
    return StackCall(0, dtype, hidden, inner, heads, kv_heads, depth, eps, size, len(layers))


def shapes(layer: LayerWeights) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in vars(layer).values()]


def of_predictor(parts: PredictorParts) -> StackCall:
    call = of_stack(parts.layers, parts.norm, parts.kv_heads, parts.eps)
    (heads, codes, width), tables = parts.heads.shape, parts.tables.shape
    right = width == call.hidden and tuple(tables) == (heads - 1, codes, width)
    return call._replace(groups=heads + 1 if right else 0, codes=codes)


def of_frame(parts: FrameParts) -> FrameCall:
    talker, predictor = (getattr(stack, "variant", "") for stack in (parts.talker, parts.predictor))
    return FrameCall(0, "", talker, predictor)


def of_text(head: Tensor, parts: Any) -> TextCall:
    return TextCall(0, type_name(head.dtype))


def of_decoder(parts: DecoderParts, halves: bool) -> DecoderCall:
    return DecoderCall(0, type_name(parts.books.dtype), len(parts.tracks.parts))


def of_codec(
    x: Tensor, layer: Product, residual: Tensor | None = None, before: Tensor | None = None, out: Tensor | None = None,
    ordered: bool = False,
) -> CodecCall:  # fmt: skip
    rows, length, inputs = x.shape
    outputs, made = layer.weight.shape[0], before if out is None else out
    others = [one for one in (residual, before) if one is not None]
    every = others if out is None else [*others, out]
    return CodecCall(
        rows, type_name(layer.weight.dtype), length - (layer.taps - 1) * layer.dilation, inputs, outputs, layer.taps,
        layer.dilation, layer.activation, layer.eps is not None, layer.bias is not None, residual is not None,
        before is not None, out is not None, layer.counts is not None, layer.columns,
        x.dtype == layer.weight.dtype and aligned(x), (even(layer.weight), made is not None and even(made)),
        all(one.is_contiguous() for one in every), all(type_name(one.dtype) == FP16 for one in others), x.get_device(),
        ordered,
    )  # fmt: skip


def of_unit(
    x: Tensor, conv: Product, point: Product, residual: Tensor, keep: bool, out: Tensor, ordered: bool = False
) -> UnitCall:
    rows, columns, channels = residual.shape
    neat = x.dtype == conv.weight.dtype and aligned(x)
    return UnitCall(
        rows, type_name(conv.weight.dtype), columns, channels, conv.taps, conv.dilation, conv.columns, neat,
        (even(conv.weight), even(out)), type_name(residual.dtype) == FP16, x.get_device(), ordered,
    )  # fmt: skip


def of_close(
    x: Tensor, rise: Product, tracks: Sequence[Tensor], units: Sequence[Unit], weight: Tensor, bias: Tensor,
    sound: Tensor, ordered: bool = False,
) -> CloseCall:  # fmt: skip
    known = codec_last.suits(rise, units, weight)
    frame = units[0][0].columns if units else 0
    neat = not any(track.data_ptr() % 16 for track in tracks)
    return CloseCall(
        sound.shape[0], type_name(tracks[0].dtype), sound.shape[1], known, frame, neat, sound.get_device(), ordered
    )


# ---- shapes that a variant suits; "" or the reason why not

Fits = Callable[[Any], str]
UNKNOWN = "not written for these shapes"
UNTIMED = "not faster at these shapes and rows"


def released(blocks: Sequence[int], call: StackCall) -> str:
    """Stacks of the released models whose width is so many blocks of 1,024."""
    wide = call.hidden // 1024
    shape = call.hidden, call.inner, call.heads, call.kv_heads, call.depth, call.eps
    right = (1024 * wide, 3072 * wide, layout.HEADS, layout.KV_HEADS, layout.WIDE, 1e-6)
    return "" if wide in blocks and shape == right else UNKNOWN


def released_predictor(call: StackCall) -> str:
    right = (call.layers, call.groups, call.codes) == (5, 16, 2048)
    return released((1,), call) if right else UNKNOWN


def small(call: StackCall) -> str:
    return "" if call.size_bytes <= SMALL else f"more than {SMALL >> 20} MiB of weights: matrix products decide"


def stacks(variant: str, call: FrameCall) -> str:
    """Both stacks run as this variant."""
    return "" if call.talker == call.predictor == variant else f"the stacks do not run as {variant}"


def one_row(kind: int, call: ProductCall) -> str:
    outputs = call.outputs // 2 if kind == GATED else call.outputs
    return "" if tiles.row_tile(kind, outputs, call.inputs) else "no tile divides these sizes"


def few_rows(kind: int, call: ProductCall) -> str:
    outputs = call.outputs // 2 if kind == GATED else call.outputs
    return "" if tiles.few_tile(kind, call.rows, outputs, call.inputs) else "no tile divides these sizes"


def many_rows(kind: int, call: ProductCall) -> str:
    if not call.normed_neat:
        return "the copy engine cannot fetch these operands"
    return "" if tiles.many_rows_tile(kind, call.rows, call.outputs, call.inputs) else UNTIMED


def early(kind: int, call: ProductCall) -> str:
    """Products of prefetched.cu."""
    if not call.neat:
        return "the copy engine cannot fetch these operands"
    return "" if prefetched.tile_of(kind, call.rows, call.outputs, call.inputs) else UNTIMED


def compiled(kind: int, call: ProductCall) -> bool:
    return prefetched.compiled(kind, call.rows, call.outputs, call.inputs)


def heads_of_released(long: bool, call: AttentionCall) -> str:
    if (call.capacity > attend.SHORT) != long:
        return f"for caches of {'more than' if long else 'up to'} {attend.SHORT} positions"
    right = (call.heads, call.kv_heads, call.depth) == (attend.HEADS, attend.KV_HEADS, attend.DEPTH)
    return "" if right and call.positions == 1 and call.neat else UNKNOWN


def power(call: AttentionCall) -> str:
    return "" if call.depth & (call.depth - 1) == 0 and call.depth >= 16 else "heads are not a power of two wide"


def one_or_two(call: AttentionCall) -> str:
    shared = call.heads // call.kv_heads
    fits = call.positions <= 2 and call.positions * shared <= 16
    return power(call) or ("" if fits else "for one or two positions of a request")


def split(call: AttentionCall) -> str:
    fits = call.positions == 1 and call.heads // call.kv_heads <= 16
    return power(call) or ("" if fits else "for one position of a request")


def long_prompt(call: AttentionCall) -> str:
    return power(call) or ("" if call.rows == 1 and call.positions >= 64 else "for one prompt of 64 rows or more")


def few_tracks(call: DecoderCall) -> str:
    return "" if call.tracks <= MOST_TRACKS else f"for up to {MOST_TRACKS} tracks"


def vendor_heads(call: AttentionCall) -> str:
    return "" if call.depth % 16 == 0 else "heads are not a multiple of 16 wide"


def blocks_of_32(call: MixtureCall) -> str:
    return "the widths are not multiples of 32" if call.hidden % 32 or call.inner % 32 else ""


def not_shared(call: MixtureCall) -> str:
    return blocks_of_32(call) or ("not for shared experts" if call.shared else "")


def grouped(call: MixtureCall) -> str:
    return "not for shared experts" if call.shared else ""


def _tiled(kind: codec_tiles.Kind, enough: int, call: CodecCall | UnitCall) -> str:
    columns = codec_tiles.COLUMNS
    if call.ordered and (not call.frame or call.frame % columns):
        return "calls of every size have to use it, with --exact"
    if not call.ordered and call.rows * call.columns // columns < enough:
        return f"from {enough} blocks of {columns} columns on"
    most = codec_tiles.MOST_DILATION if kind.point else 1
    right = not call.columns % columns and call.dilation <= most and call.neat and call.even[1] and call.halves
    return "" if right else UNKNOWN


def kept_product(deep: bool, call: CodecCall) -> str:
    """Products of codec_resident.cu, or with `deep` of codec_stream.cu."""
    key = call.taps, call.inputs, call.outputs, call.adds
    kind = codec_tiles.PRODUCTS.get(key)
    if kind is None or bool(kind.stages) != deep or call.activation != "snake" or not call.biased:
        return UNKNOWN
    if not call.gives and (not call.keeps or kind.stages):
        return UNKNOWN
    return _tiled(kind, CODEC_PRODUCTS[key], call)


def kept_unit(channels: int, call: UnitCall) -> str:
    kind = codec_tiles.UNITS[channels]
    if call.channels != channels or call.taps != kind.taps:
        return UNKNOWN
    return _tiled(kind, CODEC_UNITS[channels], call)


def tiles_compiled(call: CodecCall | UnitCall) -> bool:
    if isinstance(call, UnitCall):
        kind = codec_tiles.UNITS[call.channels]
    else:
        kind = codec_tiles.PRODUCTS[call.taps, call.inputs, call.outputs, call.adds]
    return codec_tiles.compiled(kind, call.device) is not None


def plan_of(call: CodecCall) -> tiles.CodecPlan | None:
    """How the kernels with pointers compute a product."""
    gated = call.activation == "swiglu"
    outputs, special = call.outputs // (2 if gated else 1), call.normed or gated
    width, halves = call.taps * call.inputs, call.dtype in HALVES
    count = call.rows * call.columns
    return tiles.codec_plan(count, outputs, call.inputs, width, special, call.ordered, call.splits, halves)


def wide(call: CodecCall) -> str:
    plan = plan_of(call)
    if plan is None or plan.tile[0] != 64 or plan.parts != 1 or call.normed:
        return "for large products"
    if not call.biased or call.activation not in ("", "snake", "gelu") or not (call.neat and call.even[0]):
        return UNKNOWN
    rows, columns = call.rows, call.columns
    if call.taps == 1 and call.flat:
        rows, columns = 1, rows * columns  # streams as one
    return "" if tiles.wide_tile(rows, columns, call.inputs, call.outputs) else "for large products"


def pointers(call: CodecCall) -> str:
    return "" if plan_of(call) else "a tap has too few inputs"


def unit(call: UnitCall) -> str:
    large, rest = tiles.halves_of(call.channels)
    tile = tiles.UNIT_TILES.get(large) if call.dtype in HALVES and rest == large // 2 else None
    enough = tile is not None and tiles.ceiling(call.rows * call.columns, tile[0]) >= tiles.UNIT_ENOUGH
    return "" if enough else "for many columns of 96 or 192 channels"


def last(call: CloseCall) -> str:
    group, turns = codec_last.COLUMNS, call.rows * call.columns // codec_last.COLUMNS
    if call.ordered and (not call.frame or call.frame % group):
        return "calls of every size have to use it, with --exact"
    if not call.ordered and turns < CODEC_LAST:
        return f"from {CODEC_LAST} groups of {group} columns on"
    return "" if call.known and not call.columns % group and call.neat else UNKNOWN


def last_compiled(call: CloseCall) -> bool:
    return codec_last.compiled(call.device) is not None


CODEC_UNITS = {96: 240, 192: 160, 384: 1000}
"""Blocks of 64 columns from which codec_resident.cu, codec_stream.cu and codec_deep.cu are used, by channels. Measured
on an H200."""
CODEC_PRODUCTS = {(1, 384, 384, True): 1000, (2, 192, 288, False): 160, (2, 384, 768, False): 1200}
"""The same by taps, inputs, outputs, and whether a residual is added."""
CODEC_LAST = 400
"""The same for codec_last.cu, in groups of 192 columns."""
