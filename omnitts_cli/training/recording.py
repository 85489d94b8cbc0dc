"""How a clip may have been recorded: what the teacher never does, and people's clips always have.

The teacher speaks into no room, through no microphone and over no noise. Each hindrance meets a share of the
clips, by random numbers on the device alone, so that it is part of a captured step. What is said stays as clean as it
was: the speaker encoder must separate the voice from its surroundings.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omnitts_cli.models.speaker import QUIETEST

LOUDER, SOFTER = 0.7, 1.6  # natural logarithms: clips are not as even in loudness as the teacher
UNTOUCHED = 0.5  # share of the clips; were all coloured, a bright voice and a bright microphone would look alike
ROOM, NOISE, CUT = 0.3, 0.5, 0.15  # shares of the others
ECHO = (3.0, 15.0)  # columns until an echo is softer by e: 0.2 to 1.1 s until it is inaudible
ECHO_LEVEL = (0.02, 0.15)  # of what is said, in each column
COLOUR = 0.5  # standard deviation, natural logarithms: of the tilt and of each wave of the microphone's curve
WAVES = 4
NOISE_BELOW = (1.5, 6.0)  # natural logarithms below the clip's mean loudness: 13 to 52 dB
LOWEST_CUT = 0.55  # of the bands; above it a telephone has nothing


def recorded(mel: Tensor) -> Tensor:
    """Log-mel spectra of clips [n, bands, columns], natural logarithms of magnitudes -> the same, as recorded."""
    chance, untouched = torch.rand(6, len(mel), 1, 1, device=mel.device), mel
    mel = torch.where(chance[0] < ROOM, _in_a_room(mel), mel)
    mel = mel + _microphone(mel)
    mel = torch.where(chance[1] < NOISE, torch.logaddexp(mel, _noise(mel)), mel)
    band = torch.linspace(0, 1, mel.shape[1], device=mel.device)[:, None]
    cut = (chance[2] < CUT) & (band > LOWEST_CUT + (1 - LOWEST_CUT) * chance[3])
    mel = torch.where(cut, math.log(QUIETEST), mel)
    # as in a louder or softer clip: the quietest is cut off where the mel spectrum cuts it off
    mel = (mel + _between(chance[4], (-SOFTER, LOUDER))).clamp(min=math.log(QUIETEST))
    return torch.where(chance[5] < UNTOUCHED, untouched, mel)


def _between(chance: Tensor, ends: tuple[float, float]) -> Tensor:
    return ends[0] + (ends[1] - ends[0]) * chance


def _in_a_room(mel: Tensor) -> Tensor:
    """Each column is repeated, softer and softer, in those behind it."""
    chance = torch.rand(2, device=mel.device)  # one room for all: a matrix of its own for each clip would be large
    columns = torch.arange(mel.shape[2], device=mel.device)
    later = columns[None] - columns[:, None]  # [from, to]
    echo = _between(chance[0], ECHO_LEVEL) * torch.exp(-later / _between(chance[1], ECHO))
    share = torch.where(later > 0, echo, (later == 0).float())
    return (mel.exp() @ share).clamp(min=QUIETEST).log()


def _microphone(mel: Tensor) -> Tensor:
    """A smooth curve over the bands, another one for each clip: [n, bands, 1]."""
    bands = torch.linspace(0, 1, mel.shape[1], device=mel.device)
    waves = torch.cos(math.pi * torch.arange(1, WAVES + 1, device=mel.device)[:, None] * bands)  # the first is a tilt
    return (torch.randn(len(mel), WAVES, device=mel.device) * COLOUR / WAVES**0.5 @ waves)[..., None]


def _noise(mel: Tensor) -> Tensor:
    """Steady noise of any colour, as far below the clip as noise may be."""
    chance = torch.rand(2, len(mel), 1, 1, device=mel.device)
    loudness = mel.exp().mean((1, 2), keepdim=True).clamp(min=QUIETEST).log() - _between(chance[0], NOISE_BELOW)
    bands = torch.linspace(-0.5, 0.5, mel.shape[1], device=mel.device)[:, None]
    tilt = _between(chance[1], (-3.0, 1.0)) * bands
    grain = torch.rand_like(mel).clamp(1e-4, 1 - 1e-4)
    return loudness + tilt + 0.5 * torch.log(-torch.log(grain))  # magnitudes of noise are Rayleigh
