"""Weights in 8 bits: products have the bits of a reference in PyTorch, and stacks the same on every instruction set."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tables
import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.cpu import build, library, networks, quantised
from omnitts_cli.kernels.ops import TextParts
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import StackShape

VARIANTS = ["avx512vnni", "avxvnni", "avx2", "dotprod", "plain"]
SHAPE = StackShape(hidden=64, inner=96, layers=3, heads=6, kv_heads=2, head_dim=32, eps=1e-6, rope_theta=1e4)
SHAPES = [SHAPE, StackShape(24, 40, 2, 6, 2, 8, 1e-6, 1e4), replace(SHAPE, hidden=75, inner=130, head_dim=20)]


@pytest.fixture(params=VARIANTS)
def native(request: pytest.FixtureRequest) -> library.QuantisedLibrary:
    if request.param not in library.quantised_usable():
        pytest.skip("not compiled, or not of this processor")
    found = library.load_quantised(request.param)
    assert found is not None and found.variant == request.param
    return found


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def heavy(*shape: int, seed: int = 0) -> Tensor:
    """Student's t with three degrees of freedom."""
    made = torch.Generator().manual_seed(seed)
    normal = [torch.randn(shape, generator=made) for _ in range(4)]
    return normal[0] / ((normal[1] ** 2 + normal[2] ** 2 + normal[3] ** 2) / 3).sqrt().clamp(min=1e-6)


def matrix(native: library.QuantisedLibrary, weight: Tensor, paired: bool = False) -> Tensor:
    made = torch.zeros(quantised.size_bytes(*weight.shape, paired), dtype=torch.uint8)
    quantised.make(native, weight, made, paired)
    return made


def multiply(native: library.QuantisedLibrary, rows: Tensor, weight: Tensor) -> Tensor:
    return torch.from_numpy(quantised.multiply(native, rows, weight))


def by_groups(x: Tensor, half: bool) -> tuple[Tensor, Tensor]:
    """Integers [..., groups, 32] and scales [..., groups]: a weight is divided by its scale in float16."""
    parts = torch.nn.functional.pad(x, (0, -x.shape[-1] % 32)).unflatten(-1, (-1, 32))
    top = parts.abs().amax(-1)
    if half:
        scale = (top / 127).half().float()
        return (parts / scale[..., None]).nan_to_num().round().clamp(-127, 127), scale
    return (parts * (127 / top)[..., None]).nan_to_num().round(), top / 127


def reference(weight: Tensor, rows: Tensor) -> Tensor:
    """Group after group, with a rounding after each product and each sum."""
    (w, scale), (x, of_row) = by_groups(weight, True), by_groups(rows, False)
    whole = torch.einsum("ogk,rgk->gro", w, x)  # integers, exact in float32
    out = torch.zeros(len(rows), len(weight))
    for group, sums in enumerate(whole):
        out = out + sums * (scale[:, group] * of_row[:, group, None])
    return out


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (64, 32), (70, 33), (130, 96), (192, 75)])
def test_a_product_has_the_bits_of_the_reference(
    outputs: int, inputs: int, native: library.QuantisedLibrary, threads: None
) -> None:
    weight, rows = heavy(outputs, inputs), torch.randn(11, inputs, generator=torch.Generator().manual_seed(1))
    rows[:, inputs // 2] *= 100
    rows[4] = 0
    made = matrix(native, weight)
    truth = reference(weight, rows)
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        assert torch.equal(multiply(native, rows, made), truth)
        for size in (1, 2, 5):
            parts = [multiply(native, part, made) for part in rows.split(size)]
            assert torch.equal(torch.cat(parts), truth)
    assert quantised.shape(made) == (outputs, inputs)


ERRORS = {  # relative root mean square: of weights and rows, 8 bits by groups of 32 on both sides
    ("normal", "normal"): 0.009,
    ("heavy", "normal"): 0.013,
    ("normal", "outlier"): 0.017,
    ("heavy", "outlier"): 0.03,
}


@pytest.mark.parametrize("kinds", ERRORS, ids="-".join)
def test_long_tails_and_an_outlier_channel_stay_exact(kinds: tuple[str, str]) -> None:
    """One scale for a whole row would give an error of 0.12 with the outlier channel."""
    native = library.load_quantised()
    if native is None:
        pytest.skip("the library of the CPU was not compiled")
    made = torch.Generator().manual_seed(3)
    weight = heavy(256, 768) if kinds[0] == "heavy" else torch.randn(256, 768, generator=made)
    rows = torch.randn(8, 768, generator=made)
    if kinds[1] == "outlier":
        rows[:, 11] *= 100
    exact = rows.double() @ weight.double().T
    error = (multiply(native, rows, matrix(native, weight)) - exact).norm() / exact.norm()
    assert error < ERRORS[kinds]


def test_what_is_no_number_comes_out_as_no_number(native: library.QuantisedLibrary) -> None:
    """The end of a frame finds it and ends the request; a neighbour's row is not touched."""
    made = matrix(native, torch.randn(70, 64))
    for bad in (float("nan"), float("inf"), -float("inf")):
        rows = torch.ones(3, 64)
        rows[1, 40] = bad
        found = multiply(native, rows, made)
        assert found[1].isnan().all() and found[[0, 2]].isfinite().all()


def test_rows_of_the_text(threads: None) -> None:
    """The MLP in float32: as exact as float32 is, with the same bits alone, on any threads and instruction set."""
    made, found = torch.Generator().manual_seed(5), []
    shapes = (75, 33), (75,), (40, 75), (40,)
    parts = TextParts(*(torch.randn(shape, generator=made) / 6 for shape in shapes))
    rows, head = torch.randn(7, 33, generator=made), torch.zeros(64, dtype=torch.uint8)
    exact = torch.nn.functional.silu(rows.double() @ parts.inner.double().T + parts.inner_bias)
    exact = exact @ parts.out.double().T + parts.out_bias
    for count, variant in enumerate(library.quantised_usable(), 1):
        torch.set_num_threads(count)
        run = networks.fuse_text(library.load_quantised(variant), head, parts)
        assert run is not None
        found.append(run(rows))
        assert np.array_equal(found[-1], np.concatenate([run(row[None]) for row in rows]))
        np.testing.assert_allclose(found[-1], exact, rtol=1e-5, atol=1e-6)
    if not found:
        pytest.skip("the library of the CPU was not compiled")
    assert all(np.array_equal(found[0], other) for other in found)
    assert tables.native().fuse_text(head.float(), parts) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e9])
def test_weights_that_cannot_be_used_are_refused(bad: float, native: library.QuantisedLibrary) -> None:
    weight = torch.randn(70, 33)
    weight[69, 32] = bad
    with pytest.raises(ValueError, match="NaN or infinity" if bad != 1e9 else "float16"):
        matrix(native, weight)


def test_a_sum_finds_one_changed_bit(native: library.QuantisedLibrary) -> None:
    made = matrix(native, heavy(70, 64))
    before = quantised.sum_of(native, made)
    for at in (0, 100, made.numel() - 1):
        made[at] ^= 4
        assert quantised.sum_of(native, made) != before
        made[at] ^= 4
    assert quantised.sum_of(native, made) == before


def stack_of(shape: StackShape, variant: str) -> tuple[Stack, Stack]:
    """In 8 bits, and the reference: the same rounded weights, and rows that are rounded in the same way."""
    made, native = torch.Generator().manual_seed(0), library.load_quantised(variant)

    def rounded(x: Tensor) -> Tensor:
        q, scale = by_groups(x, False)
        return (q * scale[..., None]).flatten(-2)[..., : x.shape[-1]]

    def linear(x: Tensor, weight: Tensor) -> Tensor:
        return torch.nn.functional.linear(rounded(x), weight)

    def swiglu(x: plain.Normed, gate_up: Tensor) -> Tensor:
        gate, up = linear(plain.norm(x), gate_up).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    ops = replace(
        plain.OPS,
        linear=linear,
        norm_linear=lambda x, weight: linear(plain.norm(x), weight),
        norm_swiglu=swiglu,
        linear_add=lambda x, weight, residual, norm, eps: plain.Normed(residual + linear(x, weight), norm, eps),
    )
    truth, eight = Stack(shape, ops).requires_grad_(False), Stack(shape, tables.native(eight=variant))
    for weight in truth.parameters():
        weight.copy_(1 + 0.3 * torch.randn(weight.shape, generator=made))
        if weight.dim() == 2:
            weight.sub_(1).mul_(3.4 / weight.shape[1] ** 0.5)
    eight.load_state_dict(truth.state_dict())
    for layer, other in zip(truth.layers, eight.layers, strict=True):
        for name in ("qkv", "out", "gate_up", "down"):
            weight = getattr(layer, name)
            packed = matrix(native, weight.data, paired=name == "gate_up")
            setattr(other, name, torch.nn.Parameter(packed, requires_grad=False))
            q, scale = by_groups(weight.data, True)
            weight.copy_((q * scale[..., None]).flatten(1)[:, : weight.shape[1]])
    eight.fuse()
    assert isinstance(eight.fused, quantised.QuantisedStack)
    return eight, truth


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.hidden))
@pytest.mark.parametrize("slots", [[2], [3, 0, 1]])
def test_hidden_states_and_cache(
    shape: StackShape, slots: list[int], native: library.QuantisedLibrary, threads: None
) -> None:
    eight, truth = stack_of(shape, native.variant)
    made = torch.Generator().manual_seed(1)
    fast, slow = eight.cache(4, 60, "cpu", torch.float32), truth.cache(4, 60, "cpu", torch.float32)
    assert fast.keys.dtype == torch.float16
    fast.keys.normal_(generator=made)
    fast.values.normal_(generator=made)
    slow.keys.copy_(fast.keys)
    slow.values.copy_(fast.values)
    rows, starts = torch.randn(len(slots), 9, shape.hidden, generator=made), torch.arange(len(slots))[:, None] + 3
    asked = rows, starts + torch.arange(9), torch.tensor(slots)
    expected = truth.cached(*asked, slow, 60)
    bits = []
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        again, _ = stack_of(shape, native.variant)
        bits.append(again.cached(*asked, fast, 60))
    assert torch.equal(bits[0], bits[1]) and torch.equal(bits[0], bits[2])
    # keys and values are rounded to float16, so that other numbers fall the other way: by one of 127 steps each
    assert (bits[0] - expected).norm() / expected.norm() < 0.03
    assert (fast.keys.float() - slow.keys).norm() / slow.keys.norm() < 0.02


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: str(shape.hidden))
def test_one_layer_and_one_row_differ_by_few_roundings(shape: StackShape, native: library.QuantisedLibrary) -> None:
    eight, truth = stack_of(replace(shape, layers=1), native.variant)
    row, where = torch.randn(1, 1, shape.hidden, generator=torch.Generator().manual_seed(4)), torch.tensor([[5]])
    caches = [stack.cache(1, 8, "cpu", torch.float32) for stack in (eight, truth)]
    found, expected = (
        stack.cached(row, where, torch.tensor([0]), cache, 8)
        for stack, cache in zip((eight, truth), caches, strict=True)
    )
    assert (found - expected).norm() / expected.norm() < 8e-3


def test_all_instruction_sets_and_pieces_give_the_same_bits() -> None:
    found = []
    for variant in library.quantised_usable():
        eight, _ = stack_of(SHAPES[2], variant)
        rows = torch.randn(4, 13, 75, generator=torch.Generator().manual_seed(2))
        places = torch.arange(13).expand(4, -1)
        whole, pieces = eight.cache(4, 16, "cpu", torch.float32), eight.cache(4, 16, "cpu", torch.float32)
        together = eight.cached(rows, places, torch.arange(4), whole, 16)
        for slot in range(4):
            for start in range(0, 13, slot + 1):
                part = slice(start, start + slot + 1)
                alone = eight.cached(rows[slot : slot + 1, part], places[:1, part], torch.tensor([slot]), pieces, 16)
                assert torch.equal(alone[0], together[slot, part])
        assert torch.equal(whole.keys, pieces.keys) and torch.equal(whole.values, pieces.values)
        found.append(together)
    if not found:
        pytest.skip("the library of the CPU was not compiled")
    assert all(torch.equal(found[0], other) for other in found)


DRIVERS = {
    "avx2": ("gcc", build.QUANTISED_X86["avx2"]),
    "plain": ("gcc", ()),
    "sanitized": (
        "gcc",
        ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-mavx2", "-mfma", "-mf16c"),
    ),
    "threads": ("gcc", ("-g", "-fsanitize=thread", "-mavx2", "-mfma", "-mf16c")),
    "clang": ("clang", build.QUANTISED_X86["avx2"]),
    "avx512vnni": ("gcc", build.QUANTISED_X86["avx512vnni"]),
    "avxvnni": ("gcc", build.QUANTISED_X86["avxvnni"]),
    "aarch64": ("aarch64-linux-gnu-gcc", ("-static",)),
    "aarch64-dotprod": ("aarch64-linux-gnu-gcc", ("-static", *build.QUANTISED_ARM["dotprod"])),
    "s390x": ("s390x-linux-gnu-gcc", ("-static",)),
}
SAID = "matrices 71b2f8c69e6dd992\nproducts 33565e931a14e001\nstack b2a1c114e88eeb0c\ndraws d2ef67fbc86d42db\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIVERS)
def test_the_same_bits_in_an_emulator(name: str, tmp_path: Path) -> None:
    command, flags = DRIVERS[name]
    run = [f"qemu-{name.split('-')[0]}"] if "-linux-" in command else []
    if not all(map(shutil.which, [command, *run])):
        pytest.skip(f"needs {command} {' '.join(run)}")
    if name in VARIANTS and name not in library.quantised_usable():
        pytest.skip("not of this processor")
    made = str(tmp_path / "driver")
    fixed = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *build.ONE_ORDER, "-DVARIANT=driven")
    source = [f"-I{build.FOLDER}", str(Path(__file__).with_name("quantised_driver.c")), "-o", made, "-lm"]
    subprocess.run([command, *fixed, *flags, *source], check=True)
    done = subprocess.run([*run, made], capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (done.returncode, done.stdout, done.stderr) == (0, SAID, "")
