"""The last three lines of `omnitts doctor`, on machines that are not this one."""

from types import SimpleNamespace

import pytest

from omnitts_cli.cli.advice import COMPILE, advice
from omnitts_cli.errors import DeviceError

EIGHT, NONE = (SimpleNamespace(eight=one) for one in (object(), None))
CPU = SimpleNamespace(name="cpu", card="A processor", ops=lambda: EIGHT)
SLOW = SimpleNamespace(name="cpu", card="A processor", ops=lambda: NONE)
BROKEN = DeviceError("cuda:0 is not usable: too old", hint="update the driver")


def card(reason: tuple[str, str | None] | None) -> SimpleNamespace:
    return SimpleNamespace(name="cuda:0", card="A card", plain_because=lambda: reason)


def test_a_cpu_without_its_library_is_told_how_to_compile_it() -> None:
    found = advice(SLOW, BROKEN, ["a card"])
    assert found.type == COMPILE and "A processor" in found.runs


def test_a_card_that_cannot_be_used_comes_before_other_cards() -> None:
    found = advice(CPU, BROKEN, ["Arc"])
    assert "too old" in found.faster and found.type == "update the driver"
    assert "Arc" in advice(CPU, None, ["Arc"]).faster


@pytest.mark.parametrize("reason", [None, ("no kernel", None), ("no Triton", "pip install triton")])
def test_a_card_says_whether_its_kernels_run(reason: tuple[str, str | None] | None) -> None:
    found = advice(card(reason), None, [])
    assert "A card" in found.runs and found.type
    assert (reason is None) == ("PyTorch's own" not in found.runs)
    if reason is not None:
        assert reason[0] in found.faster and found.type.startswith(reason[1] or "omnitts say")


def test_an_npu_has_kernels_of_its_own() -> None:
    assert advice(SimpleNamespace(name="npu:0", card="910B"), None, []).type.startswith("omnitts say")
