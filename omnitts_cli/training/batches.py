"""Training batches: the rows of prompts and of the frames after them, exactly as the family builds its prompts.

Made on the device from random numbers alone, so that making a batch is part of a captured step. Every kind of
example is first the same list of pieces (instruction, speaker, words before, words, frames before, frames);
`lay_out` puts the pieces of a whole batch in their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.training.dataset import UnnamedTable, UtteranceTable
from omnitts_cli.training.ids import CodecIds, TinyTextIds
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.recording import recorded
from omnitts_cli.training.teacher import FACTS, PHONES_PER_FRAME, UNKNOWN

NOBODY, VECTOR = -1, -2  # instead of a speaker's number: no speaker row; a row that the speaker encoder fills


@dataclass(frozen=True)
class Said:
    """One utterance per example, or an empty one: words, codes and phones, [B, ...]."""

    words: Tensor  # [B, W] ids
    length: Tensor  # [B, 1] of the words
    language: Tensor  # [B, 1], its place in `ids.LANGUAGES`
    codes: Tensor  # [B, F, G]
    drawn: Tensor  # [B, F, G], codes that the model sampled for the same frames
    frames: Tensor  # [B, 1]
    phones: Tensor  # [B, F, 2]


@dataclass(frozen=True)
class Examples:
    """The pieces of `B` prompts. The first `len(mel)` are those whose speaker is given by a clip."""

    own: Said
    before: Said  # the clip, where its words and codes are part of the prompt
    instruction: Tensor  # [B, I] ids
    instructed: Tensor  # [B, 1], number of instruction ids
    speaker: Tensor  # [B, 1]: number of a named voice, NOBODY or VECTOR
    tagged: Tensor  # [B, 1] bool: the prompt names the language
    streamed: Tensor  # [B, 1] bool: one token of text per frame
    mel: Tensor  # [n, bands, columns] of clips
    place: Tensor  # [B, 1] in the table
    made: Tensor  # [m, FACTS]: facts about the speakers of the first m, who have no name


@dataclass(frozen=True)
class Batch:
    """Tensors are [B, L] unless noted; L: the rows of a prompt and of the frames after it."""

    text: Tensor
    control: Tensor  # of the codec's side
    controlled: Tensor  # bool: this row has a control id
    voiced: Tensor  # bool: this row has the vector of a clip
    codes: Tensor  # [B, L, G], of this row's frame
    framed: Tensor  # bool: this row has a frame
    next_codes: Tensor  # [B, L, G], of the frame that follows this row
    followed: Tensor  # bool: a frame follows that is to be learned
    target: Tensor  # group 0 or the end; -100 elsewhere
    phones: Tensor  # [B, L, 2], of the frame that follows; -100 elsewhere
    mel: Tensor  # [n, bands, columns]: the clips of the first n
    made: Tensor  # [m, FACTS]: facts about the speakers of the first m
    place: Tensor  # [B, L]: of the utterance in its table
    frame: Tensor  # [B, L]: index in the utterance of the frame that follows this row


def draw_mixed(
    table: UtteranceTable, unnamed: UnnamedTable, size: int, recipe: Recipe, codec: CodecIds, text: TinyTextIds
) -> Batch:
    """`size` examples of every kind, in the shares of the recipe."""
    plan = recipe.unnamed_speakers
    place = recipe.speech_training.lengths.index(table.rows)
    clones, designs = max(1, round(plan.cloned[place] * size)), round(plan.described[place] * size)
    kinds = [
        cloned(unnamed, clones, recipe, plan.continued),
        designed(unnamed, designs, recipe),
        named(table, size - clones - designs, recipe),
    ]
    return lay_out(_joined(kinds), table.rows, recipe, codec, text)


def named(table: UtteranceTable, size: int, recipe: Recipe) -> Examples:
    places = _places(table, size)
    speaker = table.facts[places, 2][:, None]
    return _examples(_said(table, places), places, speaker, recipe, recipe.speech_training.streamed)


def designed(table: UnnamedTable, size: int, recipe: Recipe) -> Examples:
    places = _places(table, size)
    own = _said(table, places)
    plain = _examples(own, places, torch.full_like(own.length, NOBODY), recipe, recipe.speech_training.streamed)
    instruction, instructed = table.instruction[places].long(), table.instructed[places, None]
    return replace(plain, instruction=instruction, instructed=instructed, made=table.made[places])


def cloned(table: UnnamedTable, size: int, recipe: Recipe, continued: float) -> Examples:
    """Examples in the voice of another clip of the speaker. In a share of them, `continued`, the clip's words and codes
    are part of the prompt, if there is room."""
    places = _places(table, size)
    own, before = _said(table, places), _before(table, places)
    plain = _examples(own, places, torch.full_like(own.length, VECTOR), recipe, recipe.unnamed_speakers.streamed)
    start = _start(_head(plain), plain.streamed, before.length + own.length)
    goes_on = torch.rand(size, 1, device=places.device) < continued
    goes_on &= start + before.frames + own.frames <= table.rows
    before = replace(before, length=before.length * goes_on, frames=before.frames * goes_on)
    mel = recorded(table.mels[places].float())
    return replace(plain, before=before, mel=mel, made=table.made[places])


def _places(table: UtteranceTable, size: int) -> Tensor:
    return (torch.rand(size, device=table.text.device, dtype=torch.float64) * table.filled).long()


def _said(table: UtteranceTable, places: Tensor) -> Said:
    length, frames, language = (table.facts[places, n][:, None] for n in (0, 1, 3))
    codes, drawn = table.codes[places].long(), table.drawn[places].long()
    return Said(table.text[places].long(), length, language, codes, drawn, frames, table.phones[places].long())


def _before(table: UnnamedTable, places: Tensor) -> Said:
    """Another utterance of each speaker. Its language and its phones are zeros: a prompt names the language of the
    words to speak, and nothing is learned from the phones."""
    length, frames = (table.before_facts[places, n][:, None] for n in range(2))
    words, codes = table.before_text[places].long(), table.before_codes[places].long()
    unused = torch.zeros_like(length), torch.zeros_like(codes[..., :PHONES_PER_FRAME])
    return Said(words, length, unused[0], codes, codes, frames, unused[1])


def _examples(own: Said, places: Tensor, speaker: Tensor, recipe: Recipe, streamed: float) -> Examples:
    """Examples without an earlier utterance, an instruction or a clip."""
    size, device = len(speaker), speaker.device
    chance = torch.rand(2, size, 1, device=device)
    nothing = torch.zeros_like(own.length)
    return Examples(
        own=own,
        before=replace(own, length=nothing, frames=nothing),
        instruction=torch.zeros(size, 1, dtype=torch.int64, device=device),
        instructed=nothing,
        speaker=speaker,
        tagged=chance[0] >= recipe.speech_training.no_language,
        streamed=chance[1] < streamed,
        mel=torch.zeros(0, device=device),
        place=places[:, None],
        made=torch.zeros(0, FACTS, device=device),
    )


def _joined(kinds: list[Examples]) -> Examples:
    """Joins examples of several kinds; only the first kind has clips."""

    def said(parts: list[Said]) -> Said:
        return Said(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Said)))

    widest = max(kind.instruction.shape[1] for kind in kinds)
    instructions = [F.pad(k.instruction, (0, widest - k.instruction.shape[1])) for k in kinds]
    joined = {
        name: torch.cat([getattr(kind, name) for kind in kinds])
        for name in ("instructed", "speaker", "tagged", "streamed", "place", "made")
    }
    return Examples(
        own=said([kind.own for kind in kinds]),
        before=said([kind.before for kind in kinds]),
        instruction=torch.cat(instructions),
        mel=kinds[0].mel,
        **joined,
    )


def _head(given: Examples) -> Tensor:
    """The row of the first text token, after instruction, role, tag, speaker and the begin-of-text row. [B, 1]"""
    return given.instructed + 3 + torch.where(given.tagged, 4, 3) + (given.speaker != NOBODY).long() + 1


def _start(head: Tensor, streamed: Tensor, words: Tensor) -> Tensor:
    """The row of the first frame: one after the first text token, or after the text and its end. [B, 1]"""
    return torch.where(streamed, head + 1, head + words + 2)


def lay_out(given: Examples, rows: int, recipe: Recipe, codec: CodecIds, text: TinyTextIds) -> Batch:
    plan, own, before = recipe.speech_training, given.own, given.before
    size, device = len(given.speaker), given.speaker.device
    row = torch.arange(rows, device=device)[None]  # [1, L]
    head = _head(given)
    start = _start(head, given.streamed, before.length + own.length)
    frame = row - start
    frames = before.frames + own.frames
    framed = (frame >= 0) & (frame < frames)
    codes, next_codes = (_one_after_the_other(before.codes, own.codes, before.frames, at) for at in (frame, frame + 1))
    codes = _redrawn(codes, _one_after_the_other(before.codes, own.drawn, before.frames, frame), plan.drawn_history)
    # the clip is given; the frames after it are learned
    followed = (frame + 1 >= before.frames) & (frame + 1 < frames)
    phones = _one_after_the_other(before.phones, own.phones, before.frames, frame + 1)
    # some examples lose part of their earlier frames, so that the model learns to find its place by the text
    lost = torch.rand(2, size, 1, device=device)
    share = torch.where(lost[0] < plan.history_dropout, lost[1], 0.0)
    kept = torch.rand(size, rows, device=device) >= share
    target = torch.where(followed, next_codes[..., 0], -100)
    speaker_row = given.instructed + 3 + torch.where(given.tagged, 4, 3)
    voiced = (given.speaker == VECTOR) & (row == speaker_row)
    return Batch(
        text=_text_ids(given, row, head, text),
        control=_control_ids(given, row, head, start, codec),
        controlled=(row >= given.instructed + 3) & (frame < 0) & ~voiced,
        voiced=voiced,
        codes=_corrupted(codes, plan.corrupt, codec.codes),
        framed=framed & kept,
        next_codes=next_codes,
        followed=followed,
        target=torch.where(frame + 1 == frames, codec.end, target),
        phones=torch.where(followed[..., None] & (phones != UNKNOWN), phones, -100),
        mel=given.mel,
        made=given.made,
        place=given.place.expand(size, rows),
        frame=frame + 1 - before.frames,
    )


def _one_after_the_other(first: Tensor, second: Tensor, count: Tensor, at: Tensor) -> Tensor:
    """Entries `at` [B, L] of the first `count` [B, 1] entries of `first` [B, F, n] followed by `second`: [B, L, n]."""
    pieces = []
    for piece, place in ((first, at), (second, at - count)):
        inside = place.clamp(0, piece.shape[1] - 1)[..., None].expand(-1, -1, piece.shape[2])
        pieces.append(piece.gather(1, inside))
    return torch.where((at < count)[..., None], pieces[0], pieces[1])


def _text_ids(given: Examples, row: Tensor, head: Tensor, text: TinyTextIds) -> Tensor:
    """The text id of every row. In both text modes, row `head + n` has token n."""
    place, token, words = row - given.instructed, row - head, given.before.length + given.own.length
    ids = torch.full_like(token, text.pad)
    instructed = given.instruction.gather(1, row.clamp(max=given.instruction.shape[1] - 1).expand(len(head), -1))
    ids = torch.where(place < 0, instructed, ids)
    for offset, fixed in enumerate((text.start, text.assistant, text.newline)):
        ids = torch.where(place == offset, fixed, ids)
    ids = torch.where(token == -1, text.begin, ids)
    before, own = given.before.words[..., None], given.own.words[..., None]
    body = _one_after_the_other(before, own, given.before.length, token)[..., 0]
    ids = torch.where((token >= 0) & (token < words), body, ids)
    return torch.where(token == words, text.end, ids)


def _control_ids(given: Examples, row: Tensor, head: Tensor, start: Tensor, codec: CodecIds) -> Tensor:
    """The control ids before the first frame: tag, speaker, padding, and the mark that sound begins."""
    tag = row - given.instructed - 3
    last = torch.where(given.tagged, 3, 2)  # of the tag
    ids = torch.full_like(row - head, codec.pad)
    ids = torch.where(tag == 0, torch.where(given.tagged, codec.think, codec.no_think), ids)
    ids = torch.where(tag == 1, codec.think_begin, ids)
    ids = torch.where(given.tagged & (tag == 2), codec.english + given.own.language, ids)
    ids = torch.where(tag == last, codec.think_end, ids)
    ids = torch.where((tag == last + 1) & (given.speaker >= 0), given.speaker + codec.first_speaker, ids)
    return torch.where(row == start - 1, codec.begin, ids)


def _redrawn(codes: Tensor, drawn: Tensor, share: float) -> Tensor:
    """In a share of the examples, replaces some or all earlier codes by codes that the model sampled itself.

    When it speaks, it reads only its own codes, and their voice is a little nearer to the mean of all voices than the
    true one. So it learns to take the voice from the prompt instead. The leading group keeps the true codes, because
    it tells the place in the text.
    """
    size, rows, _ = codes.shape
    chance = torch.rand(2, size, 1, 1, device=codes.device)
    part = torch.where(chance[0] < share, 2 * chance[1], 0.0)  # of the frames; all of them in half these examples
    redrawn = torch.rand(size, rows, 1, device=codes.device) < part
    return torch.cat([codes[..., :1], torch.where(redrawn, drawn, codes)[..., 1:]], -1)


def _corrupted(codes: Tensor, share: float, size: int) -> Tensor:
    """Replaces some codes by random ones, because the model reads its own mistakes when it speaks."""
    wrong = torch.rand(codes.shape, device=codes.device) < share
    return torch.where(wrong, torch.randint_like(codes, size), codes)
