"""What learning takes, and the way that is chosen for a device."""

from collections.abc import Mapping

import pytest
import torch

from omnitts_cli.families.known import made_up
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.shapes import StackShape
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.tuning.room import BESIDE, WAYS, needed, room_for, stack_bytes


def shapes_of(name: str) -> Mapping[str, tuple[int, ...]]:
    family, config = made_up(name, None)
    assert family.stored is not None
    return family.stored(config).language[1]


@pytest.mark.parametrize(("frames", "measured"), [(256, 35.6), (720, 39.3)])
def test_it_is_what_a_card_has_allocated(frames: int, measured: float) -> None:
    """Measured on an H100 with 1.7B and one minute of speech in each step. The text table was in bfloat16, and no codec
    was loaded."""
    shapes = shapes_of("1.7b-base")
    found = needed(shapes, WAYS[0], 1139, frames, True) - BESIDE
    assert found / 1e9 == pytest.approx(measured, rel=0.04)


@pytest.mark.parametrize(("gb", "number"), [(80, 0), (36, 1), (24, 2), (16, 2)])
def test_the_fastest_way_that_fits_is_chosen(gb: int, number: int) -> None:
    free = gb * 10**9
    room = room_for(shapes_of("1.7b-base"), free, 1221, 256, True)
    assert room.way == WAYS[number] and room.fits == (gb > 16) and readable_size(free) in room.words


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("halves", [False, True])
def test_what_a_stack_keeps_is_counted(recomputes: bool, halves: bool) -> None:
    """Compares the difference between five layers and three, so that what is kept once cancels out."""

    def kept(layers: int) -> tuple[int, int]:
        shape = StackShape(256, 768, layers, 8, 4, 64, 1e-6, 1e4)
        stack, seen = Stack(shape), dict[int, tuple[int, torch.Tensor]]()
        stack.recomputes = recomputes
        own = {one.data_ptr() for one in stack.parameters()}

        def keep(one: torch.Tensor) -> torch.Tensor:
            memory = one.untyped_storage()
            if memory.data_ptr() not in own:
                seen[memory.data_ptr()] = memory.nbytes(), one
            return one

        rows = torch.randn(2, 32, 256, requires_grad=True)
        with (
            torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one),
            torch.autocast("cpu", torch.bfloat16, enabled=halves, cache_enabled=False),
        ):
            made = stack(rows)
        shapes = {name: tuple(one.shape) for name, one in stack.named_parameters()}
        assert made.shape == rows.shape
        return sum(size for size, _ in seen.values()), stack_bytes(shapes, "layers.", 64, recomputes, halves)

    (kept_of_five, counted_of_five), (kept_of_three, counted_of_three) = kept(5), kept(3)
    assert counted_of_five - counted_of_three == pytest.approx(kept_of_five - kept_of_three, rel=0.06)
