"""The networks in C, for arrays of NumPy or tensors on a CPU: a decoder stack, a whole frame of many slots, rows of the
text, and the codec's decoder, each as one call. Results are arrays of NumPy. Does not import torch.

Structures have the fields of their namesakes in `native/*.c`, in the same order. The weights of a large codec are read
from memory for every chunk, so with `halves` its large matrices are stored in float16, and its layers are dealt to
threads. Sums are float32 in any case. Weights in 8 bits are in quantised.py.
"""

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from omnitts_cli.kernels.cpu import library
from omnitts_cli.kernels.ops import DecoderParts, FrameParts, LayerWeights, Product, TextParts, type_name

SMALL, N, P = library.SMALL, library.N, library.P
PANEL = 16
FLOATS, WORDS, NORMED, HALVES = range(4)
MOST_THREADS = 64
REAL, WHOLE, FLAG = np.float32, np.int64, np.bool_
ACTIVATIONS = ("", "snake", "gelu", "swiglu")
LARGE = 128 << 10
"""Products of more weights than this are dealt to threads by outputs; those of fewer by columns."""
TOGETHER = 16  # panels that are compared at once
ROUNDING = 2**-11
"""The most that storing a matrix in float16 may change it, relative to its root mean square. Beyond float16's range,
and far below it, matrices stay in float32."""


# ---- structures


class Matrix(ctypes.Structure):
    _fields_ = [("weight", P), ("form", N), ("norm", P)]


class Layer(ctypes.Structure):
    _fields_ = [("qk_norm", P), *((name, Matrix) for name in ("qkv", "out", "gate_up", "down"))]


class QuantisedLayer(ctypes.Structure):
    _fields_ = [(name, P) for name in ("input_norm", "qk_norm", "mlp_norm", "qkv", "out", "gate_up", "down")]


class Stack(ctypes.Structure):
    _fields_ = [
        *((name, N) for name in ("hidden", "inner", "heads", "kv_heads", "depth", "layers")),
        ("eps", ctypes.c_float),
        ("norm", P),
        ("layer", P),
    ]


class Text(ctypes.Structure):
    _fields_ = [
        *((name, P) for name in ("inner", "inner_bias", "out", "out_bias")),
        *((name, N) for name in ("width", "middle", "outputs")),
    ]


class Cache(ctypes.Structure):
    _fields_ = [(name, P) for name in ("keys", "values", "cos", "sin")] + [("slots", N), ("capacity", N)]


class Prompts(ctypes.Structure):
    _fields_ = [*((name, P) for name in ("rows", "slots", "positions")), ("count", N)]


class Frame(ctypes.Structure):
    _fields_ = [
        ("talker", P),
        ("predictor", P),
        ("cache", Cache),
        *((name, P) for name in ("rope_cos", "rope_sin", "head", "heads", "project", "project_bias", "inputs")),
        *((name, P) for name in ("first", "rest")),
        *((name, N) for name in ("vocabulary", "audio", "end", "groups", "codes", "least_frames", "stall")),
        *((name, N) for name in ("text_rows", "frames")),
        *((name, P) for name in ("row", "text", "pad")),
        *((name, P) for name in ("position", "made", "stop", "limit", "made_codes", "reference", "last", "repeats")),
        *((name, P) for name in ("written", "live", "closed", "seen")),
        *((name, P) for name in ("seed", "top_k", "predictor_top_k")),
        *((name, P) for name in ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")),
        ("ignore_end", P),
    ]


class OfProduct(ctypes.Structure):
    _fields_ = [
        *((name, P) for name in ("weight", "bias", "scale", "inverse")),
        *((name, N) for name in ("outputs", "inputs", "taps", "dilation", "activation", "form", "quads")),
        ("eps", ctypes.c_float),
    ]


class DecoderLayer(ctypes.Structure):
    _fields_ = [(name, OfProduct) for name in ("qkv", "out", "gate_up", "down")]


class Stretch(ctypes.Structure):
    _fields_ = [
        *((name, OfProduct) for name in ("rise", "up", "down")),
        ("weight", P),
        ("bias", P),
        ("taps", N),
        ("eps", ctypes.c_float),
    ]


class Unit(ctypes.Structure):
    _fields_ = [("conv", OfProduct), ("point", OfProduct)]


class Rise(ctypes.Structure):
    _fields_ = [("rise", OfProduct), ("unit", P), ("units", N)]


class Track(ctypes.Structure):
    _fields_ = [(name, N) for name in ("past", "rate", "channels")]


class Decoder(ctypes.Structure):
    _fields_ = [
        *((name, OfProduct) for name in ("opening", "leaving", "widen")),
        *((name, P) for name in ("layer", "stretch", "rise", "track", "books", "closing", "closing_bias", "rates")),
        *((name, N) for name in ("layers", "stretches", "rises", "tracks", "groups", "codes", "book", "closing_taps")),
        *((name, N) for name in ("heads", "depth", "window", "ring", "slots", "kept", "samples", "large")),
        *((name, P) for name in ("history", "keys", "values", "frames")),
    ]


MANY = {"layer": ("layers", DecoderLayer), "stretch": ("stretches", Stretch), "rise": ("rises", Rise),
        "unit": ("units", Unit)}  # fmt: skip
"""Fields that are addresses of structures: the name of their parts, and what each becomes."""
VECTORS = ((), ("bias",), ("scale", "inverse"), ("bias", "scale", "inverse"))
"""The rows of a packed product's `vectors`, by their number."""


# ---- arrays

RUNNING, IDLE = "/proc/loadavg", "/proc/uptime"
"""Linux: how many threads run or want to, at this moment; and for how many seconds all cores together were idle."""
LEFT_CORES, LOOK_S, CROWD = 1.5, 0.05, 3
"""Cores that other programs must have left since the last look for a second thread to find one. Looks are not closer
together than this, because idle time is counted in steps of 10 ms. Threads of each core that run at a moment when many
programs have just begun; on an idle machine, five were seen on two cores."""


@dataclass
class Cores:
    """Whether other programs leave a core to a second thread."""

    count: int
    clock: Callable[[], float] = time.monotonic
    _left: bool = False
    _seen: tuple[float, float, int] | None = None

    def leave_one(self) -> bool:
        """Since the last look, on average, and at this moment. The first look says no."""
        seen = self._look() if self.count > 1 else None
        if seen is None:
            return False
        self._seen = self._seen or seen
        passed = seen[0] - self._seen[0]
        if passed >= LOOK_S:
            left = seen[1] - self._seen[1]
            self._left, self._seen = left >= LEFT_CORES * passed, seen
        return self._left and seen[2] <= CROWD * self.count

    def _look(self) -> tuple[float, float, int] | None:
        """The time, the seconds of all cores that were idle or ours until then, and the threads that run now."""
        try:
            with open(IDLE) as idle, open(RUNNING) as running:
                ours = float(idle.read().split()[1]) + time.process_time()
                return self.clock(), ours, int(running.read().split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):  # not Linux
            return None


_chosen: dict[str, Any] = {"threads": None, "cores": Cores(1)}


def use_threads(count: int | None, cores: int) -> None:
    """Sets `threads`; None: as many as torch uses. `cores`: how many may work at once."""
    _chosen.update(threads=count, cores=Cores(cores))


def threads() -> int:
    """Of a call."""
    count = _chosen["threads"]
    if count is None:
        count = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 1
    return min(count, MOST_THREADS)


def threads_awaited() -> int:
    """The threads of a call that a first sound waits for, and that has one otherwise: two if a core is left for the
    second. On a busy machine, the call would wait for it.
    """
    return 2 if _chosen["cores"].leave_one() else 1


def check(status: int) -> None:
    if status:
        raise MemoryError("the CPU library ran out of memory")


def single(array: Any) -> np.ndarray:
    """The numbers in float32, contiguous."""
    return np.ascontiguousarray(array if isinstance(array, np.ndarray) else array.float(), np.float32)


def panels(weight: Any, norm: Any = None, parts: int = 1) -> np.ndarray:
    """[outputs, inputs] -> [outputs / PANEL, inputs, PANEL]. Each of so many equal parts begins a panel, and its last
    panel is padded with zeros. `norm` [inputs] is multiplied in.
    """
    given = np.asarray(weight)
    outputs, inputs = given.shape[0] // parts, given.shape[1]
    by = given.dtype.type(1) if norm is None else np.asarray(norm)[:, None]
    made = np.empty((parts, -(-outputs // PANEL), inputs, PANEL), given.dtype)
    whole = outputs // PANEL
    for part, target in zip(given.reshape(parts, outputs, inputs), made, strict=True):
        np.multiply(part[: whole * PANEL].reshape(whole, PANEL, inputs).swapaxes(1, 2), by, out=target[:whole])
        for last in target[whole:]:
            rest = part[whole * PANEL :].T
            last[:, : rest.shape[1]], last[:, rest.shape[1] :] = rest * by, 0
    return made.reshape(-1, inputs, PANEL)


def words(weight: Any) -> np.ndarray | None:
    """[outputs, inputs] -> [outputs, inputs / 2] uint32 of two weights in bfloat16; None if that would change one."""
    bits = np.asarray(weight).view(np.uint32)
    if bits.shape[1] % 2 or np.bitwise_or.reduce(bits, axis=None) & 0xFFFF:
        return None
    return bits[:, ::2] >> 16 | bits[:, 1::2]


def matrix_of(kept: list[Any], weight: Any, norm: Any = None, parts: int = 1) -> Matrix:
    """As language.c reads it: what checkpoints store in bfloat16 as words, with the norm beside it. `kept` gets the
    arrays to which the structure points.
    """
    short = words(weight)
    made = panels(weight, norm, parts) if short is None else panels(short, None, parts)
    kept += made, norm
    form = FLOATS if short is None else WORDS if norm is None else NORMED
    return Matrix(address(made, made.dtype), form, None if norm is None else address(norm))


def address(array: Any, kind: Any = np.float32) -> int:
    """The address of an array's data. The caller keeps the array alive while C uses the address."""
    if not isinstance(array, np.ndarray):
        assert array.device.type == "cpu" and type_name(array.dtype) == np.dtype(kind).name
        array = np.asarray(array)
    assert array.dtype == kind and array.flags.c_contiguous
    found: int = array.__array_interface__["data"][0]
    return found


# ---- between text and codes


class NativeStack:
    """A stack of layers with its weights in panels; the same call as `stack.FusedStack`."""

    variant = "language.c"
    most_rows = sys.maxsize
    numbers = None

    def __init__(
        self, native: library.Library, blocks: Iterable[LayerWeights], norm: Any, kv_heads: int, eps: float
    ) -> None:
        self._native, self._kept, made = native, list[Any](), list[Layer]()
        for block in blocks:  # may be read from a file one by one
            made.append(_layer(self._kept, block, kv_heads))
            depth, (hidden, inner), wide = block.q_norm.shape[0], block.down.shape, block.out.shape[1]
        self._others = layers, norm = (Layer * len(made))(*made), single(norm)
        where = address(norm), ctypes.addressof(layers)
        self.struct = Stack(hidden, inner, wide // depth, kv_heads, depth, len(layers), eps, *where)

    def __call__(self, rows: Any, positions: Any, slots: Any, cos: Any, sin: Any, keys: Any, values: Any) -> Any:
        return run(self._native.stack, self.struct, rows, positions, slots, cache_of(cos, sin, keys, values))


def run(
    call: Callable[..., int], struct: Stack, rows: Any, positions: Any, slots: Any, cache: Cache, *more: int
) -> Any:
    """The call of a stack on rows [B, P, H]."""
    given, at = np.ascontiguousarray(np.asarray(rows)), np.ascontiguousarray(np.asarray(positions))
    each = np.ascontiguousarray(np.broadcast_to(np.asarray(slots)[:, None], at.shape))  # [B, P]
    out = np.empty_like(given)
    where = address(given), at.size, address(each, WHOLE), address(at, WHOLE), address(out)
    check(call(ctypes.byref(struct), ctypes.byref(cache), *where, *more))
    return out


def cache_of(cos: Any, sin: Any, keys: Any, values: Any, kind: Any = REAL) -> Cache:
    """keys and values [layers, slots, kv, capacity, D] of type `kind`."""
    held = address(keys, kind), address(values, kind), address(cos), address(sin)
    return Cache(*held, keys.shape[1], keys.shape[3])


def _layer(kept: list[Any], block: LayerWeights, kv_heads: int) -> Layer:
    kept.append(head_norms(block, block.out.shape[1] // block.q_norm.shape[0], kv_heads))
    given = (block.qkv, block.input_norm), (block.out,), (block.gate_up, block.mlp_norm, 2), (block.down,)
    return Layer(address(kept[-1]), *[matrix_of(kept, *one) for one in given])


def head_norms(block: LayerWeights, heads: int, kv_heads: int) -> np.ndarray:
    """[heads + kv heads, D]"""
    q_norm, k_norm = np.asarray(block.q_norm), np.asarray(block.k_norm)
    return single(np.concatenate([np.tile(q_norm, (heads, 1)), np.tile(k_norm, (kv_heads, 1))]))


def fuse_frame(native: library.Library, parts: FrameParts) -> Callable[[Any], None]:
    """A frame of slots [B] as one call."""
    kept, weights = list[Any](), [parts.head, *parts.heads, *(parts.project or ())[:1]]
    made = [matrix_of(kept, weight) for weight in weights]
    cache = cache_of(parts.cache.cos, parts.cache.sin, parts.cache.keys, parts.cache.values)
    head, *heads = map(ctypes.addressof, made)
    project = None if parts.project is None else heads.pop()
    return CompiledFrame(native.frame, parts, cache, (head, heads, project), (kept, made), 1)


PromptRows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows of prompts [N, H], their slots [N] and positions [N]; those of a slot in the order of their positions."""
Matrices = tuple[int, list[int], int | None]
"""Addresses of the talker's head, of the predictor's heads, and of the projection between them, if there is one."""


class CompiledFrame:
    """Keeps all tensors to which the C structure points."""

    def __init__(
        self,
        call: Callable[..., int],
        parts: FrameParts,
        cache: Cache,
        matrices: Matrices,
        kept: tuple[Any, ...],
        threads: int,
    ) -> None:
        head, heads, project = matrices
        talker, predictor, table = parts.talker, parts.predictor, parts.table
        pointers = [(ctypes.c_void_p * len(heads))(*many) for many in (heads, map(address, parts.inputs))]
        self._call, self._threads, self._kept = call, threads, (parts, kept, pointers)
        bias = None if parts.project is None else address(parts.project[1])
        rotation, (heads_at, inputs_at) = map(address, parts.turns), map(ctypes.addressof, pointers)
        # in the order of Frame
        stacks = ctypes.addressof(talker.struct), ctypes.addressof(predictor.struct)  # type: ignore[attr-defined]
        between = *rotation, head, heads_at, project, bias, inputs_at, address(parts.first), address(parts.rest)
        codes = parts.first.shape[0], table.seen.shape[1], parts.end, len(heads) + 1, parts.inputs[0].shape[0]
        frames = parts.least_frames, parts.stall, table.text.shape[1], table.codes.shape[1]
        self._struct = Frame(*stacks, cache, *between, *codes, *frames, **_columns(parts))

    def __call__(self, slots: Any, prompts: PromptRows | None = None) -> None:
        """Before, the keys and values of `prompts` are written."""
        given, count = Prompts(), self._threads
        if prompts is not None:
            rows, at, where = map(np.ascontiguousarray, prompts)
            given = Prompts(address(rows), address(at, WHOLE), address(where, WHOLE), len(rows))
            count = threads_awaited() if count == 1 else count
        called = address(slots, WHOLE), slots.shape[0], ctypes.byref(given)
        check(self._call(ctypes.byref(self._struct), *called, count))


COLUMNS = {
    REAL: ("row", "text", "pad", "temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p"),
    WHOLE: ("position", "made", "stop", "limit", "made_codes", "reference", "last", "repeats", "written",
            "seed", "top_k", "predictor_top_k"),
    FLAG: ("live", "closed", "seen", "ignore_end"),
}  # fmt: skip
"""The fields of a frame that have a row for each slot, by the type of their numbers."""


def _columns(parts: FrameParts) -> dict[str, int]:
    """Their addresses."""
    made, stop = parts.table.report
    named = {"made": made, "stop": stop, "made_codes": parts.table.codes}
    held = {**vars(parts.table), **vars(parts.controls), **named}
    return {name: address(held[name], kind) for kind, names in COLUMNS.items() for name in names}


def choose(
    native: library.Library, logits: Any, seeds: Any, frames: Any, group: int, temperature: Any, top_k: Any, top_p: Any
) -> Any:
    """As `plain.choose`."""
    scores, codes = single(logits), np.empty(seeds.shape, WHOLE)
    where = address(seeds, WHOLE), address(frames, WHOLE), address(temperature), address(top_k, WHOLE), address(top_p)
    check(native.choose(address(scores), *scores.shape, group, *where, address(codes, WHOLE)))
    return codes


def fuse_text(native: library.QuantisedLibrary, head: Any, parts: TextParts) -> Callable[[Any], Any]:
    """`text_rows`. `head`: the talker's, which says the format of a model."""
    return text_rows(native, parts)


def text_rows(native: library.QuantisedLibrary, parts: TextParts) -> Callable[[Any], Any]:
    """The MLP of text rows [N, width] -> [N, outputs]. A row has the same bits alone and among others."""
    (middle, width), outputs = parts.inner.shape, parts.out.shape[0]
    weights = [single(weight) for weight in parts]
    struct = Text(*map(address, weights), width, middle, outputs)

    def rows(x: Any, kept: Sequence[np.ndarray] = weights) -> Any:
        given, made = single(x), np.empty((x.shape[0], outputs), np.float32)
        check(native.text(ctypes.byref(struct), address(given), len(given), address(made), threads()))
        return made

    return rows


# ---- from codes to sound


def halved(panels: np.ndarray) -> np.ndarray | None:
    """The same in float16, or None if that is not nearly the same."""
    with np.errstate(over="ignore"):
        made = panels.astype(np.float16)
    apart = whole = 0.0
    for first in range(0, len(panels), TOGETHER):  # not to need a third copy
        full = panels[first : first + TOGETHER].ravel()
        rest = made[first : first + TOGETHER].ravel() - full
        apart, whole = apart + float(rest @ rest), whole + float(full @ full)
    return made if apart**0.5 <= ROUNDING * whole**0.5 else None


QUAD, QUAD_TAPS = 4, 7
POINTS = (0, 1, -1, 1.25, -1.25, 0.5, -0.5, 2, -2)
"""Of a convolution in quads, and infinity; `native/codec.c` explains them. Of the sets that were tried, this one rounds
least."""


def in_quads(outputs: int, inputs: int, taps: int, columns: int) -> bool:
    """Whether a product with so many columns in a frame is calculated four outputs at a time. `inputs`: of all taps."""
    return taps == QUAD_TAPS and columns >= 2 * QUAD and outputs % PANEL == inputs // taps % PANEL == 0


def quad_panels(weight: np.ndarray) -> np.ndarray:
    """[outputs, QUAD_TAPS * inputs] -> [terms, outputs / PANEL, inputs, PANEL]: the weights' share of each term."""
    rows = [
        [point**tap / prod(point - other for other in POINTS if other != point) for tap in range(QUAD_TAPS)]
        for point in POINTS
    ]
    rows.append([float(tap == QUAD_TAPS - 1) for tap in range(QUAD_TAPS)])
    taps = np.asarray(weight).reshape(len(weight), QUAD_TAPS, -1).astype(np.float64)
    return np.stack([panels(np.tensordot(row, taps, (0, 1)).astype(np.float32)) for row in rows])


@dataclass(frozen=True)
class Packed:
    """A product as native/codec.c reads it."""

    weight: np.ndarray  # [panels, taps * inputs, PANEL] float32 or float16; in quads, as quad_panels returns it
    vectors: np.ndarray  # the bias if there is one, then scale and inverse of a snake: [0 to 3, padded outputs] float32
    size: tuple[int, int]  # outputs, taps * inputs
    taps: int = 1
    dilation: int = 1
    eps: float | None = None
    activation: str = ""


def packed_shapes(
    size: tuple[int, int], biased: bool, halves: bool, activation: str = "", taps: int = 1, columns: int = 0, **_: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of `weight` and `vectors`."""
    (outputs, inputs), parts = size, _parts(activation)
    vectors = biased + 2 * (activation == "snake"), -(-outputs // PANEL) * PANEL
    if halves and in_quads(outputs, inputs, taps, columns):
        return (len(POINTS) + 1, outputs // PANEL, inputs // taps, PANEL), vectors
    return (parts * -(-outputs // parts // PANEL), inputs, PANEL), vectors


def _parts(activation: str) -> int:
    return 2 if activation == "swiglu" else 1


def halves_fit(size_bytes: int) -> bool:
    """Whether a decoder with so many bytes of weights in float32 is large enough for matrices in float16 and quads."""
    return size_bytes > SMALL


def pack(product: Product, halves: bool) -> Packed:
    """`halves`: large matrices in float16; not those of quads, where rounding counts ten times as much."""
    weight = np.asarray(product.weight)
    quads = halves and in_quads(weight.shape[0], weight.shape[1], product.taps, product.columns)
    made = quad_panels(weight) if quads else panels(weight, parts=_parts(product.activation))
    short = halved(made) if halves and made.size > LARGE and not quads else None
    given = [one for one in (product.bias, product.scale, product.inverse) if one is not None]
    padded = [np.pad(single(one), (0, -len(weight) % PANEL)) for one in given]
    vectors = np.stack(padded) if padded else np.empty((0, 0), np.float32)
    more = product.taps, product.dilation, product.eps, product.activation
    return Packed(made if short is None else short, vectors, (len(weight), weight.shape[1]), *more)


class NativeDecoder:
    """Codes [B, T, G] of slots [B] -> sound [B, samples]. Keeps all tensors to which its C structure points."""

    def __init__(self, native: library.Library, parts: DecoderParts, halves: bool) -> None:
        self._native, self._decode, self._samples, self._kept = native, native.decode, parts.samples, list[Any]()
        self._keeps = large = halves_fit(parts.size_bytes)
        self._rooms = threading.local()
        self.threads = threads() if large else 1
        self._halves = large and halves
        books = dict(zip(("groups", "codes", "book"), parts.books.shape, strict=True))
        rings = dict(zip(("slots", "heads", "ring", "depth"), parts.keys.shape[1:], strict=True))
        tracks = {"track": self._array(Track, parts.tracks.parts), "tracks": len(parts.tracks.parts)}
        more = tracks | {"kept": parts.history.shape[1], "large": LARGE}
        self._struct = self._filled(Decoder, parts, **books, **rings, **more, closing_taps=parts.closing.shape[0])

    def __call__(self, codes: Any, slots: Any) -> Any:
        given, (rows, frames, _) = np.ascontiguousarray(np.asarray(codes)), codes.shape
        sound = np.empty((rows, frames * self._samples), np.float32)
        where = address(given, np.int64), address(slots, np.int64)
        count = threads_awaited() if self.threads == rows == frames == 1 else self.threads
        memory = self._room(rows, frames, count)
        check(self._decode(ctypes.byref(self._struct), *where, rows, frames, address(sound), count, memory))
        return sound

    def _room(self, *sizes: int) -> int | None:
        """Memory for a call of so many streams, frames and threads. For a large decoder it is kept from call to call:
        otherwise malloc would map fresh pages every time, which takes an eighth of a call. Each thread has its own.
        """
        if not self._keeps:
            return None
        size, room = self._native.decode_bytes(ctypes.byref(self._struct), *sizes), getattr(self._rooms, "room", None)
        if room is None or room.size < size:
            self._rooms.room = room = np.empty(size, np.uint8)
        return address(room, np.uint8)

    def _address(self, array: Any, kind: Any = np.float32) -> int:
        self._kept.append(array)
        return address(array, kind)

    def _filled(self, kind: type[Any], part: Any, **known: Any) -> Any:
        """A structure with the fields of `part` that have the same names, and those that are known."""
        return kind(**known, **{name: self._field(part, name, of) for name, of in kind._fields_ if name not in known})

    def _field(self, part: Any, name: str, of: Any) -> Any:
        """As the structure has it: a product, a number, how many there are of something, or an address."""
        if of is OfProduct:
            return self._product(getattr(part, name))
        if of is P and name in MANY:
            many, kind = MANY[name]
            return self._array(kind, getattr(part, many))
        value = getattr(part, name)
        if of is P:
            return self._address(value, WHOLE if name == "frames" else REAL)
        return len(value) if isinstance(value, Sequence) else value

    def _array(self, kind: type[Any], parts: Sequence[Any]) -> int | None:
        if not parts:
            return None
        array = (kind * len(parts))(*[self._filled(kind, part) for part in parts])
        self._kept.append(array)
        return ctypes.addressof(array)

    def _product(self, product: Product | Packed) -> OfProduct:
        ready = product if isinstance(product, Packed) else pack(product, self._halves)
        weight, halves = self._address(ready.weight, ready.weight.dtype), ready.weight.dtype == np.float16
        vectors = dict(zip(VECTORS[len(ready.vectors)], map(self._address, ready.vectors), strict=True))
        sizes = ready.size[0], ready.size[1] // ready.taps, ready.taps, ready.dilation
        how = ACTIVATIONS.index(ready.activation), HALVES if halves else FLOATS, ready.weight.ndim == 4
        eps = -1.0 if ready.eps is None else ready.eps
        return OfProduct(weight, *map(vectors.get, VECTORS[-1]), *sizes, *how, eps)
