"""Compiled: a SpeechModel that runs in the compiled library of the CPU, on NumPy arrays. Does not import torch.

The library can run small models in float32, and models of any size in 8 bits.
"""

import mmap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from omnitts_cli.kernels.cpu import library, networks, quantised
from omnitts_cli.kernels.cpu.library import Library, QuantisedLibrary
from omnitts_cli.kernels.cpu.networks import Packed
from omnitts_cli.kernels.ops import Columns, EightBits, FrameParts, LayerWeights, TextParts
from omnitts_cli.kernels.tracks import Tracks
from omnitts_cli.models.codec_layout import (
    CodecLayout,
    Values,
    decoder_parts,
    host_array,
    host_product,
    kept_of,
    tracks_of,
)
from omnitts_cli.models.prompts import Place
from omnitts_cli.models.roles import KeyValues, Prefix, SlotDecoder, SpeechModel
from omnitts_cli.models.shapes import (
    DecoderShape,
    Facts,
    PredictorShape,
    StackShape,
    TalkerShape,
    decoder_sizes,
    same_angles,
)


@dataclass(frozen=True)
class Compute:
    """The library, and where the values of a model are."""

    native: Library
    bits: QuantisedLibrary
    eight: bool  # the matrices of the language side are in 8 bits
    language: Values  # a name -> its array: of floats in float32, of matrices in 8 bits their bytes
    entries: Callable[[np.ndarray], np.ndarray]  # tokens [N] -> their entries in the table of the text [N, W] float32
    decoder: Values
    packed: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Of PackedCodec and InputRows, if the matrices are in 8 bits."""

    @staticmethod
    def usable() -> bool:
        """Whether the library was compiled."""
        return bool(library.usable())

    @staticmethod
    def eight_bits() -> EightBits:
        """What makes matrices in 8 bits."""
        bits = library.load_quantised()
        assert bits is not None
        return quantised.table(bits)

    @staticmethod
    def over(eight: bool, *given: Any, **more: Any) -> "Compute":
        """With the best instruction set of this processor; the other fields are given."""
        native, bits = library.load(), library.load_quantised()
        assert native is not None and bits is not None
        return Compute(native, bits, eight, *given, **more)

    def networks(self, talker: TalkerShape, predictor: PredictorShape, decoder: DecoderShape) -> "CompiledNetworks":
        """The networks of these shapes."""
        return CompiledNetworks(self, talker, predictor, decoder)


CODEC, LINE = "codec.", 64  # before the names; bytes of a line of a cache
NamedArray = tuple[str, np.ndarray]


@dataclass(frozen=True)
class PackedCodec:
    """The weights of a decoder as the library reads them, to be kept beside matrices in 8 bits."""

    shape: DecoderShape

    def shapes(self) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
        """The types that each array may have, and its shape."""
        halves, found = networks.halves_fit(self.size_bytes), dict[str, tuple[tuple[str, ...], tuple[int, ...]]]()

        def make(name: str, fold: Any, size: tuple[int, int], biased: bool, **more: Any) -> None:
            weight, vectors = networks.packed_shapes(size, biased, halves, **more)
            found[f"{CODEC}{name}.weight"] = ("float32", "float16"), weight
            if vectors[0]:
                found[f"{CODEC}{name}.vectors"] = ("float32",), vectors

        def place(name: str, fold: Any, size: tuple[int, ...]) -> None:
            found[f"{CODEC}{name}"] = ("float32",), size

        CodecLayout.of(self.shape, _unread, make, place).whole()
        return found

    def made(self, values: Values) -> Iterator[NamedArray]:
        """All arrays, a layer at a time. Those whose size is not a multiple of LINE come last, so that the others begin
        at multiples of it.
        """
        halves, made, late = networks.halves_fit(self.size_bytes), list[NamedArray](), list[NamedArray]()

        def make(name: str, *given: Any, **more: Any) -> None:
            packed = networks.pack(host_product(name, *given, **more), halves)
            made.append((f"{CODEC}{name}.weight", packed.weight))
            if len(packed.vectors):
                made.append((f"{CODEC}{name}.vectors", packed.vectors))

        def place(name: str, *given: Any) -> None:
            made.append((f"{CODEC}{name}", host_array(name, *given)))

        layout = CodecLayout.of(self.shape, values, make, place)
        for _ in chain((None,), layout.layers, layout.stretches, layout.rises):
            late += [one for one in made if one[1].nbytes % LINE]
            yield from (one for one in made if one[1].nbytes % LINE == 0)
            made.clear()
        yield from late

    def layout(self, kept: Mapping[str, np.ndarray]) -> CodecLayout:
        """Of arrays that were kept; nothing is computed."""

        def make(name: str, fold: Any, size: tuple[int, int], biased: bool, columns: int = 0, **more: Any) -> Packed:
            nothing = np.empty((0, 0), np.float32)
            return Packed(kept[f"{CODEC}{name}.weight"], kept.get(f"{CODEC}{name}.vectors", nothing), size, **more)

        return CodecLayout.of(self.shape, _unread, make, lambda name, fold, size: kept[f"{CODEC}{name}"])

    @property
    def size_bytes(self) -> int:
        """Of all weights in float32."""
        return 4 * sum(map(prod, decoder_sizes(self.shape).values()))


PROJECT, ROWS = "predictor.project", "predictor.rows"


@dataclass(frozen=True)
class InputRows:
    """The rows that the predictor reads after each code; they are kept beside the matrices in 8 bits. A model whose
    predictor reads the talker's tables directly has none.
    """

    sizes: Mapping[str, tuple[int, ...]]  # of the language side

    def shapes(self) -> dict[str, tuple[tuple[str, ...], tuple[int, ...]]]:
        """As PackedCodec.shapes."""
        return {ROWS: (("float32",), self.sizes["predictor.heads"])} if f"{PROJECT}.weight" in self.sizes else {}

    def made(self, language: Values) -> Iterator[NamedArray]:
        """[G-1, codes, P] float32, from floats."""
        for name, (_, size) in self.shapes().items():
            bits, weight, bias = library.load_quantised(), language(f"{PROJECT}.weight"), language(f"{PROJECT}.bias")
            assert bits is not None
            matrix, rows = np.zeros(quantised.size_bytes(*weight.shape), np.uint8), np.empty(size, np.float32)
            quantised.make(bits, weight, matrix)
            tables = language("embedder.first")[: size[1]], *language("embedder.rest")[:-1]
            for table, out in zip(tables, rows, strict=True):
                out[:] = quantised.multiply(bits, table, matrix) + bias
            yield name, rows


def _unread(name: str) -> np.ndarray:
    raise AssertionError(f"{name} is not read")


class HostCache(KeyValues):
    """In arrays of NumPy. Memory is taken at the first write.

    Rows of prompts wait here for the next frame, so that the talker reads its weights once for both. Who reads keys or
    values before gets them too.
    """

    def __init__(self, stack: networks.NativeStack | quantised.QuantisedStack, shape: StackShape, slots: int,
                 capacity: int) -> None:  # fmt: skip
        sizes, kind = (shape.layers, slots, shape.kv_heads, capacity, shape.head_dim), stack.numbers or np.float32
        self._keys, self._values = _small_pages(sizes, kind), _small_pages(sizes, kind)
        self._stack, self._shape = stack, shape
        self.cos, self.sin = same_angles(np.arange(capacity), shape.head_dim, shape.rope_theta)
        self._waiting: list[networks.PromptRows] = []

    def add(self, rows: np.ndarray, positions: np.ndarray, slots: np.ndarray) -> None:
        """Rows [B, P, H] of prompts at positions [B, P] of `slots` [B]. The arrays must not change."""
        each = np.broadcast_to(slots[:, None], positions.shape)
        self._waiting.append((rows.reshape(-1, rows.shape[2]), each.ravel(), positions.ravel()))

    def taken(self) -> networks.PromptRows | None:
        """The rows that wait; the caller writes their keys and values."""
        if not self._waiting:
            return None
        rows, slots, positions = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting.clear()
        return rows, slots, positions

    def _write(self) -> None:
        if (taken := self.taken()) is not None:
            rows, slots, positions = taken
            self._stack(rows[:, None], positions[:, None], slots, self.cos, self.sin, self._keys, self._values)

    @property
    def keys(self) -> np.ndarray:
        """[layers, slots, kv heads, capacity, D]"""
        self._write()
        return self._keys

    @property
    def values(self) -> np.ndarray:
        """The same."""
        self._write()
        return self._values

    @property
    def capacity(self) -> int:
        """As in KeyValues."""
        return self._keys.shape[3]

    def prefix(self, rows: int, slot: int) -> Prefix:
        """As in KeyValues."""
        at = slice(slot, slot + 1)
        return self.keys[:, at, :, :rows].copy(), self.values[:, at, :, :rows].copy()


def _small_pages(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """Zeros that take memory as they are written. NumPy asks for pages of 2 MiB, and every head of every slot would
    take one.
    """
    size = max(1, prod(shape) * np.dtype(kind).itemsize)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return np.frombuffer(mmap.mmap(-1, size, **private), kind, prod(shape)).reshape(shape)


class HostText:
    """Rows of text."""

    def __init__(self, compute: Compute) -> None:
        names = "text.inner.weight", "text.inner.bias", "text.out.weight", "text.out.bias"
        self._entries = compute.entries
        self._rows = networks.text_rows(compute.bits, TextParts(*map(compute.language, names)))

    def rows(self, ids: np.ndarray, place: Place) -> np.ndarray:
        """[N] -> [N, H]; a row has the same bits in every text."""
        made: np.ndarray = self._rows(self._entries(ids))
        return made


class HostCodes:
    """The tables of the code groups."""

    def __init__(self, compute: Compute) -> None:
        self.first, self.rest = (compute.language(f"embedder.{name}") for name in ("first", "rest"))

    def control(self, ids: np.ndarray) -> np.ndarray:
        """Rows of group 0's table: [...] -> [..., H]."""
        return self.first[ids]

    def frame(self, codes: np.ndarray) -> np.ndarray:
        """[..., G] -> [..., H], the sum over the groups."""
        total = self.first[codes[..., 0]]
        for group, table in enumerate(self.rest, 1):
            total = total + table[codes[..., group]]
        return total


class CompiledNetworks:
    """Talker, predictor, tables and codec of one model."""

    def __init__(self, compute: Compute, talker: TalkerShape, predictor: PredictorShape, decoder: DecoderShape) -> None:
        self.compute, self._predictor = compute, predictor
        self.talker_shape, self.decoder_shape = talker.stack, decoder
        self.text, self.codes = HostText(compute), HostCodes(compute)
        self.talker = self._stack("talker", talker.stack)
        self._small = self._stack("predictor", predictor.stack)
        self._head, self._heads = compute.language("talker.head"), compute.language("predictor.heads")
        self._project: tuple[np.ndarray, np.ndarray] | None = None
        if predictor.talker_hidden != predictor.stack.hidden:
            self._project = compute.language(f"{PROJECT}.weight"), compute.language(f"{PROJECT}.bias")
        self._inputs = self._tables()

    def _stack(self, name: str, shape: StackShape) -> networks.NativeStack | quantised.QuantisedStack:
        of, names = self.compute.language, [field.name for field in fields(LayerWeights)]
        blocks = (
            LayerWeights(**{part: of(f"{name}.stack.layers.{index}.{part}") for part in names})
            for index in range(shape.layers)
        )
        norm = of(f"{name}.stack.norm")
        if self.compute.eight:
            return quantised.QuantisedStack(self.compute.bits, list(blocks), norm, shape.kv_heads, shape.eps)
        return networks.NativeStack(self.compute.native, blocks, norm, shape.kv_heads, shape.eps)

    def _tables(self) -> list[np.ndarray]:
        """The predictor's input rows after codes of groups 0..G-2."""
        if ROWS in self.compute.packed:
            return list(self.compute.packed[ROWS])
        tables = [self.codes.first[: self._predictor.codes], *self.codes.rest[:-1]]
        if self._project is None:
            return tables
        weight, bias = self._project
        return [table @ weight.T + bias for table in tables]

    def frame(self, table: Columns, cache: HostCache, stall: int, facts: Facts) -> Callable[[np.ndarray, int], None]:
        """What advances slots [B] by one frame; the second argument is not needed here."""
        at = self._predictor.stack
        controls: Any = table.controls  # type: ignore[attr-defined]
        parts = FrameParts(
            talker=self.talker, predictor=self._small, cache=cache,
            turns=same_angles(np.arange(self._predictor.groups), at.head_dim, at.rope_theta),
            head=self._head, heads=self._heads, project=self._project, inputs=self._inputs,
            first=self.codes.first, rest=self.codes.rest, table=table, controls=controls,
            end=facts.end_code, least_frames=facts.least_frames, stall=stall,
        )  # fmt: skip
        if self.compute.eight:
            made = quantised.fuse_frame(self.compute.bits, parts)
        else:
            made = networks.fuse_frame(self.compute.native, parts)
        return lambda slots, width: made(slots, cache.taken())


class HostDecoder(SlotDecoder):
    """The codec's decoder in the library."""

    in_c = True

    def __init__(self, compute: Compute, shape: DecoderShape, slots: int, longest: int) -> None:
        at, tracks = shape.transformer, Tracks(tuple(tracks_of(shape)), None)
        rings = at.layers, slots, at.heads, shape.window - 1 + longest, at.head_dim
        self._history, self._frames = np.zeros((slots, kept_of(shape)), np.float32), np.zeros(slots, np.int64)
        keys, values = np.zeros(rings, np.float32), np.zeros(rings, np.float32)
        codec = PackedCodec(shape)
        if compute.packed:
            layout = codec.layout(compute.packed)
        else:
            layout = CodecLayout.of(shape, compute.decoder, host_product, host_array)
        state = {"history": self._history, "frames": self._frames, "keys": keys, "values": values}
        parts = decoder_parts(layout, shape, tracks, np.ascontiguousarray, codec.size_bytes, **state)
        self.decode = networks.NativeDecoder(compute.native, parts, compute.eight)
        self.beside = self.decode.threads == 1

    def clear(self, slots: np.ndarray) -> None:
        """As in SlotDecoder."""
        self._history[slots] = 0
        self._frames[slots] = 0


@dataclass(kw_only=True)
class Compiled(SpeechModel):
    """All roles are in `networks`."""

    networks: CompiledNetworks

    @property
    def precision(self) -> str:
        """As in SpeechModel, like all that follow."""
        return "q8" if self.networks.compute.eight else "float32"

    @property
    def together(self) -> tuple[int, int] | None:
        """Set for matrices in 8 bits."""
        return Compute.eight_bits().together if self.networks.compute.eight else None

    @cached_property
    def stream_bytes(self) -> int:
        """Of one slot of the decoder."""
        shape = self.networks.decoder_shape
        at = shape.transformer
        keys = at.layers * at.heads * (shape.window - 1) * at.head_dim
        return 4 * (kept_of(shape) + 2 * keys) + 8  # and the number of frames

    def cache(self, slots: int, capacity: int) -> HostCache:
        """Keys and values of the talker."""
        return HostCache(self.networks.talker, self.networks.talker_shape, slots, capacity)

    def prefill(self, rows: Any, start: Any, slots: Any, cache: KeyValues, width: int) -> None:
        """Rows of prompts into the cache."""
        cache.add(rows, start[:, None] + np.arange(rows.shape[1]), slots)

    def frames(self, table: Columns, cache: KeyValues, stall: int) -> Callable[[Any, int], None]:
        """One call of the library, or of the operations."""
        return self.networks.frame(table, cache, stall, self.facts)

    def decoder(self, slots: int, longest: int) -> HostDecoder:
        """The codec with slots."""
        return HostDecoder(self.networks.compute, self.networks.decoder_shape, slots, longest)

    def check(self) -> None:
        """Calls of the library have ended when they return."""
