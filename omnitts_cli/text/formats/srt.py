"""Subtitle files as text. Cues are spoken by their start times; a wrong time is a notice, not an error."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from omnitts_cli.errors import InputError
from omnitts_cli.text.formats.block import Block

TIMES = re.compile(
    r"\s*(-?)(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})\s*-->\s*(-?)(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[,.](\d{1,3})"
)
TAGS = re.compile(r"<[^<>\n]{0,200}>|\{\\[^{}\n]{0,200}\}")
PARAGRAPH_GAP_S = 2.0


@dataclass(frozen=True)
class SrtCue:
    start_s: float
    end_s: float
    text: str
    line: int


def srt_blocks(text: str, name: str, notices: list[str]) -> Iterator[Block]:
    """Cues that follow each other closely are one paragraph, so that a sentence may run over several."""
    cues = sorted(read_cues(text, name), key=lambda cue: cue.start_s)
    notices.extend(doubts(cues, name))
    open_cues: list[SrtCue] = []
    for cue in cues:
        if open_cues and cue.start_s - open_cues[-1].end_s >= PARAGRAPH_GAP_S:
            yield paragraph(open_cues)
            open_cues = []
        open_cues.append(cue)
    if open_cues:
        yield paragraph(open_cues)


def paragraph(cues: list[SrtCue]) -> Block:
    return Block(" ".join(cue.text for cue in cues if cue.text), start_s=cues[0].start_s)


def read_cues(text: str, name: str) -> list[SrtCue]:
    """All cues of an SRT or WebVTT file, as they stand."""
    cues: list[SrtCue] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        times = TIMES.match(lines[at])
        at += 1
        if times is None:
            continue
        words, line = [], at
        while at < len(lines) and lines[at].strip() and not TIMES.match(lines[at]):
            words.append(lines[at])
            at += 1
        if at < len(lines) and TIMES.match(lines[at]) and words and words[-1].strip().isdigit():
            words.pop()  # the number of the next cue, where the empty line is missing
        cues.append(SrtCue(seconds(times, 1), seconds(times, 6), " ".join(TAGS.sub("", " ".join(words)).split()), line))
    if not cues:
        raise InputError(f"{name} has no subtitles in it", cause="no line such as 00:00:01,000 --> 00:00:04,000")
    return cues


def seconds(times: re.Match[str], group: int) -> float:
    sign, hours, minutes, whole, part = times.group(group, group + 1, group + 2, group + 3, group + 4)
    value = int(hours or 0) * 3600 + int(minutes) * 60 + int(whole) + int(part.ljust(3, "0")) / 1000
    return -value if sign else value


def doubts(cues: list[SrtCue], name: str) -> list[str]:
    """Sentences about times that cannot be; `cues` are in order of their start."""
    found = []
    backwards = [cue for cue in cues if cue.end_s < cue.start_s or cue.start_s < 0]
    if backwards:
        found.append(
            f"{name} line {backwards[0].line}: a subtitle with a negative time or length ({len(backwards)} in all)"
        )
    overlapping = sum(1 for one, other in pairwise(cues) if other.start_s < one.end_s)
    if overlapping:
        found.append(
            f"{name}: {overlapping} subtitle{'s begin' if overlapping > 1 else ' begins'} before the previous one has"
            " ended; all are spoken, one by one"
        )
    if any(one.line > other.line for one, other in pairwise(cues)):
        found.append(f"{name}: subtitles are not sorted by time; they are spoken sorted by time")
    return found
