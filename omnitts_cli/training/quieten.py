"""Quieten: the decoder's last layer is fitted again, so that nothing sounds above the band in which the teacher speaks.

The polish asks the codec's own encoder what it hears, and a decoder learns to whisper to it near 12 kHz, where no word
is and the other losses look away: a faint tone that neither a recogniser nor PESQ hears, but people may. The last layer
is linear in what reaches it, so its best weights are a matter of least squares, weighed by frequency.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.shapes import Codec
from omnitts_cli.training.teacher import SAMPLE_RATE, Teacher, TeacherVoice

BAND, SILENCE = 8100.0, 8600.0
"""Hz: below the first all is kept, above the second nothing is. The teacher's voices end at 8000."""
CLIPS, SECONDS = 64, 3
STRICT = 30.0
"""How much more a fault above the band weighs than one at 4 to 7.5 kHz."""
RIDGE = 1e-6
BLUR = 501  # bins


def clips(recipe: Recipe, texts: list[str], teacher: Teacher) -> Iterator[Tensor]:
    """Beginnings of sentences by all of the teacher's voices, a little higher or lower: [n]."""
    dice, bases = random.Random(recipe.seed), ("rms", "slt", "awb", "kal16")
    fitting = [text for text in texts if 30 < len(text) < 90]
    for number in range(CLIPS):
        voice = TeacherVoice(bases[number % len(bases)], dice.uniform(0.87, 1.2), dice.uniform(0.9, 1.1))
        yield torch.from_numpy(teacher.speak(dice.choice(fitting), voice).sound[: SAMPLE_RATE * SECONDS])


@torch.no_grad()
def quieten(codec: Codec, sounds: Iterable[Tensor]) -> tuple[float, float]:
    """Fit the last layer of `codec` in place; what was above the band before and is now, dB."""
    layer = codec.decoder.closing.conv
    old = torch.cat([layer.weight[0].flatten(), layer.bias]).double()
    fit = Fit(len(old))
    for sound in sounds:
        fit.add(columns(codec, sound), old)
    new = fit.solve(old)
    layer.weight[0] = new[:-1].unflatten(0, layer.weight.shape[1:])
    layer.bias[0] = new[-1]
    return fit.above(old), fit.above(new)


def columns(codec: Codec, sound: Tensor) -> Tensor:
    """What each weight of the last layer is multiplied with, sample by sample: [weights + 1, n]."""
    caught: list[Tensor] = []
    closing = codec.decoder.closing
    hook = closing.register_forward_hook(lambda _, given, __: caught.append(torch.cat([given[1], given[0]], -1)[0]))
    codec.decoder.sound(codec.decoder.quantiser.decode(codec.encoder(sound[None])))
    hook.remove()
    windows = caught[0].double().unfold(-1, closing.conv.kernel_size[0], 1)  # [C, n, K]
    windows = windows.transpose(1, 2).flatten(0, 1)
    return torch.cat([windows, windows.new_ones(1, windows.shape[1])])


class Fit:
    """Sums of the normal equations over spectra; the target is what the old weights say within the band."""

    def __init__(self, size: int) -> None:
        self._all, self._high = torch.zeros(2, size, size, dtype=torch.float64)
        self._target, self._energy = torch.zeros(size, dtype=torch.float64), 0.0

    def add(self, columns: Tensor, old: Tensor) -> None:
        spectra = torch.fft.rfft(columns, norm="ortho")
        hertz = torch.arange(spectra.shape[1]) * (SAMPLE_RATE / columns.shape[1])
        said = old.to(spectra.dtype) @ spectra
        wanted = said * (1 - ((hertz - BAND) / (SILENCE - BAND)).clamp(0, 1))
        weight = _weight(said.abs().square(), hertz)
        self._all += ((spectra * weight).conj() @ spectra.T).real
        self._target += ((spectra * weight).conj() @ wanted).real
        high = spectra * (hertz > SILENCE)
        self._high += (high.conj() @ high.T).real
        self._energy += float(said.abs().square().sum())

    def solve(self, old: Tensor) -> Tensor:
        """Near the old weights, in units of each column's own strength, where the spectra leave a choice."""
        square = self._all
        strength = square.diagonal().clamp_min(1e-12).sqrt()
        scaled = square / strength / strength[:, None] + RIDGE * torch.eye(len(old), dtype=torch.float64)
        return torch.linalg.solve(scaled, (self._target - square @ old) / strength) / strength + old

    def above(self, weights: Tensor) -> float:
        """What these weights say above the band, in dB of the whole of the old sound."""
        return 10 * math.log10(float(weights @ self._high @ weights) / self._energy + 1e-20)


def _weight(power: Tensor, hertz: Tensor) -> Tensor:
    """Weak parts of the band count too: half whitened by the blurred spectrum; above it, `STRICT`."""
    blurred = torch.nn.functional.avg_pool1d(power[None, None], BLUR, 1, BLUR // 2, count_include_pad=False)[0, 0]
    mean = blurred[hertz < BAND].mean()
    weight = (mean / (blurred + 1e-4 * mean)).sqrt()
    return torch.where(hertz < BAND, weight, STRICT * weight[(hertz > 4000) & (hertz < 7500)].mean())
