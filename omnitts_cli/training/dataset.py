"""Dataset: utterances as text ids and codes, in tables on the device, from which batches are drawn.

Utterances of unnamed speakers have tables of their own, which also hold descriptions and another clip of the speaker.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.shapes import MelShape
from omnitts_cli.models.speaker import log_mel
from omnitts_cli.training.bending import bent, curve, half_periods, walk
from omnitts_cli.training.ids import LANGUAGES
from omnitts_cli.training.pool import UNNAMED, WORDLESS, TeacherUtterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import FACTS, PHONES_PER_FRAME, SAMPLE_RATE, SAMPLES_PER_FRAME
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.training.unnamed_speakers import describe

FIXED_ROWS = 11
"""Rows of a prompt besides text and frames: role 3, tag 4, speaker, begin and end of text, begin of sound."""
INSTRUCTION_FRAME = ("<|im_start|>", "user\n", "<|im_end|>", "\n")
LONGEST_INSTRUCTION = 64  # ids
MEL = MelShape(SAMPLE_RATE)
TOGETHER, STEP = 32, 8
"""Utterances that are encoded at once, sorted by length, and the multiple to which their frames are padded."""
Table = TypeVar("Table", bound="UtteranceTable")


@dataclass(frozen=True)
class TextTokens:
    """A text as the model reads it, and the place of its language in `ids.LANGUAGES`."""

    ids: list[int]
    language: int = 0


def text_ids(lines: Sequence[TrainingLine], tokens: TokenLists) -> list[TextTokens]:
    encoded = tokens.encoder().encode_batch([line.read for line in lines])
    return [TextTokens(one.ids, LANGUAGES.index(line.language)) for one, line in zip(encoded, lines, strict=True)]


class UtteranceTable:
    """Utterances of at most `rows` rows; the oldest are overwritten."""

    def __init__(self, rows: int, groups: int, capacity: int, device: torch.device) -> None:
        self.rows, self.capacity = rows, capacity
        self.frames = rows - FIXED_ROWS - 1  # the longest sound
        self.text = torch.zeros(capacity, rows, dtype=torch.int16, device=device)
        self.codes = torch.zeros(capacity, self.frames, groups, dtype=torch.int16, device=device)
        # the codes that the model sampled for a frame when it last trained on it; writes to the last row are discarded
        self.drawn = torch.zeros(capacity + 1, self.frames, groups, dtype=torch.int16, device=device)
        self.phones = torch.zeros(capacity, self.frames, PHONES_PER_FRAME, dtype=torch.uint8, device=device)
        # text length, frames, voice, language
        self.facts = torch.zeros(capacity, 4, dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        self.added = 0

    def add(self, texts: list[TextTokens], codes: Tensor, utterances: list[TeacherUtterance]) -> Tensor:
        """Store texts, codes [n, up to `frames`, G] and the phones of `utterances`; returns their places."""
        at = [(self.added + n) % self.capacity for n in range(len(texts))]
        phones = torch.zeros(len(texts), self.frames, PHONES_PER_FRAME, dtype=torch.uint8)
        for row, utterance in zip(phones, utterances, strict=True):
            row[: len(utterance.phones)] = torch.from_numpy(utterance.phones)
        facts = torch.tensor([
            [len(t.ids), len(u.phones), u.voice, t.language] for t, u in zip(texts, utterances, strict=True)
        ])  # fmt: skip
        places = torch.tensor(at, device=self.text.device)
        self.text[places] = _padded([text.ids for text in texts], self.rows).to(self.text.device)
        self.codes[places, : codes.shape[1]] = codes.to(torch.int16)
        self.drawn[places, : codes.shape[1]] = codes.to(torch.int16)
        self.phones[places] = phones.to(self.text.device)
        self.facts[places] = facts.to(self.text.device)
        self.added += len(texts)
        self.filled.fill_(min(self.added, self.capacity))
        return places

    def keep_drawn(self, places: Tensor, frames: Tensor, codes: Tensor, known: Tensor) -> None:
        """Store the codes [n, G] that the model drew for frames [n] of places [n], where `known` [n]."""
        slots = torch.where(known, places * self.frames + frames, self.capacity * self.frames)
        self.drawn.flatten(0, 1)[slots] = codes.to(torch.int16)


class UnnamedTable(UtteranceTable):
    """Stores with each utterance another one of the same speaker: its clip as mel bands, its words and codes."""

    def __init__(self, rows: int, groups: int, capacity: int, device: torch.device, clip: float) -> None:
        super().__init__(rows, groups, capacity, device)
        self._samples = round(clip * SAMPLE_RATE)
        columns = self._samples // MEL.hop
        # half precision: a hundredth of a decibel is near enough
        self.mels = torch.zeros(capacity, MEL.bands, columns, dtype=torch.float16, device=device)
        self.before_text = torch.zeros_like(self.text)
        self.before_codes = torch.zeros_like(self.codes)
        # text length and frames; 0 if it is too long to share a prompt with the utterance
        self.before_facts = torch.zeros(capacity, 2, dtype=torch.int64, device=device)
        self.made = torch.zeros(capacity, FACTS, device=device)
        self.instruction = torch.zeros(capacity, LONGEST_INSTRUCTION, dtype=torch.int16, device=device)
        self.instructed = torch.zeros(capacity, dtype=torch.int64, device=device)

    def add_unnamed(
        self, places: Tensor, instructions: list[list[int]], texts: list[list[int]], codes: Tensor, clips: list[Tensor]
    ) -> None:
        """Store descriptions and the other utterances of the speakers for `places`, which `add` has returned.

        `texts`, `codes` [n, frames, G] and `clips` (int16) are those of the other utterances.
        """
        device = self.text.device
        clips_of_one_length = torch.stack([_clip(clip, self._samples) for clip in clips])
        self.mels[places] = log_mel(clips_of_one_length.to(device).float() / 32768, MEL).half()
        self.instruction[places] = _padded(instructions, LONGEST_INSTRUCTION).to(device)
        self.instructed[places] = torch.tensor([len(i) for i in instructions]).to(device)
        facts = [(len(t), len(c) // SAMPLES_PER_FRAME) for t, c in zip(texts, clips, strict=True)]
        fitting = [length <= self.rows and frames <= self.frames for length, frames in facts]
        known = [fact if fits else (0, 0) for fact, fits in zip(facts, fitting, strict=True)]
        self.before_facts[places] = torch.tensor(known).to(device)
        self.before_text[places] = _padded([t[: self.rows] for t in texts], self.rows).to(device)
        codes = codes[:, : self.frames]
        self.before_codes[places, : codes.shape[1]] = codes.to(torch.int16)


def _clip(sound: Tensor, samples: int) -> Tensor:
    """`samples` samples: a random stretch of a longer sound, or a shorter one repeated."""
    if len(sound) < samples:
        return sound.repeat(-(-samples // len(sound)))[:samples]
    start = random.randrange(len(sound) - samples + 1)
    return sound[start : start + samples]


def _padded(texts: list[list[int]], width: int) -> Tensor:
    padded = torch.zeros(len(texts), width, dtype=torch.int16)
    for row, ids in zip(padded, texts, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.int16)
    return padded


class Instructions:
    """Descriptions of unnamed speakers, as the ids with which a prompt begins."""

    def __init__(self, seed: int, tokens: TokenLists) -> None:
        self._draw, self._encoder = random.Random(seed), tokens.encoder()
        start, user, stop, newline = INSTRUCTION_FRAME
        self._start, self._user, self._stop = [tokens.special(start)], user, [tokens.special(stop)]
        self._newline = self._ids(newline)

    def of(self, utterance: TeacherUtterance) -> list[int]:
        """A random description of at most LONGEST_INSTRUCTION ids; a tokenizer with few merges needs several tries."""
        while True:
            body = self._ids(self._user + describe(utterance.facts, self._draw))
            ids = [*self._start, *body, *self._stop, *self._newline]
            if len(ids) <= LONGEST_INSTRUCTION:
                return ids

    def _ids(self, words: str) -> list[int]:
        return self._encoder.encode(words).ids


class Dataset:
    """Tables of several lengths, filled from the shards through the codec's encoder."""

    def __init__(
        self, recipe: Recipe, encoder: CodecEncoder, texts: list[TextTokens], capacity: int, tokens: TokenLists
    ) -> None:
        self._encoder, self._texts = encoder, texts
        self._at_once = recipe.speech_training.encoded
        self._locked = recipe.teacher.locked
        self._longest = math.ceil(recipe.teacher.longest * SAMPLE_RATE / SAMPLES_PER_FRAME)  # frames
        self._instructions = Instructions(recipe.seed, tokens)
        plan, device = recipe.speech_training, next(encoder.parameters()).device
        sizes = [(rows, recipe.codec.groups) for rows in plan.lengths]
        longer = list(zip(sizes, recipe.unnamed_speakers.clips, strict=True))
        self.tables = [UtteranceTable(*size, capacity, device) for size in sizes]
        self.unnamed = [UnnamedTable(*size, recipe.unnamed_speakers.kept, device, clip) for size, clip in longer]
        # the first utterances are held back, to measure the loss on them
        self.held_back = [UtteranceTable(*size, plan.held_back, device) for size in sizes]
        self.held_back_unnamed = [UnnamedTable(*size, plan.held_back, device, clip) for size, clip in longer]
        self._waiting: list[list[TeacherUtterance]] = [[] for _ in sizes]
        self._waiting_unnamed: list[TeacherUtterance] = []  # in pairs of one speaker
        self.seconds = 0.0

    def ready(self, least: int) -> bool:
        """Whether every table has utterances, and the first at least `least`."""
        return self.tables[0].added >= least and all(t.added for t in (*self.tables, *self.unnamed))

    def add(self, utterances: list[TeacherUtterance]) -> None:
        utterances = [u for u in utterances if u.text != WORDLESS]
        for utterance in utterances:
            n = self._fitting(utterance)
            if utterance.voice != UNNAMED and n is not None:
                self._waiting[n].append(utterance)
        unnamed = [u for u in utterances if u.voice == UNNAMED]
        for one, other in pairwise(unnamed):
            if one.speaker == other.speaker:  # two neighbouring pairs never have the same number
                self._waiting_unnamed += [one, other]
        for n, waiting in enumerate(self._waiting):
            while len(waiting) >= self._at_once:
                said = [waiting.pop() for _ in range(self._at_once)]
                table = _filling(self.held_back[n], self.tables[n])
                table.add(
                    [self._texts[u.text] for u in said], self._encode(said, min(self._longest, table.frames)), said
                )
        while len(self._waiting_unnamed) >= self._at_once:
            self._add_unnamed([self._waiting_unnamed.pop() for _ in range(self._at_once)])

    def _add_unnamed(self, said: list[TeacherUtterance]) -> None:
        """Add pairs of one speaker: each utterance to the shortest table with room for it and its description, together
        with the other one of its pair."""
        codes = self._encode(said, self._longest)
        # a clip to clone is not locked to the frames, as the voice of a teacher may be
        clips = self._encode(said, self._longest, wandering=True) if self._locked else codes
        instructions = [self._instructions.of(u) for u in said]
        lines: list[list[int]] = [[] for _ in self.unnamed]
        for number, (utterance, instruction) in enumerate(zip(said, instructions, strict=True)):
            n = self._fitting(utterance, len(instruction))
            if n is not None:
                lines[n].append(number)
        for n, line in enumerate(lines):
            if line:
                table = _filling(self.held_back_unnamed[n], self.unnamed[n])
                own, others = [said[i] for i in line], [said[i ^ 1] for i in line]
                places = table.add([self._texts[u.text] for u in own], codes[line, : table.frames], own)
                table.made[places] = torch.tensor([u.facts.numbers() for u in own]).to(places.device)
                table.add_unnamed(
                    places,
                    [instructions[i] for i in line],
                    [self._texts[u.text].ids for u in others],
                    clips[[i ^ 1 for i in line]],
                    [torch.from_numpy(u.sound) for u in others],
                )

    def _fitting(self, utterance: TeacherUtterance, instructed: int = 0) -> int | None:
        """The index of the shortest table with room, if there is one."""
        text, sound = self._texts[utterance.text].ids, utterance.sound
        rows = FIXED_ROWS + instructed + len(text) + len(sound) // SAMPLES_PER_FRAME
        return next((n for n, table in enumerate(self.tables) if rows <= table.rows), None)

    @torch.no_grad()
    def _encode(self, utterances: list[TeacherUtterance], frames: int, wandering: bool = False) -> Tensor:
        """Codes [n, frames, G]; those after the end of a sound have no meaning. `wandering`: of frames with different
        delays (`bending`)."""
        device, groups = self.tables[0].text.device, self._encoder.shape.groups
        codes = torch.zeros(len(utterances), frames, groups, dtype=torch.int64, device=device)
        order = sorted(range(len(utterances)), key=lambda n: len(utterances[n].phones))
        for at in range(0, len(order), TOGETHER):
            those = order[at : at + TOGETHER]
            # padded to a few lengths, so that few algorithms are chosen; the encoder is causal, so padding changes
            # nothing
            longest = min(frames, -(-len(utterances[those[-1]].phones) // STEP) * STEP)
            sound = torch.zeros(len(those), longest * SAMPLES_PER_FRAME, dtype=torch.int16)
            for row, n in zip(sound, those, strict=True):
                samples = torch.from_numpy(utterances[n].sound[: sound.shape[1]])
                row[: len(samples)] = samples
            pitch = torch.tensor([utterances[n].facts.pitch for n in those])
            heard = _wandering(sound.to(device), pitch.to(device)) if wandering else sound.to(device).float() / 32768
            codes[those, :longest] = self._encoder(heard)
        if not wandering:
            self.seconds += sum(len(u.phones) for u in utterances) * SAMPLES_PER_FRAME / SAMPLE_RATE
        return codes


def _wandering(sound: Tensor, pitch: Tensor) -> Tensor:
    """Sounds [n, samples] of voices of these pitches [n], with a random delay in each frame."""
    count, samples = sound.shape
    reach = half_periods(pitch)[:, None].expand(-1, samples // SAMPLES_PER_FRAME)
    first = samples * torch.arange(count, device=sound.device)
    return bent(sound.flatten(), first, curve(walk(reach)))


def _filling(held: Table, learned: Table) -> Table:
    """The table to fill: that of held-back utterances until it is full, then the other."""
    return learned if held.added >= held.capacity else held
