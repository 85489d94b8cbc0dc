"""Subtitles: when each sentence, or each word, is spoken, as SRT, WebVTT or JSON text."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, get_args

from omnitts_cli.errors import UsageError
from omnitts_cli.text.reading import GOES_ON

SubtitleFormat = Literal["srt", "vtt", "json"]
SUBTITLE_FORMATS: tuple[SubtitleFormat, ...] = get_args(SubtitleFormat)
CUE_LETTERS, CUE_PAUSE_S, CUE_ENDS = 32, 0.3, (",", ".", ";", ":", "!", "?", "…", "—", "。", "、", "，", "！", "？")
FIRST_WIDE = 0x2E80


@dataclass(frozen=True)
class Word:
    """A word as it is written, and its place in the sound."""

    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True)
class Sentence:
    """One spoken piece and its place in the sound."""

    start_s: float
    end_s: float
    text: str
    words: tuple[Word, ...] = ()


def joined(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences; later parts of a long number lengthen the sentence that shows the whole number."""
    found: list[Sentence] = []
    for sentence in sentences:
        if sentence.text == GOES_ON and found:
            words = found[-1].words
            words = (*words[:-1], replace(words[-1], end_s=sentence.end_s)) if words else ()
            found[-1] = replace(found[-1], end_s=sentence.end_s, words=words)
        else:
            found.append(sentence)
    return found


def subtitle_format(path: str) -> SubtitleFormat:
    """The format of `--subs PATH`, by its suffix."""
    suffix = PurePath(path).suffix.lower().lstrip(".")
    if suffix not in SUBTITLE_FORMATS:
        raise UsageError(
            f"--subs {path}: '{suffix}' is not a subtitle format",
            hint=f"--subs {PurePath(path).with_suffix('.srt')}   or .vtt, .json",
        )
    return suffix  # type: ignore[return-value]


def render(sentences: Sequence[Sentence], form: SubtitleFormat, words_by: str | None = None) -> str:
    """The whole subtitle file. `words_by`: what found the times of words."""
    if form == "json":
        by = f' "words_by": {json.dumps(words_by)},\n' if words_by else ""
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in sentence_rows(sentences))
        return f'{{\n "schema": 1,\n{by} "sentences": [\n{rows}\n ]\n}}\n'
    if form == "srt":
        shown = [cue for one in sentences for cue in cues_of(one)]
        cues = [
            f"{number}\n{clock(s.start_s, ',')} --> {clock(s.end_s, ',')}\n{one_line(s.text)}\n"
            for number, s in enumerate(shown, 1)
        ]
        return "\n".join(cues)
    cues = [f"{clock(s.start_s, '.')} --> {clock(s.end_s, '.')}\n{in_spans(s)}\n" for s in sentences]
    return "\n".join(["WEBVTT\n", *cues])


def cues_of(sentence: Sentence) -> list[Sentence]:
    """A cue for every few words, if their times are known; a cue of several words ends at a comma,
    and any cue at a pause, or when it is full.
    """
    cues: list[Sentence] = []
    full = True
    for word in sentence.words:
        last = cues[-1] if cues else None
        if last is None or full or word.start_s - last.end_s > CUE_PAUSE_S or len(last.text + word.text) >= CUE_LETTERS:
            cues.append(Sentence(word.start_s, word.end_s, word.text))
        else:
            cues[-1] = replace(last, end_s=word.end_s, text=f"{last.text}{between(last.text, word.text)}{word.text}")
        full = cues[-1].text != word.text and word.text.rstrip("\"'”’)»").endswith(CUE_ENDS)
    return cues or [sentence]


def between(before: str, word: str) -> str:
    """The space between two words; Chinese and Japanese have none."""
    return "" if ord(before[-1]) >= FIRST_WIDE and ord(word[0]) >= FIRST_WIDE else " "


def in_spans(sentence: Sentence) -> str:
    """The text of a WebVTT cue; a player highlights each word from its time on."""
    parts, before = [], ""
    for word in sentence.words:
        parts.append(
            f"{between(before, word.text) if before else ''}<{clock(word.start_s, '.')}><c>{escaped(word.text)}</c>"
        )
        before = word.text
    return "".join(parts) or escaped(sentence.text)


def sentence_rows(sentences: Sequence[Sentence]) -> list[dict[str, object]]:
    """The sentences as they stand in `--json`."""
    return [
        {"i": i, "start": round(s.start_s, 3), "end": round(s.end_s, 3), "text": s.text}
        | ({"words": [[round(w.start_s, 3), round(w.end_s, 3), w.text] for w in s.words]} if s.words else {})
        for i, s in enumerate(sentences)
    ]


def clock(seconds: float, point: str) -> str:
    """3725.5 -> 01:02:05,500"""
    thousandths = round(max(0.0, seconds) * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}{point}{rest % 1000:03d}"


def one_line(text: str) -> str:
    """A cue ends at an empty line and begins with an arrow; its text may have neither."""
    return " ".join(text.split()).replace("-->", "→")


def escaped(text: str) -> str:
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
