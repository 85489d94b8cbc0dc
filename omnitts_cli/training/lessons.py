"""Lessons: what was said, as text ids and codes, in tables on the device, from which batches are drawn.

Named speakers and passing strangers have tables of their own: of a stranger there is more to keep.
"""

from __future__ import annotations

import random
from itertools import pairwise

import torch
from torch import Tensor

from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.mel import MelShape, log_mel
from omnitts_cli.training.pool import PASSING, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.strangers import FACTS, describe, facts
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SAMPLE_RATE, SAMPLES_PER_FRAME
from omnitts_cli.training.tokens import Tokens

FIXED_ROWS = (
    11  # of a prompt, beside the text and the frames: role 3, tag 4, speaker, begin, end of text, begin of sound
)
INSTRUCTION_FRAME = ("<|im_start|>", "user\n", "<|im_end|>", "\n")
LONGEST_INSTRUCTION = 64  # ids, in miniature more than in a real tokenizer
MEL = MelShape(SAMPLE_RATE)


class LessonTable:
    """Utterances of at most `rows` rows; the oldest are overwritten."""

    def __init__(self, rows: int, groups: int, capacity: int, device: torch.device) -> None:
        self.rows, self.capacity = rows, capacity
        self.frames = rows - FIXED_ROWS - 1  # the longest sound
        self.text = torch.zeros(capacity, rows, dtype=torch.int16, device=device)
        self.codes = torch.zeros(capacity, self.frames, groups, dtype=torch.int16, device=device)
        self.phones = torch.zeros(capacity, self.frames, PHONES_PER_FRAME, dtype=torch.uint8, device=device)
        # text length, frames, voice
        self.facts = torch.zeros(capacity, 3, dtype=torch.int64, device=device)
        self.filled = torch.zeros((), dtype=torch.int64, device=device)
        self.added = 0

    def add(self, texts: list[list[int]], codes: Tensor, utterances: list[Utterance]) -> Tensor:
        """Texts as ids, codes [n, frames, G] filled up to the longest sound, and what both come from -> the places."""
        at = [(self.added + n) % self.capacity for n in range(len(texts))]
        phones = torch.zeros(len(texts), self.frames, PHONES_PER_FRAME, dtype=torch.uint8)
        for row, utterance in zip(phones, utterances, strict=True):
            row[: len(utterance.phones)] = torch.from_numpy(utterance.phones)
        facts = torch.tensor([[len(t), len(u.phones), u.voice] for t, u in zip(texts, utterances, strict=True)])
        places = torch.tensor(at, device=self.text.device)
        self.text[places] = _padded(texts, self.rows).to(self.text.device)
        self.codes[places] = codes.to(torch.int16)
        self.phones[places] = phones.to(self.text.device)
        self.facts[places] = facts.to(self.text.device)
        self.added += len(texts)
        self.filled.fill_(min(self.added, self.capacity))
        return places


class StrangerTable(LessonTable):
    """The two utterances of a stranger stand at neighbouring places, the first at an even one."""

    def __init__(self, rows: int, groups: int, capacity: int, device: torch.device, clip: float) -> None:
        super().__init__(rows, groups, capacity, device)
        self._samples = round(clip * SAMPLE_RATE)
        columns = self._samples // MEL.hop
        # half precision: a hundredth of a decibel is near enough
        self.mels = torch.zeros(capacity, MEL.bands, columns, dtype=torch.float16, device=device)
        self.made = torch.zeros(capacity, FACTS, device=device)
        self.instruction = torch.zeros(capacity, LONGEST_INSTRUCTION, dtype=torch.int16, device=device)
        self.instructed = torch.zeros(capacity, dtype=torch.int64, device=device)

    def add_strangers(self, places: Tensor, instructions: list[list[int]], utterances: list[Utterance]) -> None:
        """What is known of those that `add` has put there."""
        device = self.text.device
        clips = torch.stack([_clip(torch.from_numpy(u.sound), self._samples) for u in utterances])
        self.mels[places] = log_mel(clips.to(device).float() / 32768, MEL).half()
        self.made[places] = torch.tensor([facts(u.made) for u in utterances if u.made]).to(device)
        self.instruction[places] = _padded(instructions, LONGEST_INSTRUCTION).to(device)
        self.instructed[places] = torch.tensor([len(i) for i in instructions]).to(device)


def _clip(sound: Tensor, samples: int) -> Tensor:
    """A random stretch of a long sound; a short one again and again."""
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
    """Descriptions of strangers, as the ids that open a prompt."""

    def __init__(self, seed: int, tokens: Tokens) -> None:
        self._draw, self._encoder = random.Random(seed), tokens.encoder()
        start, user, stop, newline = INSTRUCTION_FRAME
        self._start, self._user, self._stop = [tokens.special(start)], user, [tokens.special(stop)]
        self._newline = self._ids(newline)

    def of(self, utterance: Utterance) -> list[int]:
        return self.ids(describe(utterance.made, self._draw)) if utterance.made else []

    def ids(self, words: str) -> list[int]:
        return [*self._start, *self._ids(self._user + words), *self._stop, *self._newline]

    def _ids(self, words: str) -> list[int]:
        return self._encoder.encode(words).ids


class Lessons:
    """Tables of several lengths, filled from the classroom through the codec's hearing half."""

    def __init__(
        self, recipe: Recipe, encoder: CodecEncoder, ids: list[list[int]], capacity: int, tokens: Tokens
    ) -> None:
        self._encoder, self._ids = encoder, ids  # ids: of every text
        self._at_once = recipe.speech_training.encoded
        self._instructions = Instructions(recipe.seed, tokens)
        plan, device = recipe.speech_training, next(encoder.parameters()).device
        sizes = [(rows, recipe.codec.groups) for rows in plan.lengths]
        longer = list(zip(sizes, recipe.strangers.clips, strict=True))
        self.tables = [LessonTable(*size, capacity, device) for size in sizes]
        self.strangers = [StrangerTable(*size, recipe.strangers.kept, device, clip) for size, clip in longer]
        # the first utterances are never learned from: the loss on them says what was understood
        self.held_back = [LessonTable(*size, plan.held_back, device) for size in sizes]
        self.held_strangers = [StrangerTable(*size, plan.held_back, device, clip) for size, clip in longer]
        self._waiting: list[list[Utterance]] = [[] for _ in sizes]
        self._waiting_strangers: list[list[tuple[Utterance, list[int]]]] = [[] for _ in sizes]
        self.seconds = 0.0

    def ready(self, least: int) -> bool:
        """Whether there is something of everything to learn from."""
        return self.tables[0].added >= least and all(t.added for t in (*self.tables, *self.strangers))

    def add(self, utterances: list[Utterance]) -> None:
        for utterance in utterances:
            if utterance.voice != PASSING:
                self._wait(self._waiting, [utterance], self._rows(utterance))
        passing = [u for u in utterances if u.voice == PASSING]
        for one, other in pairwise(passing):
            # neighbours of one speaker; the second of two is never the first of the next
            if one.made == other.made:
                both = [(u, self._instructions.of(u)) for u in (one, other)]
                rows = max(self._rows(u) + len(instruction) for u, instruction in both)
                self._wait(self._waiting_strangers, both, rows)
        for n, waiting in enumerate(self._waiting):
            while len(waiting) >= self._at_once:
                table = self.tables[n] if _full(self.held_back[n]) else self.held_back[n]
                self._encode(table, [waiting.pop() for _ in range(self._at_once)])
        for n, those in enumerate(self._waiting_strangers):
            while len(those) >= self._at_once:
                table = self.strangers[n] if _full(self.held_strangers[n]) else self.held_strangers[n]
                spoken, instructions = zip(*(those.pop() for _ in range(self._at_once)), strict=True)
                places = self._encode(table, list(spoken))
                table.add_strangers(places, list(instructions), list(spoken))

    def _rows(self, utterance: Utterance) -> int:
        return FIXED_ROWS + len(self._ids[utterance.text]) + len(utterance.sound) // SAMPLES_PER_FRAME

    def _wait(self, lines: list[list], newcomers: list, rows: int) -> None:
        """In the line of the shortest table that has room, if there is one."""
        fitting = [line for line, table in zip(lines, self.tables, strict=True) if rows <= table.rows]
        if fitting:
            fitting[0].extend(newcomers)

    @torch.no_grad()
    def _encode(self, table: LessonTable, utterances: list[Utterance]) -> Tensor:
        # filled up to one length, so that one choice of algorithm serves all; the encoder never looks ahead
        sound = torch.zeros(len(utterances), table.frames * SAMPLES_PER_FRAME, dtype=torch.int16)
        for row, utterance in zip(sound, utterances, strict=True):
            row[: len(utterance.sound)] = torch.from_numpy(utterance.sound)
        codes = self._encoder(sound.to(table.text.device).float() / 32768)
        self.seconds += sum(len(u.phones) for u in utterances) * 0.08
        return table.add([self._ids[u.text] for u in utterances], codes, utterances)


def _full(table: LessonTable) -> bool:
    return table.added >= table.capacity
