"""random_fill: fills a module with pseudo-random weights, the same on every device, in seconds and without a file.

A random model is as large and as fast as a real one, and its activations stay in range over hundreds of frames, so
speed and memory can be measured without the released weights.
"""

import hashlib
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from math import prod, sqrt

import torch
from torch import Tensor, nn

from omnitts_cli.weights.load import put, tensors_of

BLOCK = 2**17  # values made at a time; fits in a CPU cache
WIDE_BLOCK = 2**23  # on an accelerator, where small blocks would leave it waiting for launches

# The mean and standard deviation of a parameter, by the first pattern that matches its name. None: scaled by the
# number of inputs, so that activations keep their size.
_KINDS: tuple[tuple[str, float, float | None], ...] = (
    ("*bias", 0.0, 0.02),
    ("*norm*", 1.0, 0.1),
    ("*scale", 0.1, 0.02),
    ("*.alpha", 0.0, 0.1),  # exponents
    ("*.beta", 0.0, 0.1),
    ("*.table", 0.0, 0.3),  # lookup tables
    ("*.first", 0.0, 0.3),
    ("*.rest", 0.0, 0.3),
    ("*.books", 0.0, 0.7),
    ("*", 0.0, None),
)

# Gains that keep logits apart, and a waveform that neither clips nor grows from layer to layer.
_GAINS = (("*head", 2.5), ("*heads", 2.5), ("*units.*.point.*", 0.25), ("*rise.*", 0.6), ("closing.*", 1.5))


def random_fill(
    module: nn.Module,
    seed: int,
    device: torch.device | str,
    dtype: torch.dtype,
    *,
    keep_float32: Sequence[str] = (),
    host: Sequence[str] = (),
    changed: Callable[[str, Tensor], Tensor] = lambda name, value: value,
) -> None:
    """Fill every parameter, and every buffer without values, with values that depend on `seed` and its name only.

    `host`: names of those that go to the memory of the host. `changed`: what is put into the module in the place of
    the tensor called so.
    """
    for name, old in tensors_of(module).items():
        if not old.is_meta and not isinstance(old, nn.Parameter):
            put(module, name, old.to(device))  # a computed buffer
            continue
        kept = any(fnmatchcase(name, pattern) for pattern in keep_float32)
        wanted = (torch.float32 if kept else dtype) if old.is_floating_point() else old.dtype
        new = torch.zeros(old.shape, device="cpu" if name in host else device, dtype=wanted)
        if new.is_floating_point():
            mean, spread = _spread(name, tuple(old.shape))
            _scatter(new.view(-1), f"{seed} {name}", mean, spread, torch.device(device))
        put(module, name, changed(name, new))


def _spread(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    mean, spread = next((mean, spread) for pattern, mean, spread in _KINDS if fnmatchcase(f".{name}", pattern))
    if spread is not None:
        return mean, spread
    gain = next((gain for pattern, gain in _GAINS if fnmatchcase(name, pattern)), 1.0)
    return mean, gain / sqrt(_inputs(name, shape))


def _inputs(name: str, shape: tuple[int, ...]) -> int:
    """The number of inputs of one output (fan-in)."""
    if fnmatchcase(name, "*heads"):  # [G, V, H]
        return shape[-1]
    if fnmatchcase(
        name, "*rise.*"
    ):  # transposed, [in, out, k]: every output sums k / stride = 2 inputs of each channel
        return 2 * shape[0]
    return prod(shape[1:])


def _scatter(flat: Tensor, label: str, mean: float, spread: float, device: torch.device) -> None:
    """Fill with pseudo-random values from an integer hash of a counter, computed on `device`, identical on each."""
    digest = hashlib.blake2b(label.encode(), digest_size=8).digest()
    start, stride = (int.from_bytes(digest[at : at + 4], "little", signed=True) for at in (0, 4))
    block = BLOCK if device.type == "cpu" else WIDE_BLOCK
    for begin in range(0, flat.numel(), block):
        end = min(begin + block, flat.numel())
        # An odd stride visits every 32-bit value once before it repeats.
        bits = torch.arange(begin, end, dtype=torch.int32, device=device).mul_(stride | 1).add_(start)
        bits = _mixed(bits)
        # The sum of two uniform 16-bit values: a triangular distribution with standard deviation 26755
        sums = (bits & 0xFFFF).add_((bits >> 16).bitwise_and_(0xFFFF)).sub_(0xFFFF)
        flat[begin:end].copy_(sums.float().mul_(spread / 26755.0).add_(mean))


def _mixed(bits: Tensor) -> Tensor:
    """The published `lowbias32` hash, a bijection on 32 bits. In place."""
    # >> is an arithmetic shift, so the sign bits are masked
    bits ^= (bits >> 16).bitwise_and_(0xFFFF)
    bits *= 0x7FEB352D
    bits ^= (bits >> 15).bitwise_and_(0x1FFFF)
    bits *= 0x846CA68B - 2**32
    bits ^= (bits >> 16).bitwise_and_(0xFFFF)
    return bits
