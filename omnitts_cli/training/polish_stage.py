"""The polish stage: the codes stay as they are, and only the codec's decoder trains on, with discriminators.

Discriminators trade a little clarity for voices that sound less dull. They come last: if the codes still change while
discriminators judge the sound, more clarity is lost than gained. The codec's own encoder brings the clarity back: it
has learned to tell phones apart, and its latents of the decoded sound must match those of the true sound. A recogniser,
trained first and then frozen, compares phones and speakers likewise (`perceptual_loss.py`); see benchmarks/LOG.md.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.models.codec_decoder import CodecDecoder, Rise
from omnitts_cli.training.bending import bent, curve, half_periods, mean_pitch, walk
from omnitts_cli.training.channels_last import evened
from omnitts_cli.training.codec_stage import PITCHES_PER_FRAME, CodecStage
from omnitts_cli.training.discriminators import Discriminators, discriminator_loss, generator_losses
from omnitts_cli.training.joined import JoinedWeights
from omnitts_cli.training.low_wave import out_of_phase
from omnitts_cli.training.perceptual_loss import DISTANCES, MISHEARD, PerceptualLoss
from omnitts_cli.training.periodicity import pitches
from omnitts_cli.training.pool import SoundPool
from omnitts_cli.training.recipe import Polish, Recipe
from omnitts_cli.training.stage_results import STEM
from omnitts_cli.training.teacher import SAMPLE_RATE
from omnitts_cli.training.teacher import SAMPLES_PER_FRAME as FRAME
from omnitts_cli.training.team import Team
from omnitts_cli.tuning import checkpoints
from omnitts_cli.tuning.journal import Journal
from omnitts_cli.tuning.learning import Capture, half, half_type, optimiser

BAND, TAPS = 8000.0, 63
"""Hz, and samples of the filter. Words need nothing above the band; there the decoder could hide information for the
encoder."""
BEFORE = 5  # frames before the one that is encoded; the encoder's convolutions reach no further


def low(sound: Tensor) -> Tensor:
    """Sound [B, n], low-passed to the band."""
    n = torch.arange(TAPS, device=sound.device) - TAPS // 2
    taps = torch.sinc(n * (2 * BAND / SAMPLE_RATE)) * torch.hann_window(TAPS, periodic=False, device=sound.device)
    return F.conv1d(sound[:, None], (taps / taps.sum())[None, None], padding=TAPS // 2)[:, 0]


LEAST = 0.5  # share of phones that the recogniser must name correctly to be used
MEASURED, HIGHEST = 8, 300.0
"""Batches from which the weights of the recogniser's distances are computed, and the highest weight."""
NOISE = 2e-4
"""Standard deviation of noise added to true and generated sound before the discriminators: -74 dB, inaudible. Without
it they judge by what is softer still: rounding, and the decoder's residual noise where true sound is silent."""


def shown(sound: Tensor) -> Tensor:
    """Sound [B, n] as discriminators get it: with noise, and without its mean, which changes at every step with the
    decoder's last bias."""
    return sound - sound.mean(-1, keepdim=True) + NOISE * torch.randn_like(sound)


class PolishStage(CodecStage):
    """Trains the decoder of a codec, with discriminators."""

    NAME = "polish"
    GROWS = False
    SKIP = ("quantiser",)  # codes and their vectors stay
    LOSSES = (
        *("mel", "wave", "discriminators", "adversarial", "feature", "latent", "periods", "low"),
        *DISTANCES,
        *MISHEARD,
    )

    def __init__(self, recipe: Recipe, device: Device, pool: SoundPool, team: Team) -> None:
        plan = recipe.polish
        self.discriminators = Discriminators(plan.discriminator_width, plan.periods, plan.period_width).to(
            device.torch_device
        )
        self.perceptual = PerceptualLoss(plan.recogniser_width, pool, device)
        self.taught = False
        super().__init__(recipe, device, pool, team)
        self.shares = [plan.heard_layers, plan.heard_phones, plan.heard_speaker, plan.heard_spectra]
        self.uses_recogniser = any(self.shares)
        # the decoder's rate, which rises while new discriminators learn
        self.risen, self.paced = torch.zeros_like(self.rate), torch.zeros_like(self.rate)
        self.optimiser = optimiser(device, self.learned, self.paced, (0.8, 0.99), 1e-3)
        for module in (self.encoder, self.quantiser, self.phones, self.pitch, self.outline):
            module.eval().requires_grad_(False)
        self.judges = JoinedWeights((self.discriminators,), half_type(device))
        self.discriminator_optimiser = self.optimiser_of([self.judges.values])
        # the encoder does not learn, so its weights are converted once
        self.encoder_weights = JoinedWeights((self.encoder,), half_type(device), skip=self.SKIP)
        self.encoder_parts = self._encoder_parts()
        # running means of the decoder's weights, which are exported
        self.averages = deepcopy(self.decoder).requires_grad_(False)
        precise = (self.averages.quantiser, *self.in_float32(self.averages))
        self.means = JoinedWeights((self.averages,), half_type(device), precise, self.SKIP)
        self.judge = self.discriminators.forward
        if self.plan.compile and device.captures:
            self.judge = torch.compile(self.judge)

    @property
    def schedule(self) -> Polish:
        return self.recipe.polish

    @property
    def moved(self) -> int:
        """The number of examples whose frames have different delays; they come first in a batch."""
        return round(self.schedule.batch * self.schedule.bent)

    def learners(self) -> tuple[nn.Module, ...]:
        return (self.decoder,)

    def in_float32(self, decoder: CodecDecoder) -> tuple[nn.Module, ...]:
        """The layers at the full sample rate: discriminators would recognise sound that was rounded to bfloat16."""
        last = decoder.rises[-1]
        assert isinstance(last, Rise)
        return last.snake, last.rise, *last.units, decoder.snake, decoder.closing

    def modules(self) -> dict[str, nn.Module]:
        # a recogniser that has learned too little is not saved, so the next run trains it anew
        heard: dict[str, nn.Module] = {"recogniser": self.perceptual.recogniser} if self.uses_recogniser else {}
        return super().modules() | {"discriminators": self.discriminators} | heard

    def begin(self, capture: Capture, journal: Journal) -> None:
        if self.uses_recogniser and not self.taught:
            right = self.perceptual.train(self.schedule.teaching, capture, journal)
            self.uses_recogniser = self.team.agree(right, self.device) >= LEAST
        self.team.start_alike(self.perceptual.recogniser.state_dict().values())
        self.perceptual.freeze()
        self._start_means()
        if self.uses_recogniser:
            self._weigh(journal)

    @torch.no_grad()
    def _start_means(self) -> None:
        """Take over the weights that were loaded: the decoder's as the first means, the encoder's as they are used."""
        self.averages.load_state_dict(self.decoder.state_dict())
        for used, new in zip(self.encoder_parts, self._encoder_parts(), strict=True):
            used.copy_(new)

    def learn(self, bypass: bool) -> None:
        """Compute the gradients of one batch, for the decoder and the discriminators."""
        plan, polish = self.plan, self.schedule
        made, true, places = self._examples()
        mel, wave = self.apart(made, true), (made - true).abs().mean()
        latent = self._latent_distance(made[: polish.batch // polish.latent_share], true)
        # the end of each example, where the decoder has context
        from_ = plan.frames // polish.judged * (polish.judged - 1) * FRAME
        own, adversarial, feature = self._judge(made[:, from_:], true[:, from_:])
        periods, _ = self.repetition(made, true, None)
        phase = out_of_phase(self.low(made), self.low(true))
        close = (
            polish.mel * mel
            + plan.wave * wave
            + polish.latent * latent
            + polish.repetition * periods
            + polish.low * phase
        )
        losses = [mel, wave, own, adversarial, feature, latent, periods, phase]
        if self.uses_recogniser:
            heard = self.perceptual.measure(made, true, places)
            close = close + sum(share * off for share, off in zip(self.shares, heard, strict=False))
            losses += heard
        self.weights.learn(close + polish.adversary * adversarial + polish.feature * feature)
        self.judges.learn(own)
        self.losses[: len(losses)] += torch.stack([value.detach().float() for value in losses])

    def _examples(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the decoder makes of a new batch, what it should make [B, n], and the frames' places in the pool."""
        true, places = self.pool.draw_whole(self.schedule.batch, self.plan.frames)
        delays = self._delays(true, places)
        meant = self._meant(places, delays)
        with self.weights.used(self.weights.parts()), half(self.device):
            made = self.sound(meant).float()
        return made, bent(self.pool.sound, places[:, 0] * FRAME, curve(delays)), places

    @torch.no_grad()
    def _delays(self, sound: Tensor, places: Tensor) -> Tensor:
        """The delay of each frame [B, T], in samples: random for the first `moved` examples, 0 for the others."""
        usual = self.pool.pitch(places)
        hertz = mean_pitch(*pitches(*self.periods(sound)), usual, PITCHES_PER_FRAME)
        delays = walk(half_periods(hertz))
        delays[self.moved :] = 0
        return delays

    @torch.no_grad()
    def _meant(self, places: Tensor, delays: Tensor) -> Tensor:
        """The decoder's input [B, T, width] for the frames at `places`, each from sound that is delayed as a whole."""
        first = (places - BEFORE) * FRAME - delays.long()
        sound = self.pool.stretches(first.flatten(), BEFORE + 1)
        with self.encoder_weights.used(self.encoder_parts), half(self.device):
            latent = self.encoder.latent(sound)[:, -1:]
        halves = self.encoder.quantiser, self.decoder.quantiser
        return self.quantiser(latent, *halves, shorter=0.0, bypass=False)[0].view(*places.shape, -1)

    def _weigh(self, journal: Journal) -> None:
        """Turn the recipe's shares into weights: each distance's gradient gets that share of the norm of log-mel's."""
        polish = self.schedule
        sizes = [0.0] * (len(DISTANCES) + 1)
        for kind in (*range(len(DISTANCES)), -1) * MEASURED:
            made, true, places = self._examples()
            off = polish.mel * self.apart(made, true) if kind < 0 else self.perceptual.measure(made, true, places)[kind]
            self.weights.learn(off)
            sizes[kind] += float(self.gradients.norm()) / MEASURED
        *heard, mel = (self.team.agree(size, self.device) for size in sizes)
        self.shares = [
            min(HIGHEST, share * mel / (size + 1e-9)) for share, size in zip(self.shares, heard, strict=True)
        ]
        journal.write(event="weights", **dict(zip(DISTANCES, self.shares, strict=True)))

    def _latent_distance(self, made: Tensor, true: Tensor) -> Tensor:
        """The distance between the encoder's latents of the decoded and of the true sound, relative to their size."""
        with self.encoder_weights.used(self.encoder_parts):
            latents = self.encoded(low(torch.cat([made, true[: len(made)]]))).float()
        made_latent, wanted = latents[: len(made)], latents[len(made) :].detach()
        return (made_latent - wanted).abs().mean() / wanted.abs().mean()

    @torch.no_grad()
    def _encoder_parts(self) -> list[Tensor]:
        return [
            evened(p.owner, part).clone()
            for p, part in zip(self.encoder_weights.places, self.encoder_weights.parts(), strict=True)
        ]

    def _judge(self, made: Tensor, true: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run the discriminators: (their own loss, the decoder's adversarial loss, the distance between features)."""
        weights = self.judges.parts()
        made, true = shown(made), shown(true)
        with half(self.device):
            with self.judges.used(weights):
                both, both_features = self.judge(torch.cat([true, made.detach()]))
            # no gradients for their weights from the decoder's loss
            with self.judges.used([weight.detach() for weight in weights]):
                opinions, features = self.judge(made)
        true_opinions, known_opinions = zip(*(b.chunk(2) for b in both), strict=True)
        true_features = [[f.detach().chunk(2)[0] for f in discriminator] for discriminator in both_features]
        own = discriminator_loss(list(true_opinions), list(known_opinions))
        return own, *generator_losses(opinions, features, true_features, self.device.captures)

    def exchange(self) -> None:
        self.team.average(self.gradients)
        self.team.average(self.judges.gradients)

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.learned, 100.0)
        self.risen.add_(1 / self.schedule.rise).clamp_(max=1.0)
        self.paced.copy_(self.rate * self.risen)
        self.optimiser.step()
        self.discriminator_optimiser.step()
        with torch.no_grad():
            self.means.values.lerp_(self.weights.values, 1 - self.schedule.kept)

    def resume(self, tensors: dict[str, Tensor]) -> None:
        """`learning` is the decoder in training; the checkpoint's `decoder` has the means of its weights."""
        super().resume(tensors)
        self.taught = any(name.startswith("recogniser.") for name in tensors)
        if any(name.startswith("discriminators.") for name in tensors):
            self.risen.fill_(1.0)
        if learning := checkpoints.under("learning", tensors):
            self.decoder.load_state_dict(learning)

    def save(self, folder: Path) -> None:
        modules = self.modules() | {"decoder": self.averages, "learning": self.decoder}
        checkpoints.save(folder, STEM, checkpoints.gather(**modules))
