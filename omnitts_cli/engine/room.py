"""Room: how many slots fit into free memory, and an engine that starts with that many.

The engine allocates all its memory when it starts, so this is the one place where memory can be short.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch

from omnitts_cli.devices.device import Device
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.plan import Plan
from omnitts_cli.errors import DeviceError
from omnitts_cli.models.roles import SpeechModel

KEPT_FREE = 0.15
"""Share of the free memory that slots leave to captured steps and the codec's chunks."""


def slot_bytes(model: SpeechModel, plan: Plan) -> int:
    """Device memory of one slot: keys and values, text ring, codes, the codec's state."""
    keys = model.talker.cache(1, 1).keys
    state = model.codec.initial_state(1, "meta", torch.float32)
    element = keys.element_size()
    return (
        2 * keys.numel() * element * plan.positions
        + plan.text_rows * model.facts.hidden * element
        + plan.frames * model.facts.groups * 8
        + sum(held.numel() * held.element_size() for held in state.values())
    )


def fitting_slots(model: SpeechModel, device: Device, plan: Plan) -> int:
    """How many of the plan's slots fit; one is spare."""
    room = device.free_bytes() * (1 - KEPT_FREE)
    return max(1, min(plan.slots, int(room / slot_bytes(model, plan)) - 1))


def start(model: SpeechModel, device: Device, plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Engine:
    """An engine with the plan's slots, or with fewer where memory is short, which `tell` gets a line about."""
    asked, each = plan.slots, slot_bytes(model, plan)
    slots = fitting_slots(model, device, plan)
    while True:
        try:
            engine = Engine(model, device, plan.with_slots(slots))
        except Exception as error:
            if not device.is_out_of_memory(error):
                raise
            if slots == 1:
                raise DeviceError(
                    f"{device.name} does not have enough memory for one request: {gib(each)} beside the model, "
                    f"{gib(device.free_bytes())} free",
                    hint="-m 0.6b   or   -d cpu",
                ) from None
        else:
            if slots < asked:
                tell(f"only {slots} of {asked} slots of {gib(each)} each fit into {device.name}")
            return engine
        slots //= 2
        gc.collect()  # the failed engine's tensors


def gib(size: float) -> str:
    """Bytes in words."""
    return f"{size / 2**30:.1f} GiB"
