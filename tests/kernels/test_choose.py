"""choose: the table chooses what ran before there was one, on cards that are not there; and its errors."""

import ast
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import tables
from choices import ATTENTION, CARDS, EVERY, EXPERTS, HEADS, STACKS, WIDTHS, at, recorded, sizes

from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import choose
from omnitts_cli.kernels.calls import AttentionCall, MixtureCall, ProductCall, StackCall
from omnitts_cli.kernels.choose import NOT_MEASURED, OPERATIONS, Variant, decide
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import EIGHT, CodecOps, Ops

KERNELS = Path(choose.__file__).parent
BEFORE: dict[str, dict[str, list[int]]] = json.loads(Path(__file__).with_name("choices.json").read_text("utf-8"))
"""What each call launched, and on which of the cards."""
DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
LAUNCHES = {
    "rows_rest.cu": "rows_rest:rows_linear",
    "_vector": "products:_vector",
    "prefetched.cu": "prefetched:prefetched",
    "many_rows.py": "many_rows:_product",
    "torch, norm in Triton": "norms:_rms_norm+mm",
    "torch, gate in Triton": "mm+products:_swiglu",
    "torch": "addmm",
    "_gated": "products:_gated",
    "_parts": "products:_parts+norms:_add_norm",
    "attend.cu": "attend:attend",
    "attend_long.cu": "attend_long:attend",
    "_write, _attend": "attention:_write+attention:_attend",
    "_split": "long:_split+long:_join",
    "flash attention of torch": "attention:_write+",
    "_think": "mixture:_route+mixture:_think+",
    "_think_together": "mixture:_route+mixture:_think_together+",
    "_think, scores apart": "grouped:_row_scores+grouped:_choose+mixture:_think+",
    "_think_together, scores apart": "grouped:_row_scores+grouped:_choose+mixture:_think_together+",
    "grouped products of torch": "grouped:_place+grouped:_spread",
    "talker.cu": "PersistentTalker",
    "predictor.cu": "PersistentPredictor",
    "layer by layer": "None",
}
"""A part of what each variant launches."""


def test_weights_are_not_kept_twice_where_memory_is_small() -> None:
    card = Hardware("cuda", "sm_90", (9, 0), frozenset({"triton", "nvrtc"}))
    call = StackCall(1, "bfloat16", 2048, 6144, 16, 8, 128, 1e-6, 0, 28)
    assert decide("fuse_step", card, call).variant.name == "talker.cu"
    for small in (replace(card, small=True), replace(card, off=True)):
        found = decide("fuse_step", small, call)
        assert found.variant.name == "layer by layer" and found.missed
    assert decide("fuse_step", replace(card, small=True, exact=True), call).variant.name == "talker.cu"


def test_matrices_in_8_bits_on_cards() -> None:
    old, small, bare = (
        Hardware("cuda", card, capability, frozenset(libraries))
        for card, capability, libraries in (
            ("sm_75", (7, 5), ["triton"]),
            ("sm_86", (8, 6), ["triton"]),
            ("sm_86", (8, 6), []),
        )
    )
    for operation in ("linear", "norm_linear", "norm_swiglu", "linear_add"):
        for card in (old, small):
            names = [decide(operation, card, ProductCall(n, EIGHT, 4096, 1024)).variant.name for n in (1, 2, 3, 500)]
            assert names == ["_eight", "_eight", "_eights", "_eights"]
        assert decide(operation, bare, ProductCall(1, EIGHT, 4096, 1024)).variant.name == "plain_eight.py"
    cpu = Hardware("cpu", libraries=frozenset({"c8"}))
    assert decide("norm_linear", cpu, ProductCall(1, EIGHT, 0, 1024)).variant.name == "quantised.c"


def hardware() -> list[Hardware]:
    """The cards of choices.py."""
    found = []
    for card in CARDS:
        libraries = {"triton", "nvrtc"} if card.nvrtc else {"triton"}
        if isinstance(card.arch, str):
            found.append(Hardware("cuda", card.arch))
            continue
        name = "sm_{}{}".format(*card.capability)
        found.append(Hardware("cuda", name, card.capability, frozenset(libraries), not card.native, card.exact))
    return found


def call_of(key: str) -> tuple[str, ProductCall | AttentionCall | MixtureCall | StackCall]:
    """An operation, and its call with one row."""
    operation, name, *about, precision = key.split(" ")
    dtype = DTYPES[precision]
    if "attend" in operation:
        capacity, positions = map(int, about)
        return operation, AttentionCall(1, dtype, positions, capacity, *ATTENTION[name])
    if "experts" in operation:
        hidden, inner, _, _, shared = EXPERTS[name]
        return operation, MixtureCall(1, dtype, hidden, inner, shared > 0)
    if operation.startswith("fuse"):
        *shape, layers = STACKS[name]
        eps, groups = (1e-6, int(about[0])) if "predictor" in operation else (float(about[0]), 0)
        codes = {16: 2048, 8: 512, 0: 0}[groups]
        return operation, StackCall(0, dtype, *shape, eps, 1 << 30, layers, groups, codes)
    outputs, inputs = HEADS[name] if about == ["head"] else WIDTHS[name][about[0]]
    return operation, ProductCall(1, dtype, outputs, inputs)


def launches(variant: Variant, on: Hardware, launched: str) -> bool:
    """Whether a variant is what launched these kernels."""
    if variant.name == "_frame":
        return launched in ("attention:_frame", "attention:_pair")
    if variant.name.endswith(".py") and variant.runs.startswith("plain"):
        return ":" not in launched
    return LAUNCHES[variant.name] in launched


KEYS = [key for key in BEFORE if not key.startswith(("codec", "talker", "predictor", "linear odd"))]


@pytest.mark.parametrize("index", range(len(CARDS)), ids=[card.name for card in CARDS])
def test_every_choice_is_that_of_before(index: int) -> None:
    on, compared = hardware()[index], 0
    for key in KEYS:
        (before,) = [said for said, cards in BEFORE[key].items() if index in cards] or [""]
        if not before:
            continue
        operation, call = call_of(key)
        if before == "DeviceError":
            with pytest.raises(DeviceError):
                decide(operation, on, call)
            continue
        for count in [1] if isinstance(call, StackCall) else sizes(key, EVERY):
            variant = decide(operation, on, call if isinstance(call, StackCall) else call._replace(rows=count)).variant
            assert launches(variant, on, at(before, count)), (key, count, variant.name, at(before, count))
            compared += 1
    assert compared > 20_000


FEW, MANY = [1, 17, 65], [1, 2, 7, 8, 9, 15, 16, 17, 32, 33, 63, 64, 65, 128, 129, 255, 256]
LAUNCHED = [(name, FEW) for name in ("sm_89", "sm_90", "sm_90, --exact")]
LAUNCHED += [pytest.param(card.name, MANY, marks=pytest.mark.slow) for card in CARDS]


@pytest.mark.parametrize(("name", "counts"), LAUNCHED)
def test_what_is_launched_is_what_was_launched(name: str, counts: list[int]) -> None:
    pytest.importorskip("triton")
    (index,) = [index for index, card in enumerate(CARDS) if card.name == name]
    before = {key: said for key, every in BEFORE.items() for said, cards in every.items() if index in cards}
    now = recorded(CARDS[index], counts)
    assert now.keys() == before.keys()
    for key, said in now.items():
        assert all(at(said, n) == at(before[key], n) for n in sizes(key, counts)), key


def test_talker_and_predictor_by_rows() -> None:
    """What the two persistent stacks launched, and what the table says."""
    small = StackCall(0, "bfloat16", 1024, 3072, 16, 8, 128, 1e-6, 0, 5, 16, 2048)
    words = {"talker.cu": "talker:", "rows_*.cu": "rows_", "predictor.cu": "predictor:", "layer by layer": "layer"}
    for key, operation in (("talker 0.6b", "fuse_step"), ("talker 1.7b", "fuse_step"), ("predictor", "fuse_predictor")):
        call = small._replace(hidden=2048, inner=6144) if "1.7b" in key else small
        for index, on in enumerate(hardware()):
            (before,) = [said for said, cards in BEFORE[key].items() if index in cards] or [""]
            for count in EVERY if before else ():
                name = decide(operation, on, call._replace(rows=count)).variant.name
                assert at(before, count).startswith(words[name.removesuffix(", --exact")]), (key, on, count)


# ---- a CPU, an NPU


def test_stacks_of_a_cpu() -> None:
    stack = StackCall(1, "float32", 256, 768, 4, 2, 64, 1e-6, 30 << 20, 5)
    c = Hardware("cpu", libraries=frozenset({"c", "c8"}))
    python, off = Hardware("cpu"), replace(c, off=True)
    for on, call, name in (
        (c, stack, "language.c"),
        (c, stack._replace(dtype=EIGHT, size_bytes=2 << 30), "quantised.c"),
        (c, stack._replace(size_bytes=(64 << 20) + 1), "layer by layer"),
        (c, stack._replace(dtype="bfloat16"), "layer by layer"),
        (python, stack, "stack.py"),
        (off, stack, "stack.py"),
        (python, stack._replace(size_bytes=2 << 30), "layer by layer"),
    ):
        assert decide("fuse_stack", on, call).variant.name == name
    for on, names in ((c, ("language.c", "codec.c")), (python, ("draw.py", "layer by layer"))):
        assert decide("choose", on, None).variant.name == names[0]
        tracks = choose.named("codec.fuse_decoder").facts is not None and 20
        decoder = choose.named("codec.fuse_decoder").variants
        assert next(one.name for one in decoder if not one.refuses_hardware(on)) == names[1] and tracks


def test_tables_of_a_cpu_have_what_they_had() -> None:
    python, c = tables.PYTHON, tables.native()
    for table in (python, c):
        if table is None:
            continue
        native = table is c
        missing = {name for name in ("fuse_frame", "fuse_text", "eight") if getattr(table, name) is None}
        assert missing == (set() if native else {"fuse_frame", "fuse_text", "eight"})
        assert table.fuse_step is table.fuse_predictor is table.choose_row is table.long is None
        assert table.codec is not None and table.codec.close is None
        assert (table.codec.fuse_decoder is not None) == native
        assert table.begin.__module__.endswith("cpu.frame") and table.norm.__module__.endswith("kernels.plain")


# ---- the table itself


def functions() -> Iterator[tuple[Variant, str]]:
    """Every function that the table names."""
    for operation in OPERATIONS:
        for variant in operation.variants:
            if variant.runs:
                yield variant, variant.runs
                yield from ((variant, f"{variant.runs.partition(':')[0]}:{name}") for name in operation.also)


def test_every_function_of_the_table_exists() -> None:
    """Also those of Triton and of the NPU, which cannot be imported everywhere."""
    operators = KERNELS.parent / "devices" / "npu" / "operators.py"
    for variant, runs in functions():
        module, _, name = runs.partition(":")
        path = operators if module == "operators" else KERNELS / f"{module.replace('.', '/')}.py"
        nodes = ast.parse(path.read_text("utf-8")).body
        defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in defined | {"OPS", "LEARN"}, (variant.name, runs)


def test_operations_are_fields() -> None:
    """And every field that is an operation of more than one device is in the table."""
    fields, codec = Ops.__dataclass_fields__, CodecOps.__dataclass_fields__
    for operation in OPERATIONS:
        for name in (operation.name, *operation.also):
            room, _, field = name.rpartition(".")
            assert field in (codec if room == "codec" else fields), name
    chosen = {name for one in OPERATIONS for name in (one.name, *one.also)}
    assert set(fields) - chosen == {"long", "exact"}


def test_every_variant_has_a_price() -> None:
    """A share that was measured, or the sentence that says why it is there. What was never measured is printed."""
    unmeasured = {}
    for operation in OPERATIONS:
        for variant in operation.variants:
            assert len(variant.price) > 5
            if variant.price == NOT_MEASURED:
                unmeasured.setdefault(operation.name, []).append(variant.name)
    print("not measured:", unmeasured)  # noqa: T201
    assert not {"fuse_step", "fuse_predictor", "fuse_stack", "codec.product", "codec.residual_unit"} & unmeasured.keys()


def test_the_last_variant_takes_every_call_or_says_no() -> None:
    """So no call is left without a variant on a machine that could start, except with --exact."""
    for operation in OPERATIONS:
        final = operation.variants[-1]
        assert final.takes_all and not final.device and not final.libraries, operation.name


LOST = Variant("lost.cu", "cuda.lost:run", "none")
EXACT = Hardware("cuda", "sm_90", (9, 0), frozenset({"triton", "nvrtc"}), exact=True)
NOT_RELEASED = StackCall(0, "bfloat16", 512, 1024, 8, 8, 64, 1e-6, 0, 4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: choose.load(LOST, "", {}, {}), "lost.cu"),
        (lambda: choose.load(replace(LOST, runs="plain:lost"), "", {}, {}), "plain:lost"),
        (lambda: decide("lost", Hardware("cpu"), None), "lost"),
        (lambda: decide("fuse_step", EXACT, NOT_RELEASED), "--exact"),
    ],
    ids=["no such kernel", "no such function", "no such operation", "exact, a model that is not released"],
)
def test_what_cannot_be_chosen_is_an_error_in_words(call: Callable[[], object], words: str) -> None:
    with pytest.raises(DeviceError, match=words):
        call()


def test_an_operation_that_nothing_can_run_is_an_error_in_words() -> None:
    only = replace(choose.named("scores"), variants=choose.named("scores").variants[:1])
    with pytest.raises(DeviceError) as caught:
        choose.usable(only, Hardware("cpu"))
    assert "scores" in caught.value.message and "cpu" in caught.value.message
    assert caught.value.cause and only.variants[0].name in caught.value.cause and caught.value.hint
