"""Simulated recording conditions for clips: the teacher's speech is clean, clips of people never are.

Room, microphone, noise and telephone band are each applied to a share of the clips. All random numbers are drawn on the
device, so that a training step that includes this can be captured as a CUDA graph. Only the speaker encoder's input is
changed, not the speech that the model learns to generate: the encoder must separate the voice from its surroundings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omnitts_cli.models.speaker import QUIETEST

LOUDER, SOFTER = 0.7, 1.6  # natural logarithms: clips are not as even in loudness as the teacher
UNTOUCHED = 0.5  # share of the clips; without them a bright voice would sound like a bright microphone
ROOM, NOISE, CUT = 0.3, 0.5, 0.15  # shares of the others
ECHO = (3.0, 15.0)  # columns until an echo is softer by e: 0.2 to 1.1 s until it is inaudible
ECHO_LEVEL = (0.02, 0.15)  # of the speech, in each column
COLOUR = 0.5  # standard deviation, natural logarithms: of the tilt and of each wave of the microphone's curve
WAVES = 4
NOISE_BELOW = (1.5, 6.0)  # natural logarithms below the clip's mean loudness: 13 to 52 dB
LOWEST_CUT = 0.55  # of the bands; a telephone has none above


def recorded(mel: Tensor) -> Tensor:
    """Log-mel spectra of clips [n, bands, columns], natural logarithms of magnitudes -> the same, as recorded."""
    chance, untouched = torch.rand(6, len(mel), 1, 1, device=mel.device), mel
    mel = torch.where(chance[0] < ROOM, _in_a_room(mel), mel)
    mel = mel + _microphone(mel)
    mel = torch.where(chance[1] < NOISE, torch.logaddexp(mel, _noise(mel)), mel)
    band = torch.linspace(0, 1, mel.shape[1], device=mel.device)[:, None]
    cut = (chance[2] < CUT) & (band > LOWEST_CUT + (1 - LOWEST_CUT) * chance[3])
    mel = torch.where(cut, math.log(QUIETEST), mel)
    # a change of loudness; the floor of the mel spectrum stays where it is
    mel = (mel + _between(chance[4], (-SOFTER, LOUDER))).clamp(min=math.log(QUIETEST))
    return torch.where(chance[5] < UNTOUCHED, untouched, mel)


def _between(chance: Tensor, ends: tuple[float, float]) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * chance


def _in_a_room(mel: Tensor) -> Tensor:
    """Adds each column, with decaying level, to those after it."""
    chance = torch.rand(2, device=mel.device)  # one room for the batch: a matrix for each clip would be large
    columns = torch.arange(mel.shape[2], device=mel.device)
    later = columns[None] - columns[:, None]  # [from, to]
    echo = _between(chance[0], ECHO_LEVEL) * torch.exp(-later / _between(chance[1], ECHO))
    share = torch.where(later > 0, echo, (later == 0).float())
    return (mel.exp() @ share).clamp(min=QUIETEST).log()


def _microphone(mel: Tensor) -> Tensor:
    """A smooth random curve over the bands for each clip: [n, bands, 1]."""
    bands = torch.linspace(0, 1, mel.shape[1], device=mel.device)
    waves = torch.cos(math.pi * torch.arange(1, WAVES + 1, device=mel.device)[:, None] * bands)  # the first is a tilt
    return (torch.randn(len(mel), WAVES, device=mel.device) * COLOUR / WAVES**0.5 @ waves)[..., None]


def _noise(mel: Tensor) -> Tensor:
    """Steady noise with a random tilt, NOISE_BELOW the mean loudness of each clip."""
    chance = torch.rand(2, len(mel), 1, 1, device=mel.device)
    loudness = mel.exp().mean((1, 2), keepdim=True).clamp(min=QUIETEST).log() - _between(chance[0], NOISE_BELOW)
    bands = torch.linspace(-0.5, 0.5, mel.shape[1], device=mel.device)[:, None]
    tilt = _between(chance[1], (-3.0, 1.0)) * bands
    grain = torch.rand_like(mel).clamp(1e-4, 1 - 1e-4)
    return loudness + tilt + 0.5 * torch.log(-torch.log(grain))  # magnitudes of noise are Rayleigh
