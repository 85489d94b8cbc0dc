"""The recordings of a person: finding, checking and mending them before they are learned.

Two passes read them. The first measures; no more than one clip is in memory. The second cuts and levels each clip.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli import files, parse
from omnitts_cli.audio.check import SILENT_PEAK_DB, measure
from omnitts_cli.audio.loudness import lufs
from omnitts_cli.audio.read import Recording, read_sound
from omnitts_cli.audio.resample import resample
from omnitts_cli.audio.target import put
from omnitts_cli.errors import InputError, Notice, TooLongError, TooShortError
from omnitts_cli.fleet.manifest import Manifest, open_manifest
from omnitts_cli.fleet.rows import RowError
from omnitts_cli.speech.transcribe import HEARD_AT, Transcriber
from omnitts_cli.text.clean import clean
from omnitts_cli.text.decode import decode
from omnitts_cli.text.formats.srt import SrtCue, read_cues

AUDIO = ("audio", "audio_filepath", "audio_path", "file", "file_name", "wav", "path")
TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text", "input")
SPEAKER = ("speaker", "speaker_id")
METADATA = ("metadata.jsonl", "metadata.csv", "metadata.tsv", "manifest.jsonl")  # in a folder
SOUNDS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
TRANSCRIPTS = (".txt", ".lab")
SUBTITLES = (".srt", ".vtt")
CUES_S, CUE_GAP_S = 12.0, 0.3  # subtitles that follow each other this closely are one clip, until it is this long
MOST_ROWS = 200_000
MOST_TRANSCRIPTS = 256 << 20  # bytes
RATE = 24_000
SHORTEST_S, LONGEST_S = 1.0, 20.0
LEAST_S, FEW_S, MUCH_S = 60.0, 300.0, 36_000.0  # of all clips: refused below; a warning; better with all weights
CLIPPED_SHARE, MOST_CLIPPED = 0.001, 0.2  # of the samples of a clip; of all clips
SLOWEST, FASTEST = 4.0, 25.0  # letters a second
SAME_TEXT = 3
QUIET_DB = 45.0  # below the peak: silence at the edges
BEFORE_S, AFTER_S = 0.1, 0.2  # how much of it stays
LEVEL_DB = 6.0  # a clip is made louder or quieter by at most this
HELD_LEAST, HELD_MOST, HELD_SHORTEST_S = 4, 60, 1.5

REASONS = {
    "unreadable": "could not be read",
    "no transcript": "without a transcript",
    "too short": f"shorter than {SHORTEST_S:g} s",
    "too long": f"longer than {LONGEST_S:g} s",
    "silent": "silent",
    "clipped": "clipped",
    "misfit": "whose text does not fit their length",
    "duplicate": "repeated",
}


@dataclass(frozen=True)
class RecordingRow:
    """A recording and its transcript, as they stand in the data."""

    path: Path
    text: str | None
    wrong: str = ""  # why the row cannot be used
    speaker: str = ""  # where there are several
    part: tuple[float | None, float | None] = (None, None)  # seconds of a long recording, from and to

    @property
    def name(self) -> str:
        return str(self.path) if self.part[0] is None else f"{self.path} at {self.part[0]:.1f} s"


@dataclass(frozen=True)
class SpokenClip:
    """A recording that is used. `begin` and `end` are samples at 24 kHz: the silence at its edges is left out."""

    path: Path
    text: str
    begin: int
    end: int
    loudness: float
    digest: str  # of its samples
    speaker: str = ""
    part: tuple[float | None, float | None] = (None, None)  # of the recording; `begin` and `end` count inside it

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / RATE


class Transcripts:
    """What a recogniser understood in recordings, by the checksum of their samples. A file in the folder of the run
    keeps it, so that the same command learns the same words."""

    def __init__(self, hear: Transcriber, path: Path) -> None:
        self._hear, self._path = hear, path
        self._known: dict[str, str] = {}
        try:
            known = parse.json_object(files.read(path, MOST_TRANSCRIPTS), parse.Limits(MOST_TRANSCRIPTS))
            self._known = {digest: text for digest, text in known.items() if isinstance(text, str)}
        except (OSError, ValueError, AttributeError):
            pass  # there is no file, or it is damaged: transcripts are made again

    def of(self, sound: np.ndarray, digest: str) -> str:
        """The words in samples at 24 kHz; may be empty."""
        if digest not in self._known:
            self._known[digest] = " ".join(self._hear(resample(sound, RATE, HEARD_AT)).split())
        return self._known[digest]

    def keep(self) -> None:
        if self._known:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            put(self._path, json.dumps(self._known, ensure_ascii=False, indent=1).encode(), private=True)


@dataclass
class Recordings:
    """The clips that are used, the names of those that are not, and how many were mended in each way."""

    clips: list[SpokenClip] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    mended: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        return sum(clip.seconds for clip in self.clips)

    def leave_out(self, reason: str, name: str) -> None:
        self.left_out.setdefault(reason, []).append(name)

    @property
    def words(self) -> str:
        """What was left out, for people."""
        return ", ".join(f"{len(names)} {REASONS[reason]}" for reason, names in self.left_out.items())


# ---- what there is


def rows_in(place: str, work: Path) -> list[RecordingRow]:
    """The rows of a folder or a manifest; InputError if there are none."""
    path = Path(place)
    if not path.exists():
        raise InputError(f"{place} not found", hint="a folder of recordings, or a manifest: CSV, TSV, JSONL, LJSpeech")
    if path.is_dir():
        metadata = next((path / name for name in METADATA if (path / name).is_file()), None)
        found = of_manifest(metadata, work) if metadata else of_folder(path)
    elif path.suffix.lower() in SOUNDS:
        if (subtitles := beside(path, SUBTITLES)) is None:
            raise InputError(
                f"{place} is one recording",
                hint=f"{path.stem}.srt or .vtt with subtitles beside it, or clips of 3 to 12 s, each with a .txt file",
            )
        found = of_subtitles(path, subtitles)
    else:
        found = of_manifest(path, work)
    rows = []
    for row in found:
        rows.append(row)
        if len(rows) > MOST_ROWS:
            raise InputError(f"{place} has more than {MOST_ROWS:,} recordings", hint="an hour of them is plenty")
    if not rows:
        raise InputError(f"there are no recordings in {place}", hint=f"sound files: {', '.join(SOUNDS)}")
    return rows


def of_folder(folder: Path) -> Iterator[RecordingRow]:
    """Sound files, each with a text of the same name beside it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in SOUNDS or path.name.startswith("."):
            continue
        written, subtitles = beside(path, TRANSCRIPTS), beside(path, SUBTITLES)
        try:
            if written is None and subtitles is not None:
                yield from of_subtitles(path, subtitles)
                continue
            text = None if written is None else decode(files.read(written, files.SMALL), None, str(written)).strip()
        except (OSError, InputError) as error:
            yield RecordingRow(path, None, str(error))
            continue
        yield RecordingRow(path, text)


def beside(path: Path, endings: tuple[str, ...]) -> Path | None:
    """The file of the same name with one of these endings."""
    return next((one for end in endings if (one := path.with_suffix(end)).is_file()), None)


def of_subtitles(path: Path, subtitles: Path) -> Iterator[RecordingRow]:
    """A long recording, cut where its subtitles say. Those that share a sentence are one clip."""
    cues = read_cues(clean(decode(files.read(subtitles, files.LARGE), None, str(subtitles))), str(subtitles))
    joined: list[SrtCue] = []
    for cue in sorted((cue for cue in cues if cue.text and 0 <= cue.start_s < cue.end_s), key=lambda cue: cue.start_s):
        last = joined[-1] if joined else None
        if (
            last is not None and not last.text.endswith((".", "!", "?")) and cue.start_s - last.end_s < CUE_GAP_S
            and cue.end_s - last.start_s <= CUES_S
        ):  # fmt: skip
            joined[-1] = replace(last, end_s=max(last.end_s, cue.end_s), text=f"{last.text} {cue.text}")
        else:
            joined.append(cue)
    for one in joined:
        yield RecordingRow(path, one.text, part=(one.start_s, one.end_s))


def of_manifest(path: Path, work: Path) -> Iterator[RecordingRow]:
    """The rows of a manifest. Their files are beside it, unless their names are absolute."""
    manifest = open_manifest(str(path), None, work, None, ignore_unknown=True, columns=TEXT)
    try:
        for raw in manifest.source.rows():
            if isinstance(raw.values, RowError):
                yield RecordingRow(Path(f"line {raw.line}"), None, str(raw.values))
            else:
                yield of_fields(manifest, raw.line, raw.values)
    finally:
        manifest.source.close()


def of_fields(manifest: Manifest, line: int, values: dict[str, Any]) -> RecordingRow:
    """The row of a line's fields."""
    text = next((one.strip() for name in TEXT if isinstance(one := values.get(name), str) and one.strip()), None)
    if manifest.kind == "ljspeech":
        names = [f"wavs/{values['id']}.wav", f"{values['id']}.wav", str(values["id"])]
        known = [manifest.base / name for name in names]
        return RecordingRow(next((one for one in known if one.is_file()), known[0]), text)
    name = next((one for key in AUDIO if isinstance(one := values.get(key), str) and one), None)
    if name is None:
        return RecordingRow(Path(f"line {line}"), text, f"it names no sound file; columns for it: {', '.join(AUDIO)}")
    who = next((one.strip() for key in SPEAKER if isinstance(one := values.get(key), str)), "")
    return RecordingRow(manifest.base / name, text, speaker=who)


# ---- what is wrong with it


def examine(
    rows: Iterable[RecordingRow], tell: Callable[[Notice], None], look: Callable[[int], None],
    transcripts: Transcripts | None = None,
) -> Recordings:  # fmt: skip
    """Reads every recording once. Raises InputError if too little can be used. `look` is called with the number read so
    far. `transcripts`: of recordings that come without one."""
    found, count = Recordings(), 0
    seen, said = set[str](), Counter[str]()
    for count, row in enumerate(rows, 1):
        look(count)
        read_one(row, found, seen, said, transcripts)
    refuse_too_little(found, count)
    warn(found, tell)
    return found


def read_one(
    row: RecordingRow, found: Recordings, seen: set[str], said: Counter[str], transcripts: Transcripts | None
) -> None:
    """Puts a recording among those that are used, or those that are left out."""
    name = row.name
    if row.wrong:
        return found.leave_out("unreadable", f"{name}: {row.wrong}")
    if not row.text and transcripts is None:
        return found.leave_out("no transcript", name)
    try:
        recording = read_part(row.path, row.part)
    except TooLongError:
        return found.leave_out("too long", name)
    except TooShortError:
        return found.leave_out("too short", name)
    except InputError as error:
        return found.leave_out("unreadable", f"{name}: {error.message}")
    begin, end = voiced(recording.sound)
    reason = doubt(recording, (end - begin) / RATE)
    digest = hashlib.sha256(recording.sound.tobytes()).hexdigest()
    if reason is not None:
        return found.leave_out(reason, name)
    text = row.text or (transcripts.of(recording.sound, digest) if transcripts else "")
    if not text:
        return found.leave_out("no transcript", name)
    letters = sum(c.isalnum() for c in text)
    if not SLOWEST <= letters * RATE / (end - begin) <= FASTEST:
        return found.leave_out("misfit", name)
    key = " ".join(text.lower().split())
    if digest in seen or said[key] >= SAME_TEXT:
        return found.leave_out("duplicate", name)
    seen.add(digest)
    said[key] += 1
    found.mended["silence cut"] += end - begin < 0.95 * recording.sound.size
    found.mended["resampled"] += recording.source_rate != RATE
    found.mended["made mono"] += recording.source_channels > 1
    found.mended["transcribed"] += not row.text
    loudness = lufs(recording.sound[begin:end], RATE)
    found.clips.append(SpokenClip(row.path, text, begin, end, loudness, digest, row.speaker, row.part))


def read_part(path: Path, part: tuple[float | None, float | None]) -> Recording:
    """A recording, or a part of a long one."""
    start, end = part
    return read_sound(path, start=start, end=end, rate=RATE, longest_s=LONGEST_S + 10, shortest_s=0.1)


def doubt(recording: Recording, seconds: float) -> str | None:
    """Why a recording cannot be used, whatever is said in it; None if it can."""
    figures = measure(recording.sound, recording.rate)
    reasons = {
        "silent": figures.peak_db < SILENT_PEAK_DB or seconds <= BEFORE_S + AFTER_S,
        "too long": seconds > LONGEST_S,
        "too short": seconds < SHORTEST_S,
        "clipped": (recording.clipped or 0.0) > CLIPPED_SHARE,
    }
    return next((reason for reason, true in reasons.items() if true), None)


def voiced(sound: np.ndarray) -> tuple[int, int]:
    """Where speech begins and ends, with a little of the silence around it."""
    loud = np.flatnonzero(np.abs(sound) > np.abs(sound).max(initial=0.0) * 10 ** (-QUIET_DB / 20))
    if not loud.size:
        return 0, 0
    return max(0, int(loud[0]) - round(BEFORE_S * RATE)), min(sound.size, int(loud[-1]) + round(AFTER_S * RATE))


def refuse_too_little(found: Recordings, count: int) -> None:
    """Raises InputError where what is left cannot teach a voice."""
    untold = len(found.left_out.get("no transcript", []))
    if untold > count / 2:
        raise InputError(
            f"{untold} of {count} recordings have no transcript",
            cause=f"such as {found.left_out['no transcript'][0]}",
            hint="write the words of each clip into a .txt file of its name, or into metadata.csv: file_name,text"
            "; or --transcribe",
        )
    clipped = len(found.left_out.get("clipped", []))
    if clipped > MOST_CLIPPED * count:
        raise InputError(
            f"{clipped} of {count} recordings are clipped", cause=f"such as {found.left_out['clipped'][0]}",
            hint="record again with a lower level; no repair brings the peaks back",
        )  # fmt: skip
    if found.seconds < LEAST_S:
        raise InputError(
            f"only {found.seconds:.0f} s of the recordings can be used; at least {LEAST_S:.0f} s are needed",
            cause=found.words or None, hint="record more: five minutes at least, better fifteen",
        )  # fmt: skip


def warn(found: Recordings, tell: Callable[[Notice], None]) -> None:
    if found.left_out:
        names = [name for names in found.left_out.values() for name in names]
        count = len(names)
        tell(Notice(f"{count} recordings are left out: {found.words}", cause=", ".join(names[:3])))
    if found.seconds < FEW_S:
        tell(Notice(f"{found.seconds / 60:.1f} minutes of speech is little", hint="record at least five minutes"))


# ---- what is mended


def mended(clip: SpokenClip, level: float) -> np.ndarray:
    """The samples of a clip at 24 kHz, cut, and closer to the level (LUFS) of the others."""
    recording = read_part(clip.path, clip.part)
    gain = max(-LEVEL_DB, min(LEVEL_DB, level - clip.loudness)) if np.isfinite(clip.loudness) else 0.0
    sound = recording.sound[clip.begin : clip.end] * np.float32(10 ** (gain / 20))
    return np.asarray(sound / max(1.0, float(np.abs(sound).max(initial=0.0))), np.float32)


def usual_level(clips: Iterable[SpokenClip]) -> float:
    """The median loudness."""
    return float(np.median([clip.loudness for clip in clips if np.isfinite(clip.loudness)] or [-23.0]))


def held_out(clips: list[SpokenClip], share: float) -> set[str]:
    """The texts that are not learned, so that the loss on them tells when to stop. A hash of the text chooses them:
    added clips hardly change the choice, and a text is never on both sides."""
    order = sorted({clip.text for clip in clips if clip.seconds >= HELD_SHORTEST_S},
                   key=lambda text: hashlib.sha256(text.encode()).digest())  # fmt: skip
    return set(order[: max(HELD_LEAST, min(HELD_MOST, round(share * len(clips))))])
