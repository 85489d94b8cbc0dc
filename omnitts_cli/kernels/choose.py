"""Which kernel runs. Each operation has variants, in the order in which they are asked. A variant says what it needs of
the machine and of a call, and its price: what it gained over the next one when both were measured.

This is the only place that decides. `ops` makes the table of operations of a machine; `decide` says what would run on
any machine, whether or not it is here: `omnitts doctor --kernels`. A variant that could not be loaded, and an
operation that nothing can run, are errors at the start.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import calls
from omnitts_cli.kernels.calls import BF16, FP16, FP32, HALVES, UNKNOWN, UNTIMED, Fits
from omnitts_cli.kernels.cuda import attend
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import EIGHT, Ops
from omnitts_cli.kernels.tiles import ADDED, GATED, LINEAR

MANY = 1 << 20
"""More rows than any batch or prompt has."""
HOPPER = "sm_90"
CPU, CARD, NPU = "cpu", "cuda", "npu"
TRITON_FROM = (8, 0)
"""Compute capability from which our own kernels are used: matrix units with float32 sums for bfloat16."""
EIGHTS_FROM = (7, 5)
"""The same for matrices in 8 bits: rows are float32 there."""
SHAPES = {UNKNOWN, UNTIMED}
LIBRARIES = {"c": "the compiled CPU library", "c8": "the compiled CPU library", "triton": "Triton", "nvrtc": "NVRTC"}
DEVICES = {CPU: "a CPU", CARD: "an NVIDIA card", NPU: "an Ascend NPU"}
NOT_MEASURED = "not measured"
LEARNING = "half of the time of a step that learns an adapter of 1.7B (H100)"
REFERENCE = "the plain version, with which the others are compared"


# ---- the table


@dataclass(frozen=True)
class Variant:
    """One way to run an operation."""

    name: str
    runs: str  # "module:function" or "module:class" in kernels/; "" leaves the operation to those that it consists of
    price: str
    device: str = ""  # "": any
    card: str = ""  # "": any
    least: tuple[int, int] = (0, 0)  # compute capability
    libraries: tuple[str, ...] = ()
    off: bool = False  # OMNITTS_NATIVE=0 switches it off
    exact: bool | None = None  # True: only with --exact; False: not with it
    dtypes: tuple[str, ...] = ()  # (): any
    rows: tuple[int, int] = (1, MANY)
    fits: Fits | None = None
    ready: Callable[[Any], bool] | None = None  # whether it has been compiled, or could be
    calls: str = ""  # another operation, which its function gets as first argument

    def needs(self) -> str:
        """What it needs, in words."""
        low, high = self.rows
        rows = "one row" if high == 1 else f"{low} to {high} rows" if high < MANY else f"{low} rows or more"
        libraries = dict.fromkeys(LIBRARIES[one] for one in self.libraries)
        least = "sm_{}{} or newer".format(*self.least) if self.least > (0, 0) else DEVICES.get(self.device, "")
        types = " or ".join(NAMES[one] for one in self.dtypes)
        exact = "--exact" if self.exact else ""
        parts = [self.card or least, *libraries, types, rows if self.rows != (1, MANY) else "", exact]
        return ", ".join(filter(None, parts)) or "any machine"

    @property
    def takes_all(self) -> bool:
        """Whether it suits every call."""
        return not self.dtypes and self.rows == (1, MANY) and self.fits is None and self.ready is None

    def refuses_hardware(self, hardware: Hardware) -> str:
        """Why it cannot run there at all; "" if it can."""
        if self.device and hardware.device != self.device:
            return f"for {self.device}"
        if self.card and hardware.card != self.card:
            return f"needs {self.card}"
        if hardware.capability < self.least:
            return f"needs sm_{self.least[0]}{self.least[1]} or newer"
        if self.exact is not None and self.exact != hardware.exact:
            return "only with --exact" if self.exact else "not with --exact"
        for one in self.libraries:
            if one not in hardware.libraries:
                return f"needs {LIBRARIES[one]}: {hardware.lacking.get(one, 'it is not installed')}"
        may_be_off = self.off and not hardware.exact
        if may_be_off and hardware.small:
            return "needs more memory, for weights in an order of its own"
        return "switched off by OMNITTS_NATIVE=0" if may_be_off and hardware.off else ""

    def refuses(self, call: Any) -> str:
        """Why it does not suit a call; "" if it does."""
        if self.dtypes and call.dtype not in self.dtypes:
            return f"for {', '.join(NAMES[one] for one in self.dtypes)}"
        low, high = self.rows
        if call.rows and not low <= call.rows <= high:
            return "for one row" if high == 1 else f"for {low} to {high} rows" if high < MANY else f"from {low} rows on"
        return self.fits(call) if self.fits is not None else ""


NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32", EIGHT: "8 bits"}


@dataclass(frozen=True)
class Operation:
    """A field of Ops and its variants; a name that begins with "codec." is a field of CodecOps. `order`: the argument
    that asks for sums in one order. `fuses`: its function makes an object from weights, or None if it cannot."""

    name: str
    words: str
    facts: Callable[..., Any] | None
    variants: tuple[Variant, ...]
    order: str = ""
    fuses: bool = False
    limit: str = ""  # the argument that gets the most rows of its variants
    also: tuple[str, ...] = ()  # other fields with the same variants; their functions have the fields' names


def hopper(name: str, runs: str, price: str, rows: tuple[int, int], fits: Fits | None = None, **more: Any) -> Variant:
    """One of kernels/cuda, for Hopper."""
    more = {"off": True, "dtypes": (BF16,), **more}
    return Variant(name, runs, price, CARD, HOPPER, libraries=("triton", "nvrtc"), rows=rows, fits=fits, **more)


def triton(name: str, runs: str, price: str, fits: Fits | None = None, **more: Any) -> Variant:
    """One of kernels/triton."""
    more = {"least": TRITON_FROM, **more}
    return Variant(name, runs, price, CARD, libraries=("triton",), fits=fits, **more)


def eights(operation: str) -> tuple[Variant, Variant, Variant]:
    """The ways to run a product with a matrix in 8 bits on a card."""
    more: dict[str, Any] = {"dtypes": (EIGHT,), "least": EIGHTS_FROM}
    return (
        triton("_eight", f"triton.eight:row_{operation}", NOT_MEASURED, rows=(1, 2), **more),
        triton("_eights", f"triton.eight:{operation}", NOT_MEASURED, **more),
        Variant("plain_eight.py", f"plain_eight:{operation}", EIGHTS, CARD, dtypes=(EIGHT,)),
    )


def native(name: str, runs: str, price: str, fits: Fits | None = None, **more: Any) -> Variant:
    """One of the compiled library for the CPU."""
    library = "c8" if name == "quantised.c" else "c"
    return Variant(name, runs, price, CPU, libraries=(library,), off=True, fits=fits, **more)


def in_python(name: str, runs: str, price: str, fits: Fits | None = None, **more: Any) -> Variant:
    """One of the CPU, over NumPy and torch."""
    return Variant(name, runs, price, CPU, fits=fits, **more)


def vendor(runs: str, fits: Fits | None = None, **more: Any) -> Variant:
    """An operator of the NPU's maker."""
    return Variant("operators.py", f"operators:{runs}", NOT_MEASURED, NPU, fits=fits, **more)


def plain(runs: str) -> Variant:
    return Variant(f"{runs.partition(':')[0]}.py", runs, REFERENCE)


LAYERS = Variant("layer by layer", "", "as fast as its products and its attention, listed apart", exact=False)
EXACT = "holds --exact: a row has the same bits in any company"
IN_C = "with stack, frame and codec in C 0.21 to 0.23 of the RTF of Python, tiny, one stream (AVX-512)"
QUANTISED = "a frame of 0.6B in 0.33 of the time of float32 in torch (2 threads, AVX2)"
PYTHON = "with stack, draws, frame and codec 0.53 of the RTF of plain operations, tiny, one stream (AVX-512)"
EARLY_64 = "with the others of its kind 3 % at 64 streams (H200)"
HOLDS_MANY = "holds the README's figure at 256 streams: 2.5 % with the other kernels for many rows (H200)"
WIDE_SUM = "with its other products 4 to 5 % of a frame at 64 streams (H200)"
EIGHTS = "a card of 4 GiB speaks with 1.7B, which takes 3.5 GiB in bf16"
OWN_FRAME = "with the frame's other kernels 25 % at 8 streams, 28 % at 64 (1.7B, H200)"
OWN_CODEC = "with the codec's other kernels 12 % at 8 streams, 60 % at 64 (1.7B, H200)"

# fmt: off
OPERATIONS = (
    Operation("fuse_step", "talker, a step", calls.of_stack, (
        hopper("talker.cu", "cuda.talker:fuse_step", "13 to 18 % more sound at 1 and 8 streams (1.7B, H100)", (1, 8),
               partial(calls.released, (1, 2))),
        hopper("rows_*.cu", "cuda.talker:fuse_step", "10 % more sound at 16 streams (1.7B, H100)", (9, 16),
               partial(calls.released, (1, 2)), exact=False),
        hopper("rows_*.cu, --exact", "cuda.talker:fuse_step", EXACT, (9, MANY),
               partial(calls.released, (1, 2)), exact=True),
        LAYERS,
    ), order="exact", limit="most_rows", fuses=True),
    Operation("fuse_predictor", "predictor, a frame", calls.of_predictor, (
        hopper("predictor.cu", "cuda.predictor:fuse_predictor",
               "34 to 43 % more sound at 1 and 8 streams, 22 % at 16 (1.7B, H100)", (1, 16), calls.released_predictor),
        hopper("rows_*.cu, --exact", "cuda.predictor:fuse_predictor", EXACT, (17, MANY), calls.released_predictor,
               exact=True),
        LAYERS,
    ), order="exact", limit="most_rows", fuses=True),
    Operation("fuse_stack", "a stack in one call", calls.of_stack, (
        native("quantised.c", "cpu.quantised:QuantisedStack", QUANTISED, dtypes=(EIGHT,)),
        native("language.c", "cpu.networks:NativeStack", IN_C, calls.small, dtypes=(FP32,)),
        in_python("stack.py", "cpu.stack:FusedStack", PYTHON, calls.small, dtypes=(FP32,), rows=(1, 16)),
        Variant("layer by layer", "", REFERENCE),
    ), fuses=True),
    Operation("fuse_frame", "a frame in one call", calls.of_frame, (
        native("language.c", "cpu.networks:fuse_frame", IN_C, partial(calls.stacks, "language.c")),
        native("quantised.c", "cpu.quantised:fuse_frame", QUANTISED, partial(calls.stacks, "quantised.c")),
        Variant("models/networks.py", "", REFERENCE),
    ), fuses=True),
    Operation("linear", "products", calls.of_linear, (
        *eights("linear"),
        Variant("rows_rest.cu", "cuda.rows:linear", EXACT, CARD, HOPPER, libraries=("triton", "nvrtc"), exact=True),
        triton("_vector", "triton.products:row_linear", "1.2 to 3.5 times the library's speed (H200)",
               partial(calls.one_row, LINEAR), rows=(1, 1)),
        native("quantised.c", "cpu.table:linear", QUANTISED, dtypes=(EIGHT,)),
        plain("plain:linear"),
    )),
    Operation("norm_linear", "products after a norm", calls.of_normed, (
        *eights("norm_linear"),
        hopper("prefetched.cu", "triton.products:early_norm_linear", EARLY_64, (17, 64), partial(calls.early, LINEAR),
               exact=False, ready=partial(calls.compiled, LINEAR)),
        triton("_vector", "triton.products:row_norm_linear", "1.2 to 3.5 times the library's speed (H200)",
               partial(calls.one_row, LINEAR), rows=(1, 1)),
        triton("many_rows.py", "triton.many_rows:norm_linear",
               "with its other products 7 % of the predictor, 14 % of the talker at 128 rows (H200)",
               partial(calls.many_rows, LINEAR), card=HOPPER, dtypes=(BF16,), rows=(65, 256)),
        triton("torch, norm in Triton", "triton.products:norm_linear", OWN_FRAME),
        native("quantised.c", "cpu.table:norm_linear", QUANTISED, dtypes=(EIGHT,)),
        vendor("norm_linear"),
        plain("plain:norm_linear"),
    )),
    Operation("norm_swiglu", "gated products", calls.of_normed, (
        *eights("norm_swiglu"),
        hopper("prefetched.cu", "triton.products:early_norm_swiglu", EARLY_64, (17, 128), partial(calls.early, GATED),
               exact=False, ready=partial(calls.compiled, GATED)),
        triton("_vector", "triton.products:row_norm_swiglu", "1.2 to 3.5 times the library's speed (H200)",
               partial(calls.one_row, GATED), rows=(1, 1)),
        triton("many_rows.py", "triton.many_rows:norm_swiglu",
               "with its other products 14 % of the talker at 128 rows (H200)",
               partial(calls.many_rows, GATED), card=HOPPER, dtypes=(BF16,), rows=(65, 256)),
        triton("_gated", "triton.products:few_norm_swiglu", "5.9 us for 7.6 in torch, 8 rows (H200)",
               partial(calls.few_rows, GATED), rows=(1, 128)),
        triton("torch, gate in Triton", "triton.products:norm_swiglu", OWN_FRAME),
        vendor("norm_swiglu"),
        plain("plain:norm_swiglu"),
    )),
    Operation("linear_add", "products added to a residual", calls.of_added, (
        *eights("linear_add"),
        hopper("prefetched.cu", "triton.products:early_linear_add", EARLY_64, (17, 256), partial(calls.early, ADDED),
               exact=False, ready=partial(calls.compiled, ADDED)),
        triton("_vector", "triton.products:row_linear_add", "1.2 to 3.5 times the library's speed (H200)",
               partial(calls.one_row, ADDED), rows=(1, 1)),
        triton("many_rows.py", "triton.many_rows:linear_add",
               "with its other products 7 % of the predictor, 14 % of the talker at 128 rows (H200)",
               partial(calls.many_rows, ADDED), card=HOPPER, dtypes=(BF16,), rows=(65, 256)),
        triton("_parts", "triton.products:few_linear_add", "5.8 us for 7.1 in torch, 8 rows (H200)",
               partial(calls.few_rows, ADDED), rows=(1, 128)),
        triton("torch", "triton.products:linear_add", NOT_MEASURED),
        vendor("linear_add"),
        plain("plain:linear_add"),
    )),
    Operation("attend_cached", "attention", calls.of_attention, (
        hopper("attend.cu", "cuda.attend:attend", "2 to 3 % at 128 streams, 71 us of a frame at 64 (1.7B, H200)",
               (17, 256), partial(calls.heads_of_released, False), exact=False, ready=attend.compiled),
        hopper("attend_long.cu", "cuda.attend:attend", HOLDS_MANY, (65, 256), partial(calls.heads_of_released, True),
               exact=False, ready=attend.compiled),
        triton("_frame", "triton.attention:attend_few", "9.9 to 3 us a layer, for a first kernel of ours (H200)",
               calls.one_or_two),
        triton("_write, _attend", "triton.attention:attend_prompt", OWN_FRAME, calls.power),
        vendor("attend_cached", calls.vendor_heads, dtypes=HALVES),
        plain("plain:attend_cached"),
    )),
    Operation("long.attend_cached", "attention to thousands of rows", calls.of_attention, (
        triton("_split", "triton.long:attend_split", NOT_MEASURED, calls.split),
        triton("flash attention of torch", "triton.long:attend_long_prompt", NOT_MEASURED, calls.long_prompt),
        triton("_frame", "triton.attention:attend_few", NOT_MEASURED, calls.one_or_two),
        triton("_write, _attend", "triton.attention:attend_prompt", NOT_MEASURED, calls.power),
        plain("plain:attend_cached"),
    )),
    Operation("experts", "experts", calls.of_mixture, (
        triton("_think", "triton.mixture:few", "7 times the speed of torch for one row, 4.8 times for 8 (H200)",
               calls.blocks_of_32, rows=(1, 8)),
        triton("_think_together", "triton.mixture:together",
               "2.3 to 2.7 times the speed of torch for 32 and 64 rows (H200)", calls.blocks_of_32),
        vendor("experts"),
        plain("plain:experts"),
    )),
    Operation("long.experts", "experts of the thinker", calls.of_mixture, (
        triton("grouped products of torch", "triton.long:grouped_experts",
               "first token of 2,500 after 54 ms, not 85 (thinker, H200)", calls.grouped, dtypes=(BF16,),
               rows=(384, MANY)),
        triton("_think, scores apart", "triton.long:few_experts", "a step of 2.64 ms, not 3.21 (thinker, H200)",
               calls.not_shared, rows=(1, 8)),
        triton("_think_together, scores apart", "triton.long:experts_together",
               "a step of 2.64 ms, not 3.21 (thinker, H200)", calls.not_shared),
        triton("_think", "triton.mixture:few", NOT_MEASURED, calls.blocks_of_32, rows=(1, 8)),
        triton("_think_together", "triton.mixture:together", NOT_MEASURED, calls.blocks_of_32),
        plain("plain:experts"),
    )),
    Operation("norm", "norms", None, (
        triton("norms.py", "triton.norms:norm", OWN_FRAME),
        vendor("norm"),
        plain("plain:norm"),
    )),
    Operation("scores", "logits in float32", None, (
        triton("torch, sums in float32", "triton.long:scores", NOT_MEASURED),
        plain("plain:scores"),
    )),
    Operation("learn", "between the products of learning", None, (
        triton("learn.py", "triton.learn:LEARN", LEARNING),
        plain("plain:LEARN"),
    )),
    Operation("choose", "draws", None, (
        triton("draw.py", "triton.draw:choose", OWN_FRAME),
        native("language.c", "cpu.table:choose", IN_C),
        in_python("draw.py", "cpu.draw:choose", PYTHON),
        vendor("choose"),
        plain("plain:choose"),
    )),
    Operation("eight", "matrices in 8 bits", None, (
        native("quantised.c", "cpu.quantised:table", QUANTISED),
        Variant("floats only", "", REFERENCE),
    )),
    Operation("pack", "weights in 8 bits on a card", None, (
        Variant("plain_eight.py", "plain_eight:pack", REFERENCE, CARD),
        Variant("none", "", REFERENCE),
    )),
    Operation("choose_row", "draws and the next row", None, (
        triton("draw.py", "triton.draw:choose_row", "3 to 4 % at 1 and 8 streams, with four other changes (H200)"),
        Variant("choose, then look up", "", REFERENCE),
    ), fuses=True),
    Operation("begin", "bookkeeping", None, (
        triton("frame.py", "triton.frame:begin", "3 kernels a frame, not 150; " + OWN_FRAME),
        in_python("frame.py", "cpu.frame:begin", PYTHON),
        plain("plain_frame:begin"),
    ), also=("first_scores", "finish")),
    Operation("pick", "settings of the slots", None, (
        triton("frame.py", "triton.frame:pick", "3 to 4 % at 1 and 8 streams, with four other changes (H200)"),
        plain("plain_frame:pick"),
    )),
    Operation("fuse_text", "rows of the text", calls.of_text, (
        native("quantised.c", "cpu.networks:fuse_text", "holds --exact in 8 bits: the same bits on every processor",
               dtypes=(EIGHT,)),
        Variant("torch", "", REFERENCE),
    ), fuses=True),
    Operation("codec", "codec", None, (
        triton("codec.py", "triton.codec:OPS", OWN_CODEC),
        in_python("codec.py", "cpu.codec:OPS", "0.57 to 0.76 of the time of its own layers, tiny (AVX-512)"),
        Variant("torch, the codec's own layers", "", REFERENCE),
    )),
    Operation("codec.fuse_decoder", "codec in one call", calls.of_decoder, (
        native("codec.c", "cpu.networks:NativeDecoder", "1.4 to 1.9 times the speed of torch, 0.6B, 2 threads (AVX2)",
               calls.few_tracks),
        Variant("layer by layer", "", REFERENCE),
    ), fuses=True),
    Operation("codec.product", "products of the codec", calls.of_codec, (
        hopper("codec_resident.cu", "triton.codec_products:kept_product",
               "321 us for 505 in Triton, 16 frames of 32 streams; 7 % at 256 streams with the units (H200)", (1, MANY),
               partial(calls.kept_product, False), off=False, dtypes=(FP16,), ready=calls.tiles_compiled),
        hopper("codec_stream.cu", "triton.codec_products:kept_product", HOLDS_MANY, (1, MANY),
               partial(calls.kept_product, True), off=False, dtypes=(FP16,), ready=calls.tiles_compiled),
        triton("codec_wide.py", "triton.codec_wide:product", WIDE_SUM, calls.wide, card=HOPPER, dtypes=(FP16,)),
        triton("codec_products.py", "triton.codec_products:product", OWN_CODEC, calls.pointers),
        in_python("codec.py", "cpu.codec:product", PYTHON),
        plain("plain_codec:product"),
    ), order="ordered"),
    Operation("codec.residual_unit", "residual units of the codec", calls.of_unit, (
        hopper("codec_resident.cu", "triton.codec_products:kept_unit",
               "405 us for 617 in Triton, 16 frames of 32 streams; 7 % at 256 streams with the others", (1, MANY),
               partial(calls.kept_unit, 96), off=False, dtypes=(FP16,), ready=calls.tiles_compiled),
        hopper("codec_stream.cu", "triton.codec_products:kept_unit",
               "455 us for 560 in Triton, 16 frames of 32 streams; 7 % at 256 streams with the others", (1, MANY),
               partial(calls.kept_unit, 192), off=False, dtypes=(FP16,), ready=calls.tiles_compiled),
        hopper("codec_deep.cu", "triton.codec_products:kept_unit", HOLDS_MANY, (1, MANY), partial(calls.kept_unit, 384),
               off=False, dtypes=(FP16,), ready=calls.tiles_compiled),
        triton("codec_products.py", "triton.codec_products:residual_unit", OWN_CODEC, calls.unit),
        triton("codec_products.py, twice", "triton.codec_products:two_products", OWN_CODEC, calls="codec.product"),
        in_python("codec.py", "cpu.codec:residual_unit", PYTHON),
        plain("plain_codec:residual_unit"),
    ), order="ordered"),
    Operation("codec.close", "end of the codec", calls.of_close, (
        hopper("codec_last.cu", "triton.codec_products:close",
               "879 us for 1,316 of four kernels, 16 frames of 32 streams (H200)", (1, MANY), calls.last, off=False,
               dtypes=(FP16,), ready=calls.last_compiled, calls="codec.product"),
        Variant("unit by unit", "", REFERENCE),
    ), order="ordered", fuses=True),
)
# fmt: on


# ---- the tables of operations


def named(name: str) -> Operation:
    """A row of the table."""
    found = next((one for one in OPERATIONS if one.name == name), None)
    if found is None:
        raise DeviceError(f"there is no operation '{name}'", hint=", ".join(one.name for one in OPERATIONS))
    return found


def usable(operation: Operation, hardware: Hardware) -> list[Variant]:
    """The variants that the machine can run, the preferred one first; an error if there are none."""
    found = [one for one in operation.variants if not one.refuses_hardware(hardware)]
    if not found:
        raise nothing_runs(
            operation, hardware, {one.name: one.refuses_hardware(hardware) for one in operation.variants}
        )
    return found


def chosen(operation: Operation, variants: Sequence[Variant], call: Any) -> Variant:
    """The variant that runs a call."""
    for one in variants:
        if not one.refuses(call) and (one.ready is None or one.ready(call)):
            return one
    raise nothing_runs(operation, None, {one.name: one.refuses(call) for one in variants})


def nothing_runs(operation: Operation, hardware: Hardware | None, reasons: Mapping[str, str]) -> DeviceError:
    """The error for an operation that no variant can run."""
    if operation.order == "exact":
        return DeviceError(
            "--exact needs a released talker in bf16 on an H100 or H200, or float32 on a CPU",
            hint="leave out --exact   or   -d cpu --dtype fp32",
        )
    where = "" if hardware is None else f" on {hardware.card or hardware.device}"
    return DeviceError(
        f"nothing can run the operation '{operation.name}'{where}",
        cause="; ".join(f"{name}: {reason or 'it could not be compiled'}" for name, reason in reasons.items()),
        hint="omnitts doctor --kernels",
    )


Made = dict[str, Any]
"""What runs each operation, by its name."""


def load(variant: Variant, function: str, handles: Mapping[str, Any], made: Made, **more: Any) -> Any:
    """The function of a variant, with what else it takes; an error if there is none. None if the variant leaves the
    operation to others. `function`: a name to use instead of the variant's own."""
    if not variant.runs:
        return None
    module, _, named = variant.runs.partition(":")
    try:
        room = handles[module] if module in handles else import_module(f"{__package__}.{module}")
        found = getattr(room, function or named)
    except (ImportError, AttributeError) as error:
        raise DeviceError(f"the kernel '{variant.name}' is missing: {variant.runs}", cause=str(error)) from error
    given = [handles[one] for one in variant.libraries if one in handles]
    given += [made[variant.calls]] if variant.calls else []
    return partial(found, *given, **more) if given or more else found


def bound(operation: Operation, function: str, hardware: Hardware, handles: Mapping[str, Any], made: Made) -> Any:
    """What runs an operation: the function of its first variant if that takes every call, otherwise a function that
    chooses for each call. None if the operation is left to those that it consists of.
    """
    variants = usable(operation, hardware)
    more: dict[str, Any] = {operation.order: True} if hardware.exact and operation.order else {}
    if operation.limit:
        more[operation.limit] = max((one.rows[1] for one in variants if one.runs), default=0)
    functions = [load(one, function, handles, made, **more) for one in variants]
    if operation.facts is None or variants[0].takes_all:
        return functions[0]
    ordered = hardware.exact and operation.order == "ordered"
    facts = partial(operation.facts, ordered=True) if ordered else operation.facts

    def place(call: Any) -> int:
        return variants.index(chosen(operation, variants, call))

    if operation.fuses:
        return partial(fused, operation, functions, facts, place)
    of_call = lru_cache(4096)(place)

    def run(*given: Any, **options: Any) -> Any:
        return functions[of_call(facts(*given, **options))](*given, **options)

    return run


def fused(
    operation: Operation, functions: Sequence[Any], facts: Callable[..., Any], place: Callable[[Any], int], *given: Any
) -> Any:
    """What the chosen function makes, or the next one if that could not be compiled or its copy of the weights does not
    fit; None if the operation is left to others."""
    for function in functions[place(facts(*given)) :]:
        if function is None:
            return None
        if (made := function(*given)) is not None:
            return made
    raise nothing_runs(operation, None, {})


def table_of(hardware: Hardware, handles: Mapping[str, Any]) -> tuple[Ops, Made]:
    """The operations of a machine, and what runs those of the codec and of long contexts."""
    made = Made()
    for operation in OPERATIONS:
        for name in (operation.name, *operation.also):
            made[name] = bound(operation, name if operation.also else "", hardware, handles, made)
    made["eight"] = made["eight"] and made["eight"]()
    rooms = {name: made.pop(name) for name in [*made] if "." in name}
    if made["codec"] is not None:
        made["codec"] = replace(made["codec"], **inside("codec", rooms))
    return Ops(**made, exact=hardware.exact), rooms


def inside(room: str, made: Made) -> Made:
    return {name.removeprefix(f"{room}."): one for name, one in made.items() if name.startswith(f"{room}.")}


def ops(hardware: Hardware, handles: Mapping[str, Any] | None = None) -> Ops:
    """The operations of a machine. `handles`: its loaded libraries, by the names in LIBRARIES, and its own module of
    operators."""
    handles = handles or {}
    table, rooms = table_of(hardware, handles)
    if not usable(named("long.experts"), hardware)[0].libraries:
        return table
    alone, _ = table_of(replace(hardware, off=True, exact=False), handles)
    return replace(table, long=replace(alone, **inside("long", rooms)))


@dataclass(frozen=True)
class Decision:
    """What runs a call, and why nothing better does."""

    variant: Variant
    refused: list[tuple[Variant, str]]  # those that would be preferred, with the reason

    @property
    def missed(self) -> list[tuple[Variant, str]]:
        """Those of `refused` that another card, library, setting or number of rows would allow."""
        return [(one, reason) for one, reason in self.refused if reason not in SHAPES and one.exact is not True]


def decide(name: str, hardware: Hardware, call: Any) -> Decision:
    """What would run a call on a machine, whether or not it is here. Kernels count as compiled."""
    operation = named(name)
    refused: list[tuple[Variant, str]] = []
    for one in operation.variants:
        reason = one.refuses_hardware(hardware) or (one.refuses(call) if call is not None else "")
        if not reason:
            return Decision(one, refused)
        if one.device in ("", hardware.device):
            refused.append((one, reason))
    raise nothing_runs(operation, hardware, {one.name: reason for one, reason in refused})
