"""A perceptual loss: a recogniser of phones and speakers should give the same outputs for decoded and original sound.

It is trained on the teacher's speech and labels, then frozen. A log-mel loss weighs all differences alike; this one
gives most weight to those that distinguish phones and speakers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.training.joined import JoinedWeights
from omnitts_cli.training.pool import SoundPool
from omnitts_cli.training.recogniser import USED, HeardPhones, PhoneRecogniser
from omnitts_cli.training.speaker_heads import wrong
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SILENCE, UNKNOWN
from omnitts_cli.tuning.journal import Budget, Journal, falling_rate
from omnitts_cli.tuning.learning import Capture, half, half_type, optimiser

DISTANCES = ("heard_layers", "heard_phones", "heard_speaker", "heard_spectra")
MISHEARD = ("misheard", "misheard_true")  # share of phones recognised wrongly, in decoded and in true sound
BATCH, FRAMES = 32, 32
RATE, FINAL_RATE, WARM_UP = 1e-3, 2e-5, 200
LOOK_EVERY, WRITE_EVERY = 50, 20  # steps between checks of the time budget; checks between lines of the journal
SOFTER = 2.0  # temperature for comparing phone probabilities, so that they differ where the recogniser is certain too
LOCAL = 16  # hops of 10 ms over which spectra are averaged


class PerceptualLoss:
    """The recogniser, and its distances between two sounds."""

    def __init__(self, width: int, pool: SoundPool, device: Device) -> None:
        self.pool, self.device = pool, device
        self.recogniser = PhoneRecogniser(width).to(device.torch_device).requires_grad_(False)

    def train(self, minutes: float, capture: Capture, journal: Journal) -> float:
        """Train the recogniser for `minutes`; returns the share of phones that it names correctly at the end."""
        where = self.device.torch_device
        self.recogniser.train().requires_grad_(True)
        weights = JoinedWeights((self.recogniser,), half_type(self.device))
        rate, measured = torch.tensor(RATE, device=where), torch.zeros(5, device=where)
        adam = optimiser(self.device, [weights.values], rate, (0.9, 0.98), 1e-2)

        def step() -> None:
            sound, phones, facts = self.pool.draw_said(BATCH, FRAMES)
            said = ((phones != SILENCE) & (phones != UNKNOWN)).float()
            with weights.used(weights.parts()), half(self.device):
                found = self.recogniser(masked(self.recogniser.spectra(sound)))
            named = F.cross_entropy(
                found.phones.flatten(0, 1), phones.flatten(), ignore_index=UNKNOWN, label_smoothing=0.03
            )
            count = said.sum() + 1.0
            who = (wrong(found.who, facts).mean(-1) * said).sum() / count
            weights.learn(named + who)
            nn.utils.clip_grad_norm_([weights.values], 5.0)
            adam.step()
            right = ((found.phones.argmax(-1) == phones).float() * said).sum() / count
            mean = (facts.nan_to_num() * said[..., None]).sum((0, 1)) / count
            variance = (wrong(mean, facts).mean(-1) * said).sum() / count
            measured.add_(torch.stack([named, who, right, variance, torch.ones_like(right)]).detach())

        def write(steps: int) -> float:
            """Write the means since the last line to the journal; returns the share of correct phones."""
            named, who, right, variance, count = measured.tolist()
            measured.zero_()
            explained = 1 - who / max(variance, 1e-6)  # share of the variance of the speaker facts
            journal.write(taught=steps, phones=named / count, who=who / count, right=right / count, explained=explained)
            return float(right / count)

        budget, looks, together = Budget(minutes), 0, LOOK_EVERY if self.device.captures else 1
        learn = capture(step, True)
        while (spent := budget.spent) < 1.0 or looks == 0:
            rate.fill_(falling_rate(spent, RATE, FINAL_RATE, looks * together, WARM_UP))
            for _ in range(together):
                learn()
            looks += 1
            if looks % WRITE_EVERY == 0:
                right = write(looks * together)
        if looks % WRITE_EVERY:
            right = write(looks * together)
        return right

    @torch.no_grad()
    def freeze(self) -> None:
        """Freeze the recogniser and convert its weights to the precision of its products, once."""
        self.recogniser.eval().requires_grad_(False)
        self.weights = JoinedWeights((self.recogniser,), half_type(self.device))
        self.parts = [part.clone() for part in self.weights.parts()]

    def measure(self, made: Tensor, true: Tensor, places: Tensor) -> list[Tensor]:
        """Returns DISTANCES, then MISHEARD, of two sounds [B, n]. `places` [B, T]: their frames in the pool."""
        spectra = self.recogniser.spectra(torch.cat([made, true]))
        with self.weights.used(self.parts), half(self.device):
            both = self.recogniser(spectra)
        own, wanted = both.part(slice(len(made))), both.part(slice(len(made), None))
        said = self.pool.phones.view(-1, PHONES_PER_FRAME)[places].flatten(1)
        voiced = (said != SILENCE) & (said != UNKNOWN)
        misheard = [((one.phones.argmax(-1) != said) & voiced).sum() / (voiced.sum() + 1.0) for one in (own, wanted)]
        return [*distances(own, wanted), spectra_apart(spectra[: len(made)], spectra[len(made) :]), *misheard]


def masked(spectra: Tensor) -> Tensor:
    """Adds noise and blanks out a band and a moment, so that the recogniser learns to use every cue."""
    size, _, hops = spectra.shape
    chance = torch.rand(6, size, 1, 1, device=spectra.device)
    noise = 2.0 * chance[0] - 2.0 + 0.3 * torch.randn_like(spectra)
    noisy = torch.where(chance[1] < 0.4, torch.logaddexp(4 * spectra, 4 * noise) / 4, spectra)
    long, short = (torch.arange(used, device=spectra.device) / used for used in USED)
    band = torch.cat([long, short, short])[None, :, None] - chance[2]
    time = torch.arange(hops, device=spectra.device)[None, None] - chance[3] * hops
    gone = ((band >= 0) & (band < 0.2 * chance[4])) | ((time >= 0) & (time < 12 * chance[5]))
    return torch.where(gone, 0.0, noisy)


def distances(made: HeardPhones, true: HeardPhones) -> list[Tensor]:
    """Distances between layers, phone probabilities and speakers. No gradient flows into `true`."""
    layers = [_relative(a, b.detach()) for a, b in zip(made.layers, true.layers, strict=True)]
    wanted = F.log_softmax(true.phones.detach() / SOFTER, -1)
    phones = (wanted.exp() * (wanted - F.log_softmax(made.phones / SOFTER, -1))).sum(-1).mean() * SOFTER**2
    who = (made.who - true.who.detach()).mean(1).abs().mean()
    return [torch.stack(layers).mean(), phones, who]


def _relative(made: Tensor, true: Tensor) -> Tensor:
    made, true = made.float(), true.float()
    return (made - true).abs().mean() / (true.abs().mean() + 1e-4)


def spectra_apart(made: Tensor, true: Tensor) -> Tensor:
    """Distance between mean spectra [B, bands, hops], over whole examples and over short times.

    Where the codes leave the voice open, a distance at each moment pulls the decoder to the median of all voices;
    means tell it which voice it is.
    """
    off = (made - true.detach())[:, : USED[0]]
    return off.mean(2).abs().mean() + F.avg_pool1d(off, LOCAL, LOCAL // 2).abs().mean()
