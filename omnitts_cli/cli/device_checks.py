"""The doctor's questions about devices: what is there, whether it computes, and how fast it speaks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnitts_cli.cli.checks import SENTENCE, Check
from omnitts_cli.errors import OmniError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Machine, Network


def all_of(machine: Machine) -> Iterator[Check]:
    """Every device of this machine; only the one that was named, if one was."""
    import torch

    from omnitts_cli.devices.choose import broken_cuda, broken_npu, choose

    names = ["cpu"] if machine.device == "auto" else [machine.device]
    if machine.device == "auto":
        accelerator = choose("auto").name
        names = [accelerator, "cpu"] if accelerator != "cpu" else names
        if (error := broken_cuda()) is not None:
            yield Check("device cuda", "warn", error.message, "a torch build that fits the driver: pytorch.org")
        if accelerator != "npu:0" and (error := broken_npu()) is not None:
            yield Check("device npu", "warn", error.message, error.hint)
    for name in names:
        try:
            device = choose(name)
            product = torch.ones(64, 64, device=device.torch_device) @ torch.ones(64, 64, device=device.torch_device)
            free = device.free_bytes() / 2**30
            right = float(product[0, 0]) == 64.0
        except (OmniError, RuntimeError) as error:
            yield Check(f"device {name}", "fail", str(error)[:200], getattr(error, "hint", None))
            continue
        words = f"{free:.1f} GiB free" if right else "computes wrong numbers"
        yield Check(f"device {name}", "ok" if right else "fail", words, numbers={"free_gib": round(free, 1)})
        yield speech(replace(machine, device=name))


def speech(machine: Machine) -> Check:
    """A real sentence, with its real-time factor."""
    from omnitts_cli.cli.engine_room import settings_for
    from omnitts_cli.request import Request
    from omnitts_cli.speech import load as build

    name = f"speech on {machine.device}"
    settings = settings_for(machine, Network(offline=True))
    began = time.perf_counter()
    try:
        with build.open_engine(EMBEDDED, **settings) as engine:
            loaded = time.perf_counter()
            clip = engine.clip(Request(SENTENCE))
            facts: Any = engine.model.facts
    except OmniError as error:
        return Check(name, "warn", error.message, error.hint)
    spent, audio = time.perf_counter() - loaded, clip.pcm.size / facts.sample_rate
    rtf = spent / audio if audio else None
    words = f"{audio:.1f} s of speech in {spent:.1f} s" + (f", RTF {rtf:.2f}" if rtf else "")
    numbers = {"rtf": rtf and round(rtf, 3), "load_s": round(loaded - began, 2)}
    return Check(name, "ok" if audio else "fail", words, speaks=bool(audio), numbers=numbers)
