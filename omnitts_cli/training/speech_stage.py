"""Trains the language side: text and voice -> frames of codes, teacher-forced, with the prompts of the family."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.devices.device import Device
from omnitts_cli.training.batches import Batch, draw_mixed, lay_out, named
from omnitts_cli.training.dataset import Dataset, UtteranceTable, text_ids
from omnitts_cli.training.ids import LANGUAGES, TinyTextIds, codec_ids
from omnitts_cli.training.pool import ShardReader
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speaker_heads import SpeakerHeads, stretch
from omnitts_cli.training.speech import TinySpeech
from omnitts_cli.training.stage_results import (
    MODEL,
    exported_codec,
    finished_codec,
    finished_speech,
    kept_codes,
    residual_books,
    trained_codec,
)
from omnitts_cli.training.teacher import PHONES, PHONES_PER_FRAME
from omnitts_cli.training.team import Team, joined_gradients
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.training.validation_losses import unnamed_speaker_losses
from omnitts_cli.tuning import checkpoints
from omnitts_cli.tuning.journal import Budget, Journal, falling_rate
from omnitts_cli.tuning.learning import check_finite, half, optimiser

STEM = "speech"
LOOK_EVERY = 20  # steps between checks of the time budget
WRITE_EVERY = 500
SAVE_EVERY = 60.0  # seconds
FILLING = 0.3  # share of the time that encoding new speech and its delayed copies may take
BOOKS = "books"  # name in checkpoints: the residual codebooks that the model was trained with
KEPT = 0.5  # share of the codes of a book that must keep their place, or the tables of the book start anew
RESIDUAL_TABLES = ("embedder.rest", "predictor.heads")  # one entry for each code of the residual groups
MEASURED = 256  # clips whose vectors give the mean of a finished model's
STORED_HEADS = "guesses"  # name of the speaker heads in checkpoints
LOSSES = ("first", "rest", "phones", "speaker_facts", "frame_facts", "right")


class SpeechStage:
    """All modules that learn, and the two halves of a step (`learn`, `update`) as functions that can be captured."""

    def __init__(self, recipe: Recipe, device: Device, tokens: TokenLists, dataset: Dataset, team: Team) -> None:
        self.recipe, self.plan, self.device, self.dataset = recipe, recipe.speech_training, device, dataset
        self.team = team
        where = device.torch_device
        self.codec_ids, self.text_ids = codec_ids(recipe), TinyTextIds.of(tokens)
        self.speech = TinySpeech(recipe, tokens).to(where)
        # auxiliary heads, not exported: the hidden state must predict the next phones
        self.phones = nn.Linear(recipe.speech.hidden, PHONES_PER_FRAME * len(PHONES)).to(where)
        # the vector of a clip must predict facts about the speaker
        self.speaker_heads = SpeakerHeads(recipe.speech.hidden).to(where)
        self.learned = [p for half in (self.speech, self.phones, self.speaker_heads) for p in half.parameters()]
        self.gradients = joined_gradients(self.learned)
        self.every_token = torch.arange(tokens.size, device=where)
        groups, codes = recipe.codec.groups, recipe.codec.codes
        first = [0, *(self.codec_ids.vocabulary + g * codes for g in range(groups - 1))]
        self.offsets = torch.tensor(first, device=where)  # of each group in one joined table
        falling = torch.linspace(self.plan.predictor_taper, 1.0, groups - 1, device=where)
        self.weights = self.plan.predictor_weight * falling / falling.mean()  # of groups 1..
        self.rate = torch.tensor(self.plan.rate, device=where)
        self.losses = torch.zeros(len(LOSSES), device=where)
        self.optimiser = optimiser(device, self.learned, self.rate, (0.9, 0.98), self.plan.weight_decay)
        self.books: Tensor | None = None  # residual codebooks of the codec in use
        self.tables_reset: list[int] = []  # books whose tables started anew
        self.talk, self.predict = self.speech.talker.forward, self.speech.predictor.forward
        if self.plan.compile and device.captures:
            self.talk, self.predict = torch.compile(self.talk), torch.compile(self.predict)

    def learn(self, number: int) -> None:
        """Compute the gradients of one batch of examples of one length. Adds the losses to `losses`."""
        table, unnamed = self.dataset.tables[number], self.dataset.unnamed[number]
        size = self.plan.positions // table.rows
        batch = draw_mixed(table, unnamed, size, self.recipe, self.codec_ids, self.text_ids)
        vectors = self.speech.speaker(batch.mel)  # not in half precision: small, and as in inference
        speaker_facts = self.speaker_heads(vectors, batch.made[: len(vectors)])
        self.speaker_heads.follow(vectors)
        with half(self.device):
            hidden = self.talk(F.dropout(self.rows(batch, vectors), self.plan.dropout))
            scores = self.speech.talker.logits(hidden).float()
            first = F.cross_entropy(scores.flatten(0, 1), batch.target.flatten(), ignore_index=-100)
            each, order, drawn = self._rest(hidden, batch)
            frame_facts = self.speaker_heads.each_frame(
                hidden[: len(batch.made)], batch.followed[: len(batch.made)], batch.made
            )
            phone_scores = self.phones(hidden).unflatten(-1, (PHONES_PER_FRAME, -1)).float()
            phones = F.cross_entropy(phone_scores.flatten(0, 2), batch.phones.flatten(), ignore_index=-100)
        self.gradients.zero_()
        plan, facts_weight = self.plan, self.recipe.unnamed_speakers.facts_weight
        known_facts = facts_weight * (speaker_facts + frame_facts)
        (first + (self.weights * each).mean() + plan.phone_weight * phones + known_facts).backward()
        self._keep_drawn(batch, order, drawn, (unnamed, table))
        known = batch.target >= 0
        right = ((scores.argmax(-1) == batch.target) & known).sum() / known.sum()
        self.losses += torch.stack([first, each.mean(), phones, speaker_facts, frame_facts, right]).detach()

    def update(self) -> None:
        nn.utils.clip_grad_norm_(self.learned, 1.0)
        self.optimiser.step()

    @torch.no_grad()
    def held_back(self) -> dict[str, float]:
        """Losses on held-back utterances, without corrupted codes or lost history."""
        plan = replace(self.plan, corrupt=0.0, history_dropout=0.0, drawn_history=0.0)
        fair = replace(self.recipe, speech_training=plan)
        sums, ids = torch.zeros(3, device=self.losses.device), (self.codec_ids, self.text_ids)
        each: dict[str, list[float]] = {}  # language -> losses of its utterances
        for table in self.dataset.held_back:
            examples = named(table, table.capacity, fair)
            batch = lay_out(examples, table.rows, fair, *ids)
            hidden = self.speech.talker(self.rows(batch))
            scores = self.speech.talker.logits(hidden)
            phone_scores = self.phones(hidden).unflatten(-1, (PHONES_PER_FRAME, -1))
            sums[0] += F.cross_entropy(scores.flatten(0, 1), batch.target.flatten(), ignore_index=-100)
            sums[1] += F.cross_entropy(phone_scores.flatten(0, 2), batch.phones.flatten(), ignore_index=-100)
            for place, loss in zip(examples.own.language[:, 0].tolist(), _of_each(scores, batch.target), strict=True):
                each.setdefault(LANGUAGES[place], []).append(loss)
            known = batch.target >= 0
            sums[2] += ((scores.argmax(-1) == batch.target) & known).sum() / known.sum()
        names = ("held_first", "held_phones", "held_right")
        losses = dict(zip(names, (sums / len(self.dataset.held_back)).tolist(), strict=True))
        if self.recipe.languages:
            losses |= {f"held_{code}": sum(found) / len(found) for code, found in each.items()}
        return losses | unnamed_speaker_losses(self.speech, self.rows, self.dataset.held_back_unnamed, fair, ids)

    def rows(self, batch: Batch, vectors: Tensor | None = None) -> Tensor:
        """Input rows [B, L, H]: text plus controls or codes, plus the vector of the clip in cloned examples."""
        speech = self.speech
        texts = F.embedding(batch.text, speech.text(self.every_token))
        controls = F.embedding(batch.control, speech.embedder.first) * batch.controlled[..., None]
        joined = torch.cat([speech.embedder.first, speech.embedder.rest.flatten(0, 1)])
        frames = F.embedding(batch.codes + self.offsets, joined).sum(-2) * batch.framed[..., None]
        rows = texts + controls + frames
        if vectors is None:
            return rows
        vectors = F.pad(vectors, (0, 0, 0, len(rows) - len(vectors)))
        return rows + vectors[:, None] * batch.voiced[..., None]

    def _rest(self, hidden: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Groups 1.. of randomly chosen frames: the loss of each group, the rows chosen, and codes drawn for them."""
        followed = batch.followed.flatten()
        order = (followed + torch.rand(followed.shape, device=followed.device)).topk(self.plan.predicted).indices
        codes = batch.next_codes.flatten(0, 1)[order]
        scores = self.predict(hidden.flatten(0, 1)[order], codes, self.speech.embedder)
        truth = torch.where(followed[order, None], codes[:, 1:], -100)
        scores = scores.float()
        with torch.no_grad():
            chance = torch.rand_like(scores).clamp(1e-6, 1 - 1e-6)
            drawn = (scores / self.recipe.sampling.predictor_temperature - (-chance.log()).log()).argmax(-1)
        losses = F.cross_entropy(scores.flatten(0, 1), truth.flatten(), ignore_index=-100, reduction="none")
        each = losses.view(truth.shape).sum(0) / (truth >= 0).sum(0)
        return each, order, torch.cat([codes[:, :1], drawn], 1)

    def _keep_drawn(self, batch: Batch, order: Tensor, drawn: Tensor, tables: tuple[UtteranceTable, ...]) -> None:
        """Keep the codes drawn for rows `order`, as earlier frames of later batches. The first rows of a batch are of
        unnamed speakers, the others of named ones."""
        places, frames, followed = (x.flatten()[order] for x in (batch.place, batch.frame, batch.followed))
        unnamed = order < len(batch.made) * batch.followed.shape[1]
        for table, whose in zip(tables, (unnamed, ~unnamed), strict=True):
            table.keep_drawn(places, frames, drawn, followed & whose)

    def save(self, folder: Path) -> None:
        modules = {"speech": self.speech, "phones": self.phones, STORED_HEADS: self.speaker_heads}
        known = {} if self.books is None else {BOOKS: self.books}
        checkpoints.save(folder, STEM, checkpoints.gather(**modules) | known)

    def resume(self, saved: dict[str, Tensor]) -> None:
        self.resume_speech(checkpoints.under("speech", saved), saved.get(BOOKS))
        self.phones.load_state_dict(checkpoints.under("phones", saved))
        # older checkpoints lack the per-frame head and the mean of the vectors
        self.speaker_heads.load_state_dict(self.speaker_heads.state_dict() | checkpoints.under(STORED_HEADS, saved))

    def resume_speech(self, weights: dict[str, Tensor], books: Tensor | None) -> None:
        """Continue from `weights`, which were trained with these residual `books`.

        Where the codec has another book, its codes have other meanings, so the tables of that group keep their random
        values. A book that has only learned on keeps its tables. Codes of group 0 predict the phones with every codec.
        Without the books (older checkpoints), all weights are loaded."""
        if books is not None and self.books is not None:
            kept = kept_codes(books.cpu(), self.books.cpu()) >= KEPT
            self.tables_reset, own = (~kept).nonzero().flatten().tolist(), self.speech.state_dict()
            tables = {name: weights[name].clone() for name in RESIDUAL_TABLES}
            for name, table in tables.items():
                table[self.tables_reset] = own[name][self.tables_reset].to(table)
            weights = weights | tables
        self.speech.load_state_dict(weights)

    @torch.no_grad()
    def unstretch(self) -> None:
        """Undoes what export did to the vectors of the speaker encoder. The mean of stretched vectors is the mean of
        all."""
        table = self.dataset.unnamed[0]
        vectors = self.speech.speaker(table.mels[: min(MEASURED, int(table.filled))].float())
        stretch(self.speech.speaker, vectors.mean(0), 1 / self.recipe.speaker.stretch)


def _of_each(scores: Tensor, target: Tensor) -> list[float]:
    """The mean loss of each example of a batch."""
    losses = F.cross_entropy(scores.float().transpose(1, 2), target, ignore_index=-100, reduction="none")
    means: list[float] = (losses.sum(1) / (target >= 0).sum(1)).tolist()
    return means


def train_speech(
    recipe: Recipe,
    device: Device,
    shards: ShardReader,
    lines: Sequence[TrainingLine],
    tokens: TokenLists,
    folder: Path,
    minutes: float,
    team: Team,
) -> None:
    """Train for `minutes` with the codec in `folder`, from the checkpoint or model there; saves a checkpoint."""
    journal = Journal(folder / team.curves, "speech", team.leads)
    texts = text_ids(lines, tokens)
    stream = device.stream()
    with (
        one_thread(device.captures),
        stream,
        torch.inference_mode(False),
    ):  # the device's stream may be in inference mode
        codec = trained_codec(recipe, folder)
        books = residual_books(codec)
        encoder = codec.encoder.to(device.torch_device)
        dataset = Dataset(recipe, encoder, texts, 200_000 if device.captures else 2_000, tokens)
        while not dataset.ready(2_000 if device.captures else 1):
            dataset.add(shards.read(at_least=1))
        shards.copy_what_follows(recipe.speech_training.copies)  # held-back shards are not copied
        stage = SpeechStage(recipe, device, tokens, dataset, team)
        stage.books = books
        saved, finished = checkpoints.load(folder, STEM), (folder / MODEL / "model.safetensors").exists()
        if saved:
            stage.resume(saved)
        elif finished:
            # the auxiliary heads are not exported, so they start anew
            stage.resume_speech(finished_speech(recipe, tokens, folder / MODEL), _finished_books(recipe, folder))
            stage.unstretch()
        team.start_alike(stage.learned)
        weights = sum(p.numel() for p in stage.speech.parameters())
        resumed = {"resumed": bool(saved or finished), "residual_tables_reset": stage.tables_reset}
        journal.write(event="start", **resumed, weights=weights, members=team.size)
        learn = [stream.capture(partial(stage.learn, n), True) for n in range(len(dataset.tables))]
        _loop(stage, learn, stream.capture(stage.update, True), shards, journal, folder, Budget(minutes))
        if team.leads:
            stage.save(folder)
    journal.write(event="end", hours=dataset.seconds / 3600)


def _finished_books(recipe: Recipe, folder: Path) -> Tensor | None:
    codec = finished_codec(folder)
    return residual_books(exported_codec(recipe, codec)) if codec else None


@contextmanager
def one_thread(wanted: bool) -> Iterator[None]:
    """Limits torch to one thread if `wanted`: sounds are copied to a device one by one, and other threads would
    wait."""
    before = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _loop(
    stage: SpeechStage,
    learn: list[Callable[[], None]],
    update: Callable[[], None],
    shards: ShardReader,
    journal: Journal,
    folder: Path,
    budget: Budget,
) -> None:
    plan, dataset, captured = stage.plan, stage.dataset, stage.device.captures
    chooser, steps, written, saved = random.Random(stage.recipe.seed), 0, 0, 0.0
    started, filling = time.monotonic(), 0.0

    def write() -> None:
        """Writes the mean losses since the last line."""
        values = (stage.losses / (steps - written)).tolist()
        stage.losses.zero_()
        losses = dict(zip(LOSSES, values, strict=True))
        held_back = stage.held_back()
        journal.write(
            step=steps, **losses, **held_back, rate=float(stage.rate), hours=dataset.seconds / 3600, filling=filling
        )
        check_finite(losses, steps)

    while (spent := stage.team.agree(budget.spent, stage.device)) < 1.0:
        stage.rate.fill_(falling_rate(spent, plan.rate, plan.final_rate, steps, plan.warm_up))
        weights = [table.added * table.rows for table in dataset.tables]  # so that every utterance is equally likely
        for _ in range(LOOK_EVERY if captured else 1):
            chooser.choices(learn, weights)[0]()
            stage.team.average(stage.gradients)
            update()
            steps += 1
        if filling <= FILLING * (time.monotonic() - started):
            stage.device.synchronize()
            begun = time.monotonic()
            dataset.add(shards.read(at_most=plan.encoded * (2 if captured else 1), at_once=False))
            stage.device.synchronize()
            filling += time.monotonic() - begun
        if steps - written >= (WRITE_EVERY if captured else 5):
            write()
            written = steps
            if stage.team.leads and journal.seconds - saved > SAVE_EVERY:
                saved = journal.seconds
                stage.save(folder)
    if steps > written:
        write()
