"""The sizes of every network, as config files give them; and, for the networks that the compiled library calculates,
the name and the shape of each tensor, as in the modules. Does not import torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ExpertShape:
    """Sizes of one block of experts."""

    count: int  # E
    chosen: int  # K
    inner: int  # I
    shared: int  # width inside the shared expert; 0: there is none
    renormalised: bool = True  # the chosen ones' weights add up to one


@dataclass(frozen=True)
class StackShape:
    """Sizes of a decoder stack. `inner` is the width inside the MLP; 0 where experts stand in its place."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_theta: float
    experts: ExpertShape | None = None


@dataclass(frozen=True)
class TalkerShape:
    """`vocabulary` counts audio codes and control ids together."""

    stack: StackShape
    vocabulary: int


@dataclass(frozen=True)
class PredictorShape:
    """`talker_hidden` is the width of the talker; there is a projection if it differs from the stack's own."""

    stack: StackShape
    talker_hidden: int
    groups: int  # G
    codes: int  # per group


@dataclass(frozen=True)
class TransformerShape:
    """Sizes of either transformer. `inner` is the width inside the MLP."""

    hidden: int
    inner: int
    layers: int
    heads: int
    head_dim: int
    eps: float = 1e-5
    rope_theta: float = 10_000.0
    scale: float = 0.01  # of what each branch adds, in a new network


@dataclass(frozen=True, kw_only=True)
class UpsamplingShape:
    """Sizes of a decoder from the transformer on; a child adds `latent`, the width of the stretches."""

    groups: int  # G
    codes: int  # per group
    width: int  # of the first rise; each rise halves it
    transformer: TransformerShape
    window: int  # frames that each frame attends to, itself included
    stretches: tuple[int, ...]  # rates
    rises: tuple[int, ...]  # rates
    dilations: tuple[int, ...] = (1, 3, 9)
    kernel: int = 7
    expansion: int = 4
    norm_eps: float = 1e-6

    @property
    def samples_per_frame(self) -> int:
        """The product of all rates."""
        return math.prod(self.stretches) * math.prod(self.rises)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Samples cut at the beginning after each rise."""
        return (0,) * len(self.rises)

    @property
    def missing_samples(self) -> int:
        """Samples to drop from the start of each stream."""
        return self.cuts[-1]


@dataclass(frozen=True, kw_only=True)
class DecoderShape(UpsamplingShape):
    """Sizes of the decoder. Widths: book -> quantised -> latent -> width, halved by each rise -> sound."""

    book_width: int
    quantised: int
    latent: int
    opening_kernel: int = 3


@dataclass(frozen=True, kw_only=True)
class Code2WavShape(UpsamplingShape):
    """Sizes. Widths: the transformer's -> width, halved by each rise -> sound."""

    @property
    def latent(self) -> int:
        """The transformer's own width."""
        return self.transformer.hidden

    @property
    def cuts(self) -> tuple[int, ...]:
        """Samples cut at the beginning after each rise: those cut before, upsampled, and `rate` more."""
        lost = [0]
        for rate in self.rises:
            lost.append(lost[-1] * rate + rate)
        return tuple(lost[1:])


@dataclass(frozen=True)
class EncoderShape:
    """Sizes of the encoder. Widths: sound -> filters, doubled by each fall -> the transformer's width."""

    groups: int  # G; books beyond it are not kept
    codes: int  # per group
    book_width: int
    filters: int
    falls: tuple[int, ...]  # downsampling rates, in order
    transformer: TransformerShape
    last_fall: int = 2  # after the transformer
    dilations: tuple[int, ...] = (1,)  # of the residual units before each fall
    kernel: int = 7
    unit_kernel: int = 3
    closing_kernel: int = 3
    squeeze: int = 2  # factor by which a residual unit is narrower inside

    @property
    def samples_per_frame(self) -> int:
        """The product of all rates."""
        return math.prod(self.falls) * self.last_fall


@dataclass(frozen=True)
class MelShape:
    sample_rate: int = 24_000
    window: int = 1024  # samples; also the length of the transform
    hop: int = 256
    bands: int = 128
    lowest: float = 0.0  # Hz
    highest: float = 12_000.0

    @property
    def margin(self) -> int:
        """Samples mirrored at either end, so that n samples give n // hop columns."""
        return (self.window - self.hop) // 2


@dataclass(frozen=True)
class SpeakerShape:
    """Sizes of the encoder: one entry per block in `channels`, `kernels` and `dilations`, the last for the join."""

    embedding: int  # width of the vector
    channels: tuple[int, ...] = (512, 512, 512, 512, 1536)
    kernels: tuple[int, ...] = (5, 3, 3, 3, 1)
    dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    parts: int = 8  # of a block's channels; each part is added to the next
    gate: int = 128  # width inside the channel gates
    attention: int = 128  # width inside the pooling
    mel: MelShape = field(default_factory=MelShape)

    @property
    def shortest_columns(self) -> int:
        """The fewest columns: a convolution mirrors its input at the ends, and needs one column more than it
        mirrors."""
        reach = max((k - 1) * d for k, d in zip(self.kernels, self.dilations, strict=True))
        return (reach + 1) // 2 + 1

    @property
    def shortest_samples(self) -> int:
        """Samples of the shortest clip that it can encode."""
        return max(self.shortest_columns * self.mel.hop, self.mel.margin + 1)


# ---- tensors

Sizes = dict[str, tuple[int, ...]]


def _under(prefix: str, sizes: Sizes) -> Sizes:
    return {f"{prefix}.{name}": size for name, size in sizes.items()}


def _linear(outputs: int, *inputs: int) -> Sizes:
    return {"weight": (outputs, *inputs), "bias": (outputs,)}


def stack_sizes(shape: StackShape) -> Sizes:
    """A decoder stack without experts."""
    hidden, wide, depth = shape.hidden, shape.heads * shape.head_dim, shape.head_dim
    layer: Sizes = {
        "input_norm": (hidden,),
        "qkv": (wide + 2 * shape.kv_heads * depth, hidden),
        "q_norm": (depth,),
        "k_norm": (depth,),
        "out": (hidden, wide),
        "mlp_norm": (hidden,),
        "gate_up": (2 * shape.inner, hidden),
        "down": (hidden, shape.inner),
    }
    sizes: Sizes = {"norm": (hidden,)}
    for index in range(shape.layers):
        sizes |= _under(f"layers.{index}", layer)
    return sizes


def language_sizes(talker: TalkerShape, predictor: PredictorShape, vocabulary: int, width: int) -> Sizes:
    """Everything between text and codes. `vocabulary` and `width`: of the table of the text."""
    hidden, narrow, at = talker.stack.hidden, predictor.stack.hidden, predictor
    sizes = _under("talker.stack", stack_sizes(talker.stack)) | {"talker.head": (talker.vocabulary, hidden)}
    sizes |= _under("predictor.stack", stack_sizes(at.stack))
    sizes["predictor.heads"] = (at.groups - 1, at.codes, narrow)
    if at.talker_hidden != narrow:
        sizes |= _under("predictor.project", _linear(narrow, hidden))
    sizes["embedder.first"] = (talker.vocabulary, hidden)
    sizes["embedder.rest"] = (at.groups - 1, at.codes, hidden)
    sizes["text.table"] = (vocabulary, width)
    return sizes | _under("text.inner", _linear(width, width)) | _under("text.out", _linear(hidden, width))


def decoder_sizes(shape: DecoderShape) -> Sizes:
    """The codec's decoder."""
    latent, at, sizes = shape.latent, shape.transformer, Sizes()
    for side, count in (("leading", 1), ("residual", shape.groups - 1)):
        sizes[f"quantiser.{side}.books"] = (count, shape.codes, shape.book_width)
        sizes[f"quantiser.{side}.into.weight"] = (shape.book_width, shape.quantised)
        sizes[f"quantiser.{side}.out.weight"] = (shape.quantised, shape.book_width)
    sizes |= _under("opening.conv", _linear(latent, shape.quantised, shape.opening_kernel))
    sizes |= _under("transformer.into", _linear(at.hidden, latent)) | {"transformer.norm": (at.hidden,)}
    sizes |= _under("transformer.out", _linear(latent, at.hidden))
    wide = at.heads * at.head_dim
    layer: Sizes = {
        "attention_norm": (at.hidden,),
        "attention.qkv.weight": (3 * wide, at.hidden),
        "attention.out.weight": (at.hidden, wide),
        "attention_scale": (at.hidden,),
        "mlp_norm": (at.hidden,),
        "gate_up.weight": (2 * at.inner, at.hidden),
        "down.weight": (at.hidden, at.inner),
        "mlp_scale": (at.hidden,),
    }
    for index in range(at.layers):
        sizes |= _under(f"transformer.layers.{index}", layer)
    for index, rate in enumerate(shape.stretches):
        mix = _under("depthwise.conv", _linear(latent, 1, shape.kernel)) | _under("norm", _linear(latent))
        mix |= _under("up", _linear(shape.expansion * latent, latent))
        mix |= _under("down", _linear(latent, shape.expansion * latent)) | {"scale": (latent,)}
        rise: Sizes = {"rise.weight": (latent, latent, rate), "rise.bias": (latent,)}
        sizes |= _under(f"stretches.{index}", rise | _under("mix", mix))
    sizes |= _under("widen.conv", _linear(shape.width, latent, shape.kernel))
    for index, rate in enumerate(shape.rises):
        inputs, width = shape.width >> index, shape.width >> (index + 1)
        here = _snake("snake", inputs) | {"rise.conv.weight": (inputs, width, 2 * rate), "rise.conv.bias": (width,)}
        for unit in range(len(shape.dilations)):
            parts = _snake("before", width) | _snake("after", width)
            parts |= _under("wide.conv", _linear(width, width, shape.kernel)) | _under(
                "point", _linear(width, width, 1)
            )
            here |= _under(f"units.{unit}", parts)
        sizes |= _under(f"rises.{index}", here)
    last = shape.width >> len(shape.rises)
    return sizes | _snake("snake", last) | _under("closing.conv", _linear(1, last, shape.kernel))


def _snake(name: str, channels: int) -> Sizes:
    return {f"{name}.alpha": (channels,), f"{name}.beta": (channels,)}
