"""Examples whose frames have different delays, and the sound that a decoder should make of their codes.

The pulses of frames that a language side draws do not fit those of the frames before. Codes of differently delayed
sound are like that. What should be heard is the true sound, bent so that every frame ends with the delay of its own
codes: then the pulses reach their new places by a slight change of pitch instead of a jump.
"""

from __future__ import annotations

import torch
from torch import Tensor

from omnitts_cli.training.teacher import SAMPLE_RATE
from omnitts_cli.training.teacher import SAMPLES_PER_FRAME as FRAME

FURTHEST = 120
"""The largest delay, in samples: half a period of a voice of 100 Hz."""
REACH = 8  # samples on each side of a place from which the sound between samples is computed


def half_periods(hertz: Tensor) -> Tensor:
    """Half a period in samples, at most FURTHEST. A longer way would be ambiguous: there is a shorter one back."""
    return (0.5 * SAMPLE_RATE / hertz).clamp(max=FURTHEST)


def mean_pitch(octaves: Tensor, voiced: Tensor, usual: Tensor, each: int) -> Tensor:
    """Hz of each frame [B, T]: the mean of its voiced measurements, octaves above 64 Hz [B, up to T * each]; without
    any, the speaker's `usual` pitch [B, T]."""
    missing = usual.shape[1] * each - octaves.shape[1]
    octaves, voiced = (torch.nn.functional.pad(x, (0, missing)).unflatten(1, (-1, each)) for x in (octaves, voiced))
    count = voiced.sum(-1)
    mean = torch.where(voiced, octaves, 0.0).sum(-1) / count.clamp(min=1)
    return torch.where(count > 0, 64 * torch.exp2(mean), usual)


def walk(reach: Tensor) -> Tensor:
    """Random delays in whole samples [B, T], each at most `reach` [B, T] from the one before."""
    steps = (reach * (2 * torch.rand_like(reach) - 1)).round().unbind(1)
    found = [steps[0]]
    for step in steps[1:]:
        there = found[-1] + step
        found.append(torch.where(there.abs() > FURTHEST, found[-1] - step, there))
    return torch.stack(found, 1)


def curve(delays: Tensor) -> Tensor:
    """The delay of each sample [B, T * FRAME]: every frame glides from the delay before to its own [B, T]."""
    before = torch.cat([delays[:, :1], delays[:, :-1]], 1)
    part = torch.arange(FRAME, device=delays.device) / FRAME
    eased = part * part * (3 - 2 * part)
    return (before[..., None] + (delays - before)[..., None] * eased).flatten(1)


def bent(sound: Tensor, first: Tensor, delay: Tensor) -> Tensor:
    """Stretches [B, n] of `sound` (int16) from the samples `first` [B] on, with a `delay` [B, n] for each sample."""
    whole = (-delay).floor()
    part = -delay - whole
    taps = torch.arange(1 - REACH, REACH + 1, device=sound.device)
    at = first[:, None] + torch.arange(delay.shape[1], device=sound.device) + whole.long()
    near = sound[(at[..., None] + taps).clamp(0, len(sound) - 1)].float()
    apart = taps - part[..., None]
    weights = torch.sinc(apart) * torch.cos(0.5 * torch.pi * apart / REACH).square()
    return (near * weights).sum(-1) / 32768
