"""Lessons: what was said, as text ids and codes, in tables on the device; and batches of prompt rows from them.

Batches are made on the device from random numbers alone, so that making one is part of a captured step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.training.ids import CodecIds, TextIds
from omnitts_cli.training.pool import PASSING, Utterance
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.teacher import PHONES_PER_FRAME, SAMPLES_PER_FRAME

FIXED_ROWS = (
    11  # of a prompt, beside the text and the frames: role 3, tag 4, speaker, begin, end of text, begin of sound
)


@dataclass(frozen=True)
class Batch:
    """Everything [B, L] unless said otherwise; L rows of a prompt and the frames that follow it."""

    text: Tensor
    control: Tensor  # of the codec's side
    controlled: Tensor  # bool: this row hears a control id
    codes: Tensor  # [B, L, G], of the frame that this row hears
    framed: Tensor  # bool: this row hears a frame
    next_codes: Tensor  # [B, L, G], of the frame that follows this row
    followed: Tensor  # bool: a frame follows
    target: Tensor  # group 0 or the end; -100 elsewhere
    phones: Tensor  # [B, L, 2], of the frame that follows; -100 elsewhere


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

    def add(self, texts: list[list[int]], codes: Tensor, utterances: list[Utterance]) -> None:
        """Texts as ids, codes [n, frames, G] filled up to the longest sound, and what both come from."""
        at = [(self.added + n) % self.capacity for n in range(len(texts))]
        phones = torch.zeros(len(texts), self.frames, PHONES_PER_FRAME, dtype=torch.uint8)
        for row, utterance in zip(phones, utterances, strict=True):
            row[: len(utterance.phones)] = torch.from_numpy(utterance.phones)
        padded = torch.zeros(len(texts), self.rows, dtype=torch.int16)
        for row, ids in zip(padded, texts, strict=True):
            row[: len(ids)] = torch.tensor(ids, dtype=torch.int16)
        facts = torch.tensor([[len(t), len(u.phones), u.voice] for t, u in zip(texts, utterances, strict=True)])
        places = torch.tensor(at, device=self.text.device)
        self.text[places] = padded.to(self.text.device)
        self.codes[places] = codes.to(torch.int16)
        self.phones[places] = phones.to(self.text.device)
        self.facts[places] = facts.to(self.text.device)
        self.added += len(texts)
        self.filled.fill_(min(self.added, self.capacity))


class Lessons:
    """Tables of several lengths, filled from the classroom through the codec's hearing half."""

    def __init__(self, recipe: Recipe, encoder: CodecEncoder, ids: list[list[int]], capacity: int) -> None:
        self._encoder, self._ids = encoder, ids  # ids: of every text
        self._at_once = recipe.speech_training.encoded
        device = next(encoder.parameters()).device
        plan = recipe.speech_training
        self.tables = [LessonTable(rows, recipe.codec.groups, capacity, device) for rows in plan.lengths]
        # the first utterances are never learned from: the loss on them says what was understood
        self.held_back = [LessonTable(rows, recipe.codec.groups, plan.held_back, device) for rows in plan.lengths]
        self._waiting: list[list[Utterance]] = [[] for _ in self.tables]
        self.seconds = 0.0

    def add(self, utterances: list[Utterance]) -> None:
        for utterance in utterances:
            rows = FIXED_ROWS + len(self._ids[utterance.text]) + len(utterance.sound) // SAMPLES_PER_FRAME
            fitting = [n for n, table in enumerate(self.tables) if rows <= table.rows]
            if fitting and utterance.voice != PASSING:
                self._waiting[fitting[0]].append(utterance)
        for table, held, waiting in zip(self.tables, self.held_back, self._waiting, strict=True):
            while len(waiting) >= self._at_once:
                full = held.added >= held.capacity
                self._encode(table if full else held, [waiting.pop() for _ in range(self._at_once)])

    @torch.no_grad()
    def _encode(self, table: LessonTable, utterances: list[Utterance]) -> None:
        # filled up to one length, so that one choice of algorithm serves all; the encoder never looks ahead
        sound = torch.zeros(len(utterances), table.frames * SAMPLES_PER_FRAME, dtype=torch.int16)
        for row, utterance in zip(sound, utterances, strict=True):
            row[: len(utterance.sound)] = torch.from_numpy(utterance.sound)
        codes = self._encoder(sound.to(table.text.device).float() / 32768)
        table.add([self._ids[u.text] for u in utterances], codes, utterances)
        self.seconds += sum(len(u.phones) for u in utterances) * 0.08


def draw(table: LessonTable, size: int, recipe: Recipe, codec: CodecIds, text: TextIds) -> Batch:
    """`size` random utterances as prompts and frames, exactly as the family's prompts are built."""
    plan, device = recipe.speech_training, table.text.device
    picked = (torch.rand(size, device=device, dtype=torch.float64) * table.filled).long()
    words, sound = table.text[picked].long(), table.codes[picked].long()
    length, frames, voice = (table.facts[picked, n][:, None] for n in range(3))  # [B, 1] each
    chance = torch.rand(2, size, 1, device=device)
    told, streamed = chance[0] >= plan.untold, chance[1] < plan.streamed
    row = torch.arange(table.rows, device=device)[None]  # [1, L]
    head = torch.where(told, 9, 8)
    start = torch.where(streamed, head + 1, head + length + 2)  # the row that hears the first frame
    frame = row - start
    framed = (frame >= 0) & (frame < frames)
    here = frame.clamp(0, table.frames - 1)[..., None].expand(-1, -1, sound.shape[-1])
    ahead = (frame + 1).clamp(0, table.frames - 1)[..., None].expand(-1, -1, sound.shape[-1])
    next_codes = sound.gather(1, ahead)
    followed = (frame >= -1) & (frame + 1 < frames)
    phones = table.phones[picked].long().gather(1, ahead[..., :PHONES_PER_FRAME])
    # some examples lose part of what was said so far, and must find their place by the text
    lost = torch.rand(2, size, 1, device=device)
    share = torch.where(lost[0] < plan.forgetful, lost[1], 0.0)
    kept = torch.rand(size, table.rows, device=device) >= share
    target = torch.where(followed, next_codes[..., 0], -100)
    return Batch(
        text=_text_ids(row, head, length, words, text),
        control=_control_ids(row, head, start, told, voice, codec),
        controlled=((row >= 3) & (frame < 0)).expand(size, -1),
        codes=_misheard(sound.gather(1, here), plan.corrupt, codec.codes),
        framed=framed & kept,
        next_codes=next_codes,
        followed=followed,
        target=torch.where(frame + 1 == frames, codec.end, target),
        phones=torch.where(followed[..., None], phones, -100),
    )


def _text_ids(row: Tensor, head: Tensor, length: Tensor, words: Tensor, text: TextIds) -> Tensor:
    """The text's side of every row, for both text modes: the token `row - head` stands there in both."""
    token = row - head
    ids = torch.full_like(token, text.pad)
    for place, fixed in enumerate((text.start, text.assistant, text.newline)):
        ids = torch.where(row == place, fixed, ids)
    ids = torch.where(token == -1, text.begin, ids)
    body = words.gather(1, token.clamp(0, words.shape[1] - 1))
    ids = torch.where((token >= 0) & (token < length), body, ids)
    return torch.where(token == length, text.end, ids)


def _control_ids(row: Tensor, head: Tensor, start: Tensor, told: Tensor, voice: Tensor, codec: CodecIds) -> Tensor:
    """The codec's side before the first frame: tag, speaker, padding, and the mark that sound begins."""
    ids = torch.full_like(row - head, codec.pad)
    ids = torch.where(row == 3, torch.where(told, codec.think, codec.no_think), ids)
    ids = torch.where(row == 4, codec.think_begin, ids)
    ids = torch.where(told & (row == 5), codec.english, ids)
    ids = torch.where(row == head - 3, codec.think_end, ids)
    ids = torch.where(row == head - 2, voice + codec.first_speaker, ids)
    return torch.where(row == start - 1, codec.begin, ids)


def _misheard(codes: Tensor, share: float, size: int) -> Tensor:
    """Some codes replaced by others: while speaking, the model hears its own mistakes too."""
    wrong = torch.rand(codes.shape, device=codes.device) < share
    return torch.where(wrong, torch.randint_like(codes, size), codes)
