"""fill: the right numbers in the right places, or one ModelError that says what does not fit."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from omnitts_cli.errors import ModelError
from omnitts_cli.models.sources import Derived, Join, Names, One, Stack
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


class Toy(nn.Module):
    """One parameter or buffer for every kind of source."""

    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Linear(4, 3)
        self.joined = nn.Parameter(torch.empty(6, 4), requires_grad=False)
        self.stacked = nn.Parameter(torch.empty(2, 5, 4))
        self.book = nn.Parameter(torch.empty(8, 2))
        self.register_buffer("counts", torch.empty(3, dtype=torch.int64))


NAMES: Names = {
    "plain.weight": One("a.weight"),
    "plain.bias": One("a.bias"),
    "joined": Join(("q", "k")),
    "stacked": Stack(("heads.0", "heads.1")),
    "book": Derived(("sum", "usage"), lambda total, usage: total / np.maximum(usage, np.float32(1e-5))[:, None]),
    "counts": One("counts"),
}


def weights() -> dict[str, Tensor]:
    made = torch.Generator().manual_seed(3)
    shapes = {
        "a.weight": (3, 4), "a.bias": (3,), "q": (4, 4), "k": (2, 4), "heads.0": (5, 4), "heads.1": (5, 4),
        "sum": (8, 2),
    }  # fmt: skip
    return {name: torch.randn(shape, generator=made) for name, shape in shapes.items()} | {
        "usage": torch.full((8,), 2.0),
        "counts": torch.tensor([1, 2, 3]),
    }


def toy(device: str = "meta") -> Toy:
    with torch.device(device):
        return Toy()


def saved(folder: Path, tensors: dict[str, Tensor]) -> Checkpoint:
    save_file(tensors, folder / "model.safetensors")
    return Checkpoint.open(folder)


@pytest.mark.parametrize("built_on", ["meta", "cpu"])
def test_every_kind_of_source(tmp_path: Path, built_on: str) -> None:
    stored = weights()
    module = toy(built_on)
    fill(module, NAMES, saved(tmp_path, stored), "cpu", torch.float32)
    assert torch.equal(module.plain.weight, stored["a.weight"])
    assert torch.equal(module.plain.bias, stored["a.bias"])
    assert torch.equal(module.joined, torch.cat([stored["q"], stored["k"]]))
    assert torch.equal(module.stacked, torch.stack([stored["heads.0"], stored["heads.1"]]))
    assert torch.equal(module.book, stored["sum"] / 2)
    assert torch.equal(module.counts, stored["counts"])
    assert not module.joined.requires_grad and module.book.requires_grad
    assert module.plain(torch.ones(1, 4)).shape == (1, 3)


def test_dtype_and_what_stays_float32(tmp_path: Path) -> None:
    stored = weights()
    module = toy()
    fill(module, NAMES, saved(tmp_path, stored), "cpu", torch.bfloat16, keep_float32=("plain.*",))
    assert torch.equal(module.plain.weight, stored["a.weight"])
    assert torch.equal(module.joined, torch.cat([stored["q"], stored["k"]]).bfloat16())
    assert torch.equal(module.book, (stored["sum"] / 2).bfloat16())
    assert module.counts.dtype == torch.int64


def test_computed_buffers_keep_their_values(tmp_path: Path) -> None:
    module = toy()
    module.register_buffer("angles", torch.arange(4.0), persistent=False)
    fill(module, NAMES, saved(tmp_path, weights()), "cpu", torch.bfloat16)
    assert torch.equal(module.angles, torch.arange(4.0))


def test_a_tensor_larger_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.weights.checkpoint.BLOCK_BYTES", 24)
    stored = weights()
    module = toy()
    fill(module, NAMES, saved(tmp_path, stored), "cpu", torch.float32)
    assert torch.equal(module.stacked[1], stored["heads.1"])


def problem(folder: Path, tensors: dict[str, Tensor], **options: object) -> ModelError:
    with pytest.raises(ModelError) as caught:
        fill(toy(), NAMES, saved(folder, tensors), "cpu", torch.float32, **options)  # type: ignore[arg-type]
    assert str(folder) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_first_three_differences_and_a_count(tmp_path: Path) -> None:
    tensors = weights()
    del tensors["a.bias"], tensors["k"], tensors["sum"]
    tensors["heads.1"] = torch.zeros(5, 9)
    tensors["stranger"] = torch.zeros(1)
    cause = problem(tmp_path, tensors).cause or ""
    assert cause.startswith("5 differences: missing: a.bias; missing: k; ")
    assert cause.endswith("; and 2 more") and "heads.1 is [5, 9], expected [5, 4]" in cause


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("a.weight", torch.zeros(4, 3), "a.weight is [4, 3], expected [3, 4]"),
        ("a.weight", torch.zeros(3, 4, dtype=torch.int32), "a.weight is int32"),
        ("a.weight", torch.zeros(3, 4, dtype=torch.float8_e4m3fn), "a.weight is float8_e4m3fn"),
        ("counts", torch.zeros(3), "counts is float32, expected int64"),
        ("q", torch.zeros(5, 4), "q + k have 7 rows, expected 6"),
        ("q", torch.zeros(4, 5), "q is [4, 5], expected rows of [4]"),
        ("q", torch.tensor(1.0), "q is [], expected rows of [4]"),
        ("usage", torch.zeros(9), "give nothing, expected [8, 2]"),
        ("extra", torch.zeros(1), "unexpected: extra"),
        ("extra\x1b[31m", torch.zeros(1), "unexpected: extra?[31m"),
    ],
)
def test_one_difference(tmp_path: Path, name: str, value: Tensor, words: str) -> None:
    assert words in (problem(tmp_path, weights() | {name: value}).cause or "")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["a.weight", "k", "heads.1", "usage"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_number_that_is_none(tmp_path: Path, bad: float, name: str, dtype: torch.dtype) -> None:
    tensors = {key: value.to(dtype) if value.is_floating_point() else value for key, value in weights().items()}
    tensors[name].view(-1)[-1] = bad
    assert f"tensor '{name}' holds NaN or infinity" == problem(tmp_path, tensors).cause


@pytest.mark.parametrize("at", [0, 1, 7, 31, 32, 1000, 65535])
def test_nan_is_seen_anywhere(tmp_path: Path, at: int) -> None:
    values = torch.randn(65536)
    values[at] = math.nan
    module = nn.ParameterDict({"x": nn.Parameter(torch.empty(65536, device="meta"))})
    with pytest.raises(ModelError, match="cannot be used"):
        fill(module, {"x": One("x")}, saved(tmp_path, {"x": values.bfloat16()}), "cpu", torch.bfloat16)


def test_a_number_too_large_for_the_dtype(tmp_path: Path) -> None:
    tensors = weights()
    tensors["k"][0, 0] = 1e6
    with pytest.raises(ModelError) as caught:
        fill(toy(), NAMES, saved(tmp_path, tensors), "cpu", torch.float16)
    assert caught.value.cause == "tensor 'k' does not fit float16"
    assert "bf16" in (caught.value.hint or "")


def test_unused_tensors_may_be_allowed(tmp_path: Path) -> None:
    tensors = weights() | {"encoder.layers.16.x": torch.zeros(1)}
    fill(toy(), NAMES, saved(tmp_path, tensors), "cpu", torch.float32, unused=("encoder.layers.1[6-9].*",))
    fill(toy(), NAMES, Checkpoint.open(tmp_path), "cpu", torch.float32, unused=None)
    assert "unexpected: encoder.layers.16.x" in (problem(tmp_path, tensors, unused=("decoder.*",)).cause or "")


def test_nothing_is_changed_by_a_checkpoint_that_does_not_fit(tmp_path: Path) -> None:
    tensors = weights()
    del tensors["counts"]
    module = toy("cpu")
    for value in module.state_dict().values():
        value.fill_(7)
    with pytest.raises(ModelError):
        fill(module, NAMES, saved(tmp_path, tensors), "cpu", torch.float32)
    assert all((value == 7).all() for value in module.state_dict().values())


def test_a_table_without_a_parameter_is_an_internal_error(tmp_path: Path) -> None:
    files = saved(tmp_path, weights())
    with pytest.raises(AssertionError, match="lacks"):
        fill(toy("cpu"), {name: NAMES[name] for name in NAMES if name != "joined"}, files, "cpu", torch.float32)
    with pytest.raises(AssertionError, match="tensors that the module lacks"):
        fill(toy(), NAMES | {"nobody": One("q")}, files, "cpu", torch.float32)


def test_a_file_cut_after_its_header_was_read(tmp_path: Path) -> None:
    files = saved(tmp_path, weights())
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelError) as caught:
        fill(toy(), NAMES, files, "cpu", torch.float32)
    assert caught.value.cause == "it became shorter while it was read"
