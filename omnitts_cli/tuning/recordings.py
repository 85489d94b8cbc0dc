"""The recordings of a person: finding, checking and mending them before they are learned.

Two passes read them. The first measures; no more than one clip is in memory. The second cuts and levels each clip.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli import files
from omnitts_cli.audio.check import SILENT_PEAK_DB, Figures, measure
from omnitts_cli.audio.loudness import lufs
from omnitts_cli.audio.outlet import make_folder
from omnitts_cli.audio.read import Recording, read_sound
from omnitts_cli.audio.target import put
from omnitts_cli.errors import InputError, Notice, TooLongError, TooShortError
from omnitts_cli.fleet.manifest import Manifest, open_manifest
from omnitts_cli.fleet.rows import RowError
from omnitts_cli.text.clean import clean
from omnitts_cli.text.decode import decode
from omnitts_cli.text.formats.srt import SrtCue, read_cues
from omnitts_cli.tuning.pieces import pauses_of, pieces_of
from omnitts_cli.tuning.transcripts import RATE, Transcripts

AUDIO = ("audio", "audio_filepath", "audio_path", "file", "file_name", "wav", "path")
TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text", "input")
SPEAKER = ("speaker", "speaker_id")
REFERENCE = "ref_audio"
METADATA = ("metadata.jsonl", "metadata.csv", "metadata.tsv", "manifest.jsonl")  # in a folder
SOUNDS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
TRANSCRIPTS = (".txt", ".lab")
SUBTITLES = (".srt", ".vtt")
CUES_S, CUE_GAP_S = 12.0, 0.3  # subtitles that follow each other this closely are one clip, until it is this long
MOST_ROWS = 200_000
SHORTEST_S, LONGEST_S = 1.0, 20.0
LEAST_S, FEW_S, MUCH_S = 60.0, 300.0, 36_000.0  # of all clips: refused below; a warning; better with all weights
CLIPPED_SHARE, MOST_CLIPPED = 0.001, 0.2  # of the samples of a clip; of all clips
SLOWEST, FASTEST = 4.0, 25.0  # letters a second
SAME_TEXT = 3
WRONG, WRONG_WORDS = 0.2, 0.5  # share of a text that the recogniser misses: above it doubtful; above it left out
TELEPHONE_HZ, NOISY_DB, PAUSE_S = 16_000, 15.0, 1.5  # a lower rate, less above the noise, a longer pause: doubtful
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
    "misheard": "whose words are not those of the text",
    "duplicate": "repeated",
}
DOUBTS = {
    "telephone": f"sampled at less than {TELEPHONE_HZ // 1000} kHz",
    "noisy": "noisy",
    "pause": f"with a pause of more than {PAUSE_S:g} s",
    "words": "whose words the recogniser partly misses",
}
"""Of clips that are used all the same."""
ALLOWED = ("clipped", "misfit", "misheard", "duplicate", "too short")
"""Reasons to leave a clip out that can be overruled."""


@dataclass(frozen=True)
class RecordingRow:
    """A recording and its transcript, as they stand in the data."""

    path: Path
    text: str | None
    wrong: str = ""  # why the row cannot be used
    speaker: str = ""  # where there are several
    part: tuple[float | None, float | None] = (None, None)  # seconds of a long recording, from and to
    reference: Path | None = None  # from which the speaker's vector is taken

    @property
    def name(self) -> str:
        return named(self.path, self.part)


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
    reference: Path | None = None

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / RATE

    @property
    def name(self) -> str:
        return named(self.path, self.part)


def named(path: Path, part: tuple[float | None, float | None]) -> str:
    """What people call a recording."""
    return str(path) if part[0] is None else f"{path} at {part[0]:.1f} s"


@dataclass
class Recordings:
    """The clips that are used, the names of those that are not, and how many were mended in each way."""

    clips: list[SpokenClip] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    doubtful: dict[str, list[str]] = field(default_factory=dict)  # used all the same
    mended: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        return sum(clip.seconds for clip in self.clips)

    def leave_out(self, reason: str, name: str) -> None:
        self.left_out.setdefault(reason, []).append(name)

    def doubt(self, reason: str, name: str) -> None:
        self.doubtful.setdefault(reason, []).append(name)

    @property
    def words(self) -> str:
        """What was left out, for people."""
        return ", ".join(f"{len(names)} {REASONS[reason]}" for reason, names in self.left_out.items())

    @property
    def doubts(self) -> str:
        """What is doubtful, for people."""
        return ", ".join(f"{len(names)} {DOUBTS[reason]}" for reason, names in self.doubtful.items())


# ---- what there is


def rows_in(place: str, work: Path, sounds: Path, whole: bool = False) -> list[RecordingRow]:
    """The rows of a folder or a manifest; InputError if there are none. `work`: for copies of a manifest. `sounds`: for
    recordings that are inside one. `whole`: one recording without subtitles will do."""
    path = Path(place)
    if not path.exists():
        raise InputError(f"{place} not found", hint="a folder of recordings, or a manifest: CSV, TSV, JSONL, LJSpeech")
    if path.is_dir():
        metadata = [path / name for name in METADATA if (path / name).is_file()][:1] or parquet_in(path)
        found = chain(*(of_manifest(one, work, sounds) for one in metadata)) if metadata else of_folder(path)
    elif path.suffix.lower() in SOUNDS:
        subtitles = beside(path, SUBTITLES)
        if subtitles is None and not whole:
            raise InputError(
                f"{place} is one recording",
                hint="--transcribe, or subtitles beside it (.srt or .vtt), or clips of 3 to 12 s with a .txt file each",
            )
        found = of_subtitles(path, subtitles) if subtitles else iter([RecordingRow(path, None)])
    else:
        found = of_manifest(path, work, sounds)
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
    for path in sounds_in(folder):
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


def sounds_in(folder: Path) -> list[Path]:
    """The sound files in a folder and below it, without hidden ones. Links to folders are not followed. Of a folder
    with too many files, no more are looked for than are needed to refuse it."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        named = (name for name in names if name.lower().endswith(SOUNDS) and not name.startswith("."))
        found += (Path(place, name) for name in islice(named, MOST_ROWS + 1 - len(found)))
    return sorted(found)


def parquet_in(folder: Path) -> list[Path]:
    """The Parquet files of a data set, in the folder itself or in `data`."""
    return sorted(path for path in (*folder.glob("*.parquet"), *folder.glob("data/*.parquet")) if path.is_file())


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


def of_manifest(path: Path, work: Path, sounds: Path) -> Iterator[RecordingRow]:
    """The rows of a manifest. Their files are beside it, unless their names are absolute, or inside a Parquet file."""

    def unpacked(data: bytes) -> str:
        target = sounds.absolute() / f"{hashlib.sha256(data).hexdigest()[:32]}.sound"
        if not target.exists():
            make_folder(sounds, private=True)
            put(target, data, private=True)
        return str(target)

    manifest = open_manifest(str(path), None, work, None, ignore_unknown=True, columns=TEXT, unpack=unpacked)
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
    name = next((one for key in AUDIO if isinstance(one := sound_in(values.get(key)), str) and one), None)
    if name is None:
        return RecordingRow(Path(f"line {line}"), text, f"it names no sound file; columns for it: {', '.join(AUDIO)}")
    who = next((one.strip() for key in SPEAKER if isinstance(one := values.get(key), str)), "")
    reference = values.get(REFERENCE)
    named = manifest.base / reference if isinstance(reference, str) and reference else None
    return RecordingRow(manifest.base / name, text, speaker=who, reference=named)


def sound_in(value: Any) -> Any:
    """The name of a sound file, also of one that was inside a Parquet file."""
    return value.get("bytes") or value.get("path") if isinstance(value, dict) else value


# ---- what is wrong with it


def examine(
    rows: Iterable[RecordingRow], tell: Callable[[Notice], None], look: Callable[[int], None],
    transcripts: Transcripts | None = None, allowed: Collection[str] = (),
) -> Recordings:  # fmt: skip
    """Reads every recording once. Raises InputError if too little can be used. `look` is called with the number read so
    far. `allowed`: of ALLOWED, what is used all the same."""
    found, count = Recordings(), 0
    reader = Examiner(found, transcripts, allowed)
    for count, row in enumerate(rows, 1):
        look(count)
        reader.read(row)
    refuse_too_little(found, count)
    warn(found, tell)
    return found


class Unusable(Exception):
    """Why a recording is left out (one of REASONS), and its name."""

    def __init__(self, reason: str, name: str) -> None:
        super().__init__(reason)
        self.reason, self.name = reason, name


class Examiner:
    """Puts each recording among those that are used, or those that are left out."""

    def __init__(self, found: Recordings, transcripts: Transcripts | None, allowed: Collection[str]) -> None:
        self._found, self._transcripts, self._allowed = found, transcripts, allowed
        self._fills = transcripts is not None and transcripts.fills
        self._seen, self._said = set[str](), Counter[str]()

    def read(self, row: RecordingRow) -> None:
        try:
            self._take(row)
        except Unusable as why:
            if why.reason == "too long" and self._fills and row.part[0] is None:
                self._cut(row)
            else:
                self._found.leave_out(why.reason, why.name)

    def _take(self, row: RecordingRow) -> None:
        found, recording = self._found, self._opened(row)
        begin, end = voiced(recording.sound)
        voice, seconds = recording.sound[begin:end], (end - begin) / RATE
        figures = measure(recording.sound, recording.rate)
        digest = hashlib.sha256(recording.sound.tobytes()).hexdigest()
        self._refuse(unusable(figures, recording, seconds), row)
        text = row.text or (self._transcripts.of(recording.sound, digest) if self._transcripts else "")
        self._refuse([] if text else ["no transcript"], row)
        letters = sum(c.isalnum() for c in text) / max(seconds, 0.1)
        self._refuse(["misfit"] if not SLOWEST <= letters <= FASTEST else [], row)
        repeated = digest in self._seen or self._said[same(text)] >= SAME_TEXT
        self._refuse(["duplicate"] if repeated else [], row)
        wrong = self._transcripts.wrong(text, recording.sound, digest) if self._transcripts and row.text else 0.0
        self._refuse(["misheard"] if wrong > WRONG_WORDS else [], row)
        self._seen.add(digest)
        self._said[same(text)] += 1
        for doubt in doubts(figures, recording, voice, wrong):
            found.doubt(doubt, row.name)
        found.mended["silence cut"] += end - begin < 0.95 * recording.sound.size
        found.mended["resampled"] += recording.source_rate != RATE
        found.mended["made mono"] += recording.source_channels > 1
        found.mended["transcribed"] += not row.text
        found.clips.append(
            SpokenClip(row.path, text, begin, end, lufs(voice, RATE), digest, row.speaker, row.part, row.reference)
        )

    def _opened(self, row: RecordingRow) -> Recording:
        if row.wrong:
            raise Unusable("unreadable", f"{row.name}: {row.wrong}")
        if not row.text and not self._fills:
            raise Unusable("no transcript", row.name)
        try:
            return read_part(row.path, row.part)
        except TooLongError:
            raise Unusable("too long", row.name) from None
        except TooShortError:
            raise Unusable("too short", row.name) from None
        except InputError as error:
            raise Unusable("unreadable", f"{row.name}: {error.message}") from None

    def _refuse(self, reasons: Iterable[str], row: RecordingRow) -> None:
        """Raises Unusable for the first reason that is not allowed."""
        for reason in reasons:
            if reason not in self._allowed:
                raise Unusable(reason, row.name)

    def _cut(self, row: RecordingRow) -> None:
        """Reads a recording that is too long as pieces. What is said in each is for the recogniser to say."""
        before = len(self._found.clips)
        try:
            for part in pieces_of(row.path):
                self.read(replace(row, text=None, part=part))
        except InputError as error:
            return self._found.leave_out("unreadable", f"{row.name}: {error.message}")
        if len(self._found.clips) == before:
            self._found.leave_out("too long", row.name)
        else:
            self._found.mended["cut into pieces"] += 1


def same(text: str) -> str:
    """Equal for texts that differ in case and white space only."""
    return " ".join(text.lower().split())


def read_part(path: Path, part: tuple[float | None, float | None]) -> Recording:
    """A recording, or a part of a long one."""
    start, end = part
    return read_sound(path, start=start, end=end, rate=RATE, longest_s=LONGEST_S + 10, shortest_s=0.1)


def unusable(figures: Figures, recording: Recording, seconds: float) -> list[str]:
    """Why a recording cannot be used, whatever is said in it."""
    reasons = {
        "silent": figures.peak_db < SILENT_PEAK_DB or seconds <= BEFORE_S + AFTER_S,
        "too long": seconds > LONGEST_S,
        "too short": seconds < SHORTEST_S,
        "clipped": (recording.clipped or 0.0) > CLIPPED_SHARE,
    }
    return [reason for reason, true in reasons.items() if true]


def doubts(figures: Figures, recording: Recording, voice: np.ndarray, wrong: float) -> list[str]:
    """What a person should look at. `voice`: without the silence at the edges; `wrong`: the share of wrong words."""
    reasons = {
        "telephone": recording.source_rate < TELEPHONE_HZ,
        "noisy": figures.speech_db - figures.floor_db < NOISY_DB,
        "pause": any(end - begin > PAUSE_S for begin, end in pauses_of(voice)),
        "words": wrong > WRONG,
    }
    return [reason for reason, true in reasons.items() if true]


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
    if found.doubtful:
        names = [name for names in found.doubtful.values() for name in names]
        tell(Notice(f"some recordings are doubtful: {found.doubts}", cause=", ".join(names[:3]),
                    hint="listen to them; all are learned"))  # fmt: skip
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
