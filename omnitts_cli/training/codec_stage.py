"""Trains the codec: sound -> latents -> codebooks -> sound, first without codebooks, then with them."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.models.codec_decoder import CodecDecoder
from omnitts_cli.training.channels_last import channels_last, from_silence, in_float32
from omnitts_cli.training.joined import JoinedWeights
from omnitts_cli.training.low_wave import DOWN as LOW_DOWN
from omnitts_cli.training.low_wave import LowWaves, out_of_phase
from omnitts_cli.training.mel_distance import MelDistance
from omnitts_cli.training.periodicity import DOWN, HOP, Periodicity, pitches
from omnitts_cli.training.pool import ShardReader, SoundPool
from omnitts_cli.training.quantise import LearningQuantiser
from omnitts_cli.training.recipe import CodecTraining, Polish, Recipe
from omnitts_cli.training.shapes import TinyCodec, build_codec
from omnitts_cli.training.stage_results import STEM, exported_codec, finished_codec
from omnitts_cli.training.teacher import PHONES, PHONES_PER_FRAME, SAMPLE_RATE, UNKNOWN
from omnitts_cli.training.teacher import SAMPLES_PER_FRAME as FRAME
from omnitts_cli.training.team import Team
from omnitts_cli.tuning import checkpoints
from omnitts_cli.tuning.journal import Budget, Journal, falling_rate
from omnitts_cli.tuning.learning import Capture, check_finite, half, half_type, optimiser

LOOK_EVERY = 50  # steps between checks of the time budget
WRITE_EVERY = 500  # steps between two lines of the journal
SAVE_EVERY = 60.0  # seconds
HINT_WIDTH = 128
OUTLINE_WIDTH = 256
PITCHES_PER_FRAME = FRAME // DOWN // HOP
TRUSTED = 0.5  # share of the time after which latents are scaled by their running measure alone


class CodecStage:
    """All modules that learn, and the two halves of a step (`learn`, `update`) as functions that can be captured."""

    NAME = "codec"
    GROWS = True  # whether shards that appear during training are read too
    SKIP: tuple[str, ...] = ("books",)  # weights without gradients
    LOSSES: tuple[str, ...] = ("mel", "wave", "commit", "alike", "phones", "periods", "pitch", "low", "outline")

    def __init__(self, recipe: Recipe, device: Device, pool: SoundPool, team: Team) -> None:
        self.recipe, self.plan, self.pool, self.device = recipe, recipe.codec_training, pool, device
        self.team = team
        where, sizes = device.torch_device, recipe.codec
        codec = build_codec(sizes)
        self.encoder, self.decoder = codec.encoder.to(where), codec.decoder.to(where)
        self.quantiser = LearningQuantiser(sizes.groups, sizes.codes, sizes.book_width).to(where)
        # auxiliary heads, not exported: the leading group must predict the phones
        self.phones = nn.Sequential(
            nn.Linear(sizes.book_width, HINT_WIDTH), nn.SiLU(), nn.Linear(HINT_WIDTH, PHONES_PER_FRAME * len(PHONES))
        ).to(where)
        self.mel, self.periods = MelDistance(SAMPLE_RATE).to(where), Periodicity().to(where)
        # all groups together must predict the pitch, four times a frame
        self.pitch = nn.Sequential(
            nn.Linear(sizes.quantised, HINT_WIDTH), nn.SiLU(), nn.Linear(HINT_WIDTH, PITCHES_PER_FRAME)
        ).to(where)
        # and the wave of low frequencies, which continues from frame to frame
        self.low = LowWaves().to(where)
        self.outline = nn.Sequential(
            nn.Linear(2 * sizes.quantised, OUTLINE_WIDTH), nn.SiLU(), nn.Linear(OUTLINE_WIDTH, FRAME // LOW_DOWN[0])
        ).to(where)
        self.rate = torch.tensor(self.schedule.rate, device=where)
        last = self.in_float32(self.decoder)
        precise = (self.encoder.quantiser, self.decoder.quantiser, self.phones, self.pitch, self.outline, *last)
        self.weights = JoinedWeights(self.learners(), half_type(device), precise, self.SKIP)
        self.learned, self.gradients = [self.weights.values], self.weights.gradients
        self.optimiser = self.optimiser_of(self.learned)
        self.losses = torch.zeros(len(self.LOSSES), device=where)
        channels_last(self.decoder)
        from_silence(self.decoder, compiled=device.captures)
        in_float32(last, where.type)
        channels_last(self.encoder, padded=True)
        self.encode, self.sound, self.apart = self.encoder.latent, self.decoder.sound, self.mel.forward
        if self.plan.compile and device.captures:
            self.encode, self.sound = torch.compile(self.encode), torch.compile(self.sound)
            self.apart = torch.compile(self.apart)

    @property
    def schedule(self) -> CodecTraining | Polish:
        return self.recipe.codec_training

    def learners(self) -> tuple[nn.Module, ...]:
        return self.encoder, self.decoder, self.phones, self.pitch, self.outline

    def in_float32(self, decoder: CodecDecoder) -> tuple[nn.Module, ...]:
        """Layers of the decoder that never compute in half precision."""
        return ()

    def optimiser_of(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        return optimiser(self.device, weights, self.rate, (0.8, 0.99), 1e-3)

    def modules(self) -> dict[str, nn.Module]:
        return {m: getattr(self, m) for m in ("encoder", "decoder", "quantiser", "phones", "pitch", "outline")}

    def resume(self, tensors: dict[str, Tensor]) -> None:
        for name, module in self.modules().items():
            if found := checkpoints.under(name, tensors):  # only a checkpoint of the polish has discriminators
                module.load_state_dict(found)

    def begin(self, capture: Capture, journal: Journal) -> None:
        """Called once, after the weights and the first speech have been loaded."""

    def learn(self, bypass: bool) -> None:
        """Compute the gradients of one batch and update what the codebooks measure. Adds the losses to `losses`."""
        plan = self.plan
        true, said = self.pool.draw(plan.batch, plan.frames)
        with self.weights.used(self.weights.parts()):
            made, quantised, leading, commit, alike = self.repeat(self.encoded(true), bypass)
            periods, pitch = self.repetition(made, true, self.pitch(quantised))
            phones = named(self.phones(leading).view(-1, len(PHONES)), said.flatten())
            low = self.low(true)
            outline = out_of_phase([self.outline(_with_before(quantised)).flatten(1)], low)
        mel, wave, phase = self.apart(made, true), (made - true).abs().mean(), out_of_phase(self.low(made), low)
        books = plan.commit * commit + plan.alike * alike + plan.phones * phones
        voice = plan.repetition * periods + plan.pitch * pitch + plan.low * phase + plan.outline * outline
        self.weights.learn(plan.mel * mel + plan.wave * wave + books + voice)
        self.losses += torch.stack([mel, wave, commit, alike, phones, periods, pitch, phase, outline]).detach()

    def repetition(self, made: Tensor, true: Tensor, guessed: Tensor | None) -> tuple[Tensor, Tensor]:
        """Two distances where the true sound is voiced: between autocorrelations, and in octaves between the pitch and
        the predicted one [B, T, PITCHES_PER_FRAME]."""
        with torch.no_grad():
            wanted, loudness = self.periods(true)
            pitch, voiced = pitches(wanted, loudness)
        count = voiced.sum() + 1.0
        apart = ((self.periods(made)[0] - wanted).abs().mean(-1) * voiced).sum() / count
        if guessed is None:
            return apart, apart.detach() * 0
        off = (guessed.float().flatten(1)[:, : pitch.shape[1]] - pitch).abs()
        return apart, (off * voiced).sum() / count

    def encoded(self, sound: Tensor) -> Tensor:
        """Sound [B, n] -> [B, T, width], before it becomes codes."""
        with half(self.device):
            return self.encode(sound)

    def repeat(self, latent: Tensor, bypass: bool) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Latents -> their sound [B, n], the decoder's input, the entries of the leading group, and two losses of the
        codebooks."""
        quantised, leading, commit, alike = self.quantiser(
            latent, self.encoder.quantiser, self.decoder.quantiser, self.plan.shorter, bypass
        )
        with half(self.device):
            made = self.sound(quantised).float()
        return made, quantised, leading, commit, alike

    def exchange(self) -> None:
        """Average gradients and measurements over the members of the team."""
        for measured in (self.gradients, *self.quantiser.measured()):
            self.team.average(measured)
        self.team.start_alike(self.quantiser.newcomers())

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.learned, 100.0)  # only a safeguard
        self.optimiser.step()
        self.quantiser.renew()

    def resume_trained(self, codec: TinyCodec) -> None:
        """Continue from an exported codec."""
        self.encoder.load_state_dict(codec.encoder.state_dict())
        self.decoder.load_state_dict(codec.decoder.state_dict())
        self.quantiser.adopt(self.latents(), self.encoder.quantiser)

    def spread_out(self) -> None:
        """Continue with a codec whose residual latents use only a few dimensions; its residual codebooks start anew."""
        self.quantiser.spread_out(self.latents(), self.encoder.quantiser, self.decoder.quantiser)
        self.start_alike()

    def start_books(self) -> None:
        self.quantiser.start(self.latents(), self.encoder.quantiser)
        self.start_alike()

    def start_alike(self) -> None:
        for module in self.modules().values():
            self.team.start_alike(module.state_dict().values())

    @torch.no_grad()
    def latents(self, batches: int = 24) -> Tensor:
        plan = self.plan
        return torch.cat([self.encoder.latent(self.pool.draw(plan.batch, plan.frames)[0]) for _ in range(batches)])

    def save(self, folder: Path) -> None:
        checkpoints.save(folder, STEM, checkpoints.gather(**self.modules()))


def named(scores: Tensor, phones: Tensor) -> Tensor:
    """The cross-entropy of phones [n] by scores [n, PHONES], without those that are not known."""
    losses = F.cross_entropy(scores, phones, ignore_index=UNKNOWN, reduction="sum")
    return losses / (phones != UNKNOWN).sum().clamp(min=1)


def _with_before(x: Tensor) -> Tensor:
    """[B, T, width] -> [B, T, 2 * width]: each frame is joined to the one before it."""
    return torch.cat([F.pad(x[:, :-1], (0, 0, 1, 0)), x], -1)


def train_codec(
    kind: type[CodecStage],
    recipe: Recipe,
    device: Device,
    shards: ShardReader,
    pool: SoundPool,
    folder: Path,
    minutes: float,
    team: Team,
) -> None:
    """Train for `minutes`, from the checkpoint or the finished codec in `folder`; saves a checkpoint there."""
    journal = Journal(folder / team.curves, kind.NAME, team.leads)
    stream = device.stream()
    with stream, torch.inference_mode(False):  # the device's stream may be in inference mode
        pool.add(shards.read(at_least=1))
        while not kind.GROWS and pool.hours < recipe.teacher.kept and (more := shards.read()):
            pool.add(more)
        stage = kind(recipe, device, pool, team)
        started = True
        if saved := checkpoints.load(folder, STEM):
            stage.resume(saved)
        elif finished := finished_codec(folder):
            stage.resume_trained(exported_codec(recipe, finished))
        else:
            started = False
        if started and recipe.codec_training.keeps_books:
            stage.quantiser.keep_books()
        stage.start_alike()
        stage.begin(stream.capture, journal)
        weights = sum(p.numel() for p in stage.learned)
        journal.write(event="start", resumed=started, weights=weights, hours=pool.hours, members=team.size)
        TrainingLoop(stage, stream.capture, shards, journal, folder, Budget(minutes), started).run()
        if team.leads:
            stage.save(folder)
    journal.write(event="end", hours=pool.hours)


class TrainingLoop:
    """The training loop: phases, learning rate, journal and checkpoints."""

    def __init__(
        self,
        stage: CodecStage,
        capture: Capture,
        shards: ShardReader,
        journal: Journal,
        folder: Path,
        budget: Budget,
        started: bool,
    ) -> None:
        self.stage, self.capture, self.shards, self.journal = stage, capture, shards, journal
        self.folder, self.budget, self.started = folder, budget, started
        self.steps = self.written = 0
        self.saved = 0.0

    def run(self) -> None:
        if not self.started:
            self._phase(self.stage.plan.bypass, bypass=True)
            self.stage.start_books()
        self._phase(None, bypass=False)
        if self.steps > self.written:
            self._write()

    def _phase(self, until: int | None, bypass: bool) -> None:
        """Train until `until` steps are done or the time is spent."""
        learn, update = self.capture(lambda: self.stage.learn(bypass), True), self.capture(self.stage.update, True)
        self.journal.write(event="phase", bypass=bypass, step=self.steps)
        while (until is None or self.steps < until) and (spent := self._spent()) < 1.0:
            self._set_rate(spent)
            for _ in range(LOOK_EVERY if self.stage.device.captures else 1):
                learn()
                self.stage.exchange()
                update()
                self.steps += 1
            if self.steps - self.written >= (WRITE_EVERY if self.stage.device.captures else 5):
                self._write()
            if self.stage.GROWS:
                most = 2048 if self.stage.device.captures else 16
                self.stage.pool.add(self.shards.read(at_most=most, at_once=False))

    def _spent(self) -> float:
        return self.stage.team.agree(self.budget.spent, self.stage.device)

    def _set_rate(self, spent: float) -> None:
        plan = self.stage.schedule
        self.stage.rate.fill_(falling_rate(spent, plan.rate, plan.final_rate, self.steps, plan.warm_up))
        # the latents of a codec that has learned move little
        self.stage.quantiser.trust.fill_(1.0 if self.started else min(1.0, spent / TRUSTED))

    def _write(self) -> None:
        """The mean losses since the last line; reading them also keeps the host from running ahead."""
        stage, steps = self.stage, self.steps - self.written
        values = (stage.losses / steps).tolist()
        stage.losses.zero_()
        used = stage.quantiser.leading.used() + stage.quantiser.residual.used()
        losses = dict(zip(stage.LOSSES, values, strict=True))
        self.journal.write(
            step=self.steps,
            **losses,
            used=used,
            rate=float(stage.rate),
            hours=stage.pool.hours,
        )
        check_finite(losses, self.steps)
        self.written = self.steps
        if self.stage.team.leads and self.journal.seconds - self.saved > SAVE_EVERY:
            self.saved = self.journal.seconds
            stage.save(self.folder)
