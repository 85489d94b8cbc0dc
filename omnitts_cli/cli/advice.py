"""The end of `omnitts doctor`: what runs on this machine, what would be faster, and what to type."""

from typing import Any, NamedTuple

from omnitts_cli.errors import OmniError

COMPILE = "pip install ziglang && python -m omnitts_cli.kernels.cpu"


class Advice(NamedTuple):
    """Three lines."""

    runs: str
    faster: str
    type: str


def advice(device: Any, broken: OmniError | None, unused: list[str]) -> Advice:
    """`device`: what a command uses. `broken`: why a card cannot be used. `unused`: cards that nothing is
    written for.
    """
    speak = 'omnitts say "Hello, world." -o hello.wav'
    if device.name != "cpu":
        slow = getattr(device, "plain_because", lambda: None)()
        if slow is None:
            return Advice(f"{device.card}, with the kernels written for it", "nothing more on this card", speak)
        return Advice(f"{device.card}, with PyTorch's own operations", f"kernels, but {slow[0]}", slow[1] or speak)
    compiled = device.ops().eight is not None
    runs = f"the CPU ({device.card}), " + ("in the compiled library" if compiled else "in Python")
    if not compiled:
        return Advice(runs, "the compiled library, four to five times", COMPILE)
    if broken is not None:
        return Advice(runs, f"the GPU, but {broken.message}", broken.hint or "omnitts help speed")
    if unused:
        return Advice(runs, f"an NVIDIA GPU; nothing here is written for {' or '.join(unused)}", speak)
    return Advice(runs, "an NVIDIA GPU, for the released models", speak)
