"""The sizes of every network, as config files give them; what an engine must know of a model; the rotation of
positions; and, for the networks that the compiled library calculates, the name and the shape of each tensor, as in the
modules. Does not import torch.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


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
    """Of a talker or a thinker. `vocabulary`: of a talker, audio codes and control ids together; of a thinker, the rows
    of its table, which may be more than there are tokens.
    """

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


LEAST_FRAMES = 2
"""The official generator of Qwen3-TTS cannot end before this many frames."""


@dataclass(frozen=True)
class Facts:
    """What the engine must know of a model to run it; all of it comes from config.json."""

    groups: int  # G
    codes: int  # audio codes per group: 0..codes-1
    vocabulary: int  # width of the group-0 logits
    end_code: int  # group-0 code that ends the speech
    hidden: int  # H
    sample_rate: int  # 24000
    samples_per_frame: int  # 1920
    max_positions: int  # prompt rows + frames that one request may have
    missing_samples: int = 0  # warm-up samples to drop from the start of each stream
    least_frames: int = LEAST_FRAMES  # the end code cannot be chosen before this many

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.samples_per_frame


# ---- the rotation of queries and keys by their positions

HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""Three numbers whose sum is pi / 2. The first has 33 bits, so that a product with a small integer is exact."""
SINE: tuple[float, ...] = (1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06)
SINE += (-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
COSINE: tuple[float, ...] = (-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07)
COSINE += (2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)
"""Coefficients of polynomials in x squared, for x up to pi / 4."""


def same_angles(positions: np.ndarray, head_dim: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of positions [N] below 100,000: two of [N, head_dim / 2] float32, with the same bits on every
    processor. Only sums and products of float64, one by one, then rounded.
    """
    rates = np.array([theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]).astype(np.float32)
    angle = (positions.astype(np.float32)[:, None] * rates).astype(np.float64)
    quarter = np.rint(angle * (2 / math.pi))
    for part in HALF_PI:
        angle -= quarter * part
    square = angle * angle
    sine, cosine = (np.zeros_like(square), np.zeros_like(square))
    for factor, other in zip(SINE, COSINE, strict=True):
        sine, cosine = sine * square + factor, cosine * square + other
    sine, cosine = angle + angle * square * sine, 1 - square / 2 + square * square * cosine
    turn = quarter.astype(np.int64) % 4
    found = [np.where(turn % 2, *pair) for pair in ((sine, cosine), (cosine, sine))]
    signs = np.where((turn == 1) | (turn == 2), -1, 1), np.where(turn >= 2, -1, 1)
    cos, sin = ((one * sign).astype(np.float32) for one, sign in zip(found, signs, strict=True))
    return cos, sin


# ---- tensors

Sizes = dict[str, tuple[int, ...]]
Table = dict[str, tuple[str, ...]]
"""Our name of a tensor -> its sizes by name, and the released names of what it is made of."""


def tables_in(text: str) -> dict[str, Table]:
    """The tables of tensors.txt, by name."""
    found = {}
    for table in text.strip().split("\n\n")[1:]:
        title, *rows = table.split("\n")
        found[title] = {name: tuple(more) for name, *more in (re.split("  +", row.strip()) for row in rows)}
    return found


TENSORS = tables_in(Path(__file__).with_name("tensors.txt").read_text("utf-8"))
"""`others`: the code groups after the first; `wide`: all heads together; `twice`: the rate of a rise."""


def sized(table: Table, numbers: Mapping[str, int], under: str = "") -> Sizes:
    """The tensors of a table, with `under` before their names."""
    return {f"{under}{name}": tuple(map(numbers.__getitem__, words.split())) for name, (words, *_) in table.items()}


def stack_sizes(shape: StackShape, under: str) -> Sizes:
    """A decoder stack without experts."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    numbers = vars(shape) | {"wide": wide, "qkv": wide + 2 * narrow, "gate_up": 2 * shape.inner}
    sizes: Sizes = {f"{under}norm": (shape.hidden,)}
    for index in range(shape.layers):
        sizes |= sized(TENSORS["stack layer"], numbers, f"{under}layers.{index}.")
    return sizes


def language_sizes(talker: TalkerShape, predictor: PredictorShape, vocabulary: int, width: int) -> Sizes:
    """Everything between text and codes. `vocabulary` and `width`: of the table of the text."""
    at, hidden, narrow = predictor, talker.stack.hidden, predictor.stack.hidden
    numbers = {"hidden": hidden, "narrow": narrow, "vocabulary": talker.vocabulary, "words": vocabulary}
    numbers |= {"others": at.groups - 1, "codes": at.codes, "width": width}
    sizes = stack_sizes(talker.stack, "talker.stack.") | sized(TENSORS["talker"], numbers, "talker.")
    sizes |= stack_sizes(at.stack, "predictor.stack.") | sized(TENSORS["predictor"], numbers, "predictor.")
    sizes |= sized(TENSORS["project"] if at.talker_hidden != narrow else {}, numbers, "predictor.")
    return sizes | sized(TENSORS["embedder"], numbers, "embedder.") | sized(TENSORS["text"], numbers, "text.")


def decoder_sizes(shape: DecoderShape) -> Sizes:
    """The codec's decoder."""
    at, wide = shape.transformer, shape.transformer.heads * shape.transformer.head_dim
    numbers = vars(at) | vars(shape) | {"wide": wide, "qkv": 3 * wide, "gate_up": 2 * at.inner, "one": 1}
    numbers |= {"others": shape.groups - 1, "expanded": shape.expansion * shape.latent}
    sizes = sized(TENSORS["decoder"] | TENSORS["upsampling"], numbers | {"last": shape.width >> len(shape.rises)})
    for index in range(at.layers):
        sizes |= sized(TENSORS["codec layer"], numbers, f"transformer.layers.{index}.")
    for index, rate in enumerate(shape.stretches):
        sizes |= sized(TENSORS["stretch"], numbers | {"rate": rate}, f"stretches.{index}.")
    for index, rate in enumerate(shape.rises):
        numbers |= {"inputs": shape.width >> index, "outputs": shape.width >> (index + 1), "twice": 2 * rate}
        sizes |= sized(TENSORS["rise"], numbers, f"rises.{index}.")
        for unit in range(len(shape.dilations)):
            sizes |= sized(TENSORS["unit"], numbers, f"rises.{index}.units.{unit}.")
    return sizes
