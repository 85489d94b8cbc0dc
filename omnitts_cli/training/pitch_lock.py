"""A teacher whose voice begins every codec frame at the same phase.

A language side cannot predict the phase of a voice 80 ms later, so the pulses of the frames that it draws do not fit
each other. If F0 is changed slightly, so that every voiced frame holds a whole number of cycles, all frames begin and
end at one phase, and codes need not say it.
"""

from __future__ import annotations

import torch
from torch import Tensor

SAMPLE_RATE, FRAME = 24000, 1920
ENTRY = 300  # samples for each value of the teacher's F0 curve
PER_FRAME = 2  # values of that curve for each frame of the teacher's durations
STEP = 60  # samples; a frame and an entry are whole numbers of steps
STEPS = FRAME // STEP
VOICED = 10.0  # Hz; the teacher's source is noise below it
STAYS = 0.6  # cycles by which a frame may be off its neighbour's number before its own is chosen


def free(pitch: Tensor) -> Tensor:
    """The phase in cycles [B, n] that the F0 curve [B, T] gives."""
    return (pitch.repeat_interleave(ENTRY, 1).double() / SAMPLE_RATE).cumsum(1).remainder(1.0).float()


def locked(pitch: Tensor, steps: int = STEPS) -> tuple[Tensor, Tensor]:
    """An F0 curve [B, T] -> the curve with a whole number of cycles in every voiced frame, and its phase [B, n].

    `steps`: of a frame, which is longer or shorter where the sound will be resampled (`tract`)."""
    length = pitch.shape[1] * (ENTRY // STEP)
    each = pitch.repeat_interleave(ENTRY // STEP, 1)
    hertz = torch.nn.functional.pad(each, (0, -length % steps)).unflatten(1, (-1, steps))  # [B, frames, steps]
    voiced = hertz > VOICED
    hertz = _scaled(hertz, voiced.all(-1))
    curve = hertz.flatten(1)[:, :length].unflatten(1, (-1, ENTRY // STEP)).mean(-1)
    return curve, _phase(hertz, voiced).flatten(1)[:, : length * STEP]


def _scaled(hertz: Tensor, whole: Tensor) -> Tensor:
    """F0 [B, frames, steps], with a whole number of cycles in the frames that are voiced throughout, `whole`."""
    cycles = hertz.sum(-1) * (STEP / SAMPLE_RATE)
    wanted = _numbers(cycles, whole)
    factor = torch.where(whole, wanted / cycles.clamp(min=1e-3), 1.0)
    # from the factor of the frame before, over its own, to that of the next
    before, after = (torch.where(whole & torch.roll(whole, by, 1), torch.roll(factor, by, 1), factor) for by in (1, -1))
    part = (torch.arange(hertz.shape[-1], device=hertz.device) + 0.5) / hertz.shape[-1]
    gliding = factor[..., None] + torch.where(
        part < 0.5, (before - factor)[..., None] * (0.5 - part), (after - factor)[..., None] * (part - 0.5)
    )
    hertz = hertz * gliding
    # what is missing yet, most of it in the middle of the frame
    window = torch.sin(torch.pi * part).square()
    cycles, middle = (x.sum(-1) * (STEP / SAMPLE_RATE) for x in (hertz, hertz * window))
    more = torch.where(whole, (wanted - cycles) / middle.clamp(min=1e-3), 0.0)
    return hertz * (1 + more[..., None] * window)


def _numbers(cycles: Tensor, whole: Tensor) -> Tensor:
    """The number of cycles of each frame [B, frames]: the nearest, or that of the frame before if it is near enough."""
    found = []
    last, known = cycles[:, 0], whole[:, 0] & False
    for now, voiced in zip(cycles.unbind(1), whole.unbind(1), strict=True):
        stays = known & ((now - last).abs() < STAYS)
        last, known = torch.where(stays, last, now.round().clamp(min=1.0)), voiced
        found.append(last)
    return torch.stack(found, 1)


def _phase(hertz: Tensor, voiced: Tensor) -> Tensor:
    """The phase in cycles [B, frames, samples], 0 at every border. Where a frame has an unvoiced part, the phase jumps
    at its end, so that the voice that begins there has phase 0 at the next border."""
    each = hertz.repeat_interleave(STEP, -1) / SAMPLE_RATE
    forward = each.cumsum(-1)
    silent = (~voiced).repeat_interleave(STEP, -1)
    later = silent.flip(-1).cumsum(-1).flip(-1) == 0  # nothing unvoiced follows in this frame
    jumps = later & ~voiced.all(-1, keepdim=True)
    return torch.where(jumps, forward - forward[..., -1:], forward).remainder(1.0)
