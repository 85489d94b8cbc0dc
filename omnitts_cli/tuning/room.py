"""How much memory learning takes, and the way that fits: as it is, or slower, or with moments of half the size."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from omnitts_cli.settings.setting import readable_size

Shapes = Mapping[str, tuple[int, ...]]
"""Of the language side's weights, by name."""

TEXT_TABLE = "text.table"
BESIDE = 3 << 29  # bytes of a card: codec, encoders, kernels, and what the allocator keeps in pieces
BESIDE_CPU = 1 << 28
SCRATCH = 1 << 24  # numbers whose moments are wide at a time


@dataclass(frozen=True)
class Way:
    """How all weights learn. Gradients are the same in each; moments of half the size are rounded to bfloat16."""

    recomputes: bool = False  # layers are calculated again for their gradients
    half_moments: bool = False

    @property
    def words(self) -> str:
        """For people."""
        tricks = ["layers calculated twice"] * self.recomputes + ["moments in bfloat16"] * self.half_moments
        return " and ".join(tricks)


WAYS = (Way(), Way(recomputes=True), Way(recomputes=True, half_moments=True))
"""The fast one first."""


@dataclass(frozen=True)
class WayPlan:
    """A way and what it takes."""

    way: Way
    size_bytes: int
    free: int

    @property
    def words(self) -> str:
        """For people."""
        about = f"about {readable_size(self.size_bytes)} of {readable_size(self.free)}"
        return f"{about}; {self.way.words}" if self.way.words else about

    @property
    def fits(self) -> bool:
        return self.size_bytes <= self.free


def room_for(shapes: Shapes, free: int, positions: int, frames: int, halves: bool) -> WayPlan:
    """The first way that fits, or the last one. `positions` of the talker in one part of a step, `frames` whose codes
    1.. are predicted; `halves`: products are in bfloat16."""
    rooms = [WayPlan(way, needed(shapes, way, positions, frames, halves), free) for way in WAYS]
    return next((room for room in rooms if room.fits), rooms[-1])


def needed(shapes: Shapes, way: Way, positions: int, frames: int, halves: bool) -> int:
    """Bytes for learning all weights but the table of the text, which stays as it is."""
    learned = sum(prod(shape) for name, shape in shapes.items() if name != TEXT_TABLE)
    total = (BESIDE if halves else BESIDE_CPU) + (2 if halves else 4) * prod(shapes[TEXT_TABLE])
    total += (4 + 4 + (4 if way.half_moments else 8)) * learned  # weight, gradient, two moments
    total += 8 * SCRATCH * way.half_moments
    groups, codes = shapes["predictor.heads"][:2]
    total += frames * groups * codes * 10  # logits in the precision of products and in float32, and their gradients
    for stack, rows in (("talker", positions), ("predictor", frames * (groups + 1))):
        total += stack_bytes(shapes, f"{stack}.stack.layers.", rows, way.recomputes, halves)
    return total


def stack_bytes(shapes: Shapes, prefix: str, rows: int, recomputes: bool, halves: bool) -> int:
    """What a stack keeps of `rows` positions for its gradients: with products in bfloat16 also the weights in it."""
    layers = {name.removeprefix(prefix).partition(".")[0] for name in shapes if name.startswith(prefix)}
    first = {name: shapes[f"{prefix}0.{name}"] for name in ("qkv", "out", "gate_up", "down")}
    (hidden, wide), inner = first["out"], first["down"][1]
    narrow = (first["qkv"][0] - wide) // 2
    # counted in a layer of `Stack`: residuals, norms and rotations are float32, the rest is that of the products
    kept = rows * (20 * hidden + 14 * wide + 6 * narrow + 8 * inner)
    weights = 2 * sum(map(prod, first.values()))
    if not halves:
        kept, weights = rows * (24 * hidden + 24 * wide + 8 * narrow + 16 * inner), 0
    one = kept + weights
    return one * len(layers) if not recomputes else 4 * rows * hidden * len(layers) + one + 2 * weights
