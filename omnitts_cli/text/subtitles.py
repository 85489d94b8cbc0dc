"""Subtitles: when each sentence is heard, as SRT, WebVTT or JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, get_args

from omnitts_cli.errors import UsageError
from omnitts_cli.text.reading import GOES_ON

SubtitleFormat = Literal["srt", "vtt", "json"]
SUBTITLE_FORMATS: tuple[SubtitleFormat, ...] = get_args(SubtitleFormat)


@dataclass(frozen=True)
class Sentence:
    """One spoken piece and its place in the sound."""

    start_s: float
    end_s: float
    text: str


def joined(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences; what only goes on with a long number lengthens the one that shows it."""
    found: list[Sentence] = []
    for sentence in sentences:
        if sentence.text == GOES_ON and found:
            found[-1] = replace(found[-1], end_s=sentence.end_s)
        else:
            found.append(sentence)
    return found


def subtitle_format(path: str) -> SubtitleFormat:
    """The format of `--subs PATH`, by its suffix."""
    suffix = PurePath(path).suffix.lower().lstrip(".")
    if suffix not in SUBTITLE_FORMATS:
        raise UsageError(f"--subs {path}: '{suffix}' is not a subtitle format", hint="one of: .srt, .vtt, .json")
    return suffix  # type: ignore[return-value]


def render(sentences: Sequence[Sentence], form: SubtitleFormat) -> str:
    """The whole subtitle file."""
    if form == "json":
        return json.dumps({"schema": 1, "sentences": sentence_rows(sentences)}, ensure_ascii=False, indent=1) + "\n"
    if form == "srt":
        cues = [
            f"{number}\n{clock(s.start_s, ',')} --> {clock(s.end_s, ',')}\n{one_line(s.text)}\n"
            for number, s in enumerate(sentences, 1)
        ]
        return "\n".join(cues)
    cues = [f"{clock(s.start_s, '.')} --> {clock(s.end_s, '.')}\n{escaped(s.text)}\n" for s in sentences]
    return "\n".join(["WEBVTT\n", *cues])


def sentence_rows(sentences: Sequence[Sentence]) -> list[dict[str, object]]:
    """The sentences as they stand in `--json`."""
    return [
        {"i": i, "start": round(s.start_s, 3), "end": round(s.end_s, 3), "text": s.text}
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
