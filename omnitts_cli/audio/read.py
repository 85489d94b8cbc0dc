"""Reads recordings of any origin. Problems with a file become errors or notices, never a crash or a silent loss."""

import io
import math
import os
import re
import shlex
import stat
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from omnitts_cli.audio import foreign, magic, mp3head, oggend, wavehead
from omnitts_cli.audio.handle import Handle
from omnitts_cli.audio.mono import to_mono
from omnitts_cli.audio.pcm import clipped_share
from omnitts_cli.audio.resample import check_rate, resample
from omnitts_cli.errors import InputError, TooLongError, TooShortError

LONGEST_S = 300.0
SHORTEST_S = 0.5
STDIN_BYTES = 256 * 2**20
LARGEST_SAMPLES = 60_000_000  # of all channels, decoded: 240 MB
READ_BLOCK_S = 5.0
UNKNOWN_FRAMES = 2**40  # libsndfile says 2**63 - 1 for a FLAC stream without a length
MP3_SLACK = 0.05
LOUD = 2.0
TINY = 1e-20


@dataclass(frozen=True, eq=False)
class Recording:
    """A clip that can be used: mono float32 at `rate`, and notices about the file."""

    sound: np.ndarray  # [samples] float32
    rate: int
    name: str
    source_rate: int
    source_channels: int
    source_s: float | None  # length of the whole file; None where the file does not say
    notices: list[str] = field(default_factory=list)
    clipped: float | None = None  # share of samples in flat tops, at the rate of the file; None: not measured

    @property
    def seconds(self) -> float:
        return self.sound.size / self.rate


@dataclass(frozen=True)
class ClipPart:
    """Which part of a recording, in seconds; `end` None is the end of the file."""

    start: float = 0.0
    end: float | None = None

    @property
    def whole(self) -> bool:
        return self.start == 0.0 and self.end is None


@dataclass
class Opened:
    """A decoder, and what the header of the file says. `frames` None: it does not say."""

    decoder: Any
    handle: Handle
    rate: int
    channels: int
    frames: int | None
    exact: bool = True  # whether `frames` is a fact; for MP3 it may be an estimate
    truncated: bool = False
    notices: list[str] = field(default_factory=list)


def read_clip(
    source: str | os.PathLike[str] | bytes,
    *,
    start: float | None = None,
    end: float | None = None,
    rate: int = 24_000,
    stdin: BinaryIO | None = None,
    longest_s: float = LONGEST_S,
    shortest_s: float = SHORTEST_S,
    record: str | None = None,
) -> Recording:
    """The recording of `-r SOURCE`, or the part from `start` to `end` seconds of it; InputError if it cannot be used.

    `-` reads `stdin`; bytes are those of a file.
    `record` is the hint for a recording that is empty or too short. The result is mono at `rate`
    with finite samples; `notices` tell what was done to get there.
    """
    name = "in memory" if isinstance(source, bytes) else os.fspath(source)
    name = "on standard input" if name == "-" else name
    part = checked_part(start, end)
    try:
        with open_source(source, name, stdin, record) as file:
            path = None if isinstance(file, io.BytesIO) else name
            before = os.fstat(file.fileno()) if path else None
            until_s = (part.start + longest_s if part.end is None else part.end) + 1.0
            opened = open_decoder(file, path, name, until_s)
            samples = read_part(opened, part, name, longest_s)
            if before is not None and changed(before, os.fstat(file.fileno())):
                raise InputError(f"reference clip {name} was changed while it was read", hint="try again")
    except OSError as error:
        raise InputError(f"cannot read reference clip {name}: {(error.strerror or str(error)).lower()}") from error
    sound, notices = clean(samples, name)
    if sound.size < shortest_s * opened.rate:
        raise TooShortError(
            f"reference clip {name} lasts {sound.size / opened.rate:.2f} s; at least {shortest_s:g} s is needed",
            hint=record,
        )
    if opened.rate < 16_000:
        notices.append(
            f"the clip is sampled at {opened.rate} Hz: the voice will sound dull; 16000 Hz or more is better"
        )
    total = None if opened.frames is None else opened.frames / opened.rate
    return Recording(
        resample(sound, opened.rate, rate), rate, name, opened.rate, opened.channels, total, opened.notices + notices,
        clipped_share(sound),
    )  # fmt: skip


def read_sound(source: str | os.PathLike[str], **options: Any) -> Recording:
    """`read_clip` for a sound that is not a voice to clone: errors call it a sound and give no advice on clips."""
    try:
        return read_clip(source, **options)
    except InputError as error:
        about_voices = error.hint and re.search("voice|clone|--ref-", error.hint)
        message = error.message.replace("reference clip", "sound")
        raise type(error)(message, cause=error.cause, hint=None if about_voices else error.hint) from None


def checked_part(start: float | None, end: float | None) -> ClipPart:
    for option, value in (("--ref-start", start), ("--ref-end", end)):
        if value is not None and not 0.0 <= value < 1e9:
            raise InputError(
                f"{option} {value:g} is not a position in a clip", hint="seconds from the clip's start, 0 or more"
            )
    if start is not None and end is not None and end <= start:
        raise InputError(f"--ref-end {end:g} is not after --ref-start {start:g}")
    return ClipPart(start or 0.0, end)


# -- the file


def open_source(
    source: str | os.PathLike[str] | bytes, name: str, stdin: BinaryIO | None, record: str | None
) -> BinaryIO:
    """An open, seekable, non-empty file. Pipes and devices only through `-`, and up to a limit."""
    if isinstance(source, bytes):
        refuse_empty(len(source), name, record)
        return io.BytesIO(source)
    if os.fspath(source) == "-":
        if stdin is None:
            raise InputError("cannot read a reference clip from standard input: it is closed")
        data = stdin.read(STDIN_BYTES + 1)
        if len(data) > STDIN_BYTES:
            raise InputError(f"the reference clip on standard input is larger than {STDIN_BYTES >> 20} MiB")
        refuse_empty(len(data), name, record)
        return io.BytesIO(data)
    size = check_kind(source, name)
    refuse_empty(size, name, record)
    return open(source, "rb")


def check_kind(path: str | os.PathLike[str], name: str) -> int:
    """Refuses anything but a regular file, without opening it: opening a FIFO would block. Returns the file's size."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise InputError(f"reference clip {name} not found") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read reference clip {name:.200}: {reason.lower()}") from error
    piped = f"omnitts clone -r - ... < {name}"
    kinds = (
        (stat.S_ISDIR, "a folder", f"ls {shlex.quote(name)}"),
        (stat.S_ISFIFO, "a named pipe", piped),
        (stat.S_ISCHR, "a device", piped),
        (stat.S_ISBLK, "a device", piped),
        (stat.S_ISSOCK, "a socket", None),
    )
    for is_kind, words, hint in kinds:
        if is_kind(found.st_mode):
            raise InputError(f"reference clip {name} is {words}, not a file", hint=hint)
    return found.st_size


def refuse_empty(size: int, name: str, record: str | None) -> None:
    if size == 0:
        raise InputError(f"reference clip {name} is an empty file (0 bytes)", hint=record)


def changed(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)


# -- its header


def open_decoder(file: BinaryIO, path: str | None, name: str, until_s: float) -> Opened:
    """Checks the first bytes and the header, then opens the file with libsndfile."""
    head = file.read(magic.HEAD_BYTES)
    kind = magic.kind_of(head)
    file.seek(0)
    if kind in magic.NEEDS_FFMPEG or (kind == "mp3" and not mp3head.length_is_known(file)):
        return open_foreign(foreign.read(path, file, name, kind, until_s), name, until_s)
    if " " in kind or kind == "text":
        raise InputError(
            f"reference clip {name} is not audio: it looks like {kind}", hint="wav, flac, mp3, ogg and opus can be read"
        )
    if kind == "wav":
        return open_wav(file, name)
    if kind == "ogg":
        return open_ogg(file, name)
    return open_library(file, name)


def open_ogg(file: BinaryIO, name: str) -> Opened:
    whole = oggend.is_whole(file)
    opened = open_library(file, name)
    if not whole:
        opened.truncated = True
        opened.notices.append("the clip is cut off: its last page is missing")
    return opened


def open_foreign(data: bytes, name: str, until_s: float) -> Opened:
    """What PyAV or ffmpeg decoded. Where it stopped at the limit, the length of the whole is not known."""
    opened = open_wav(io.BytesIO(data), name)
    opened.notices.clear()  # ffmpeg wrote to a pipe; the clip itself did not
    if opened.frames is not None and opened.frames >= int((until_s - 0.1) * opened.rate):
        opened.frames = None
    return opened


def open_wav(file: BinaryIO, name: str) -> Opened:
    head = wavehead.read_head(file, name)
    file.seek(0)
    opened = open_library(file, name, wavehead.true_lengths(head))
    if head.streamed:
        opened.notices.append("the clip was written to a pipe and has no length in its header; all of it is used")
    elif head.missing:
        opened.truncated = True
        opened.notices.append(
            f"the clip is cut off: its header states {head.claimed:,} bytes of samples, but {head.there:,} are there"
        )
    if head.data_bytes % head.frame_bytes:
        opened.notices.append(f"the clip ends inside a sample ({head.data_bytes:,} bytes of data); the rest is dropped")
    return opened


def open_library(file: BinaryIO, name: str, patches: dict[int, bytes] | None = None) -> Opened:
    import soundfile

    handle = Handle(file, patches)
    try:
        decoder = soundfile.SoundFile(handle, "r")
    except (soundfile.LibsndfileError, TypeError, ValueError) as error:
        reason = getattr(error, "error_string", str(error)).rstrip(".")
        raise InputError(f"reference clip {name} cannot be decoded", cause=reason) from error
    if not 1 <= decoder.channels <= wavehead.MOST_CHANNELS:
        raise InputError(
            f"reference clip {name} has {decoder.channels} channels", hint="use a clip with 1 or 2 channels"
        )
    check_rate(decoder.samplerate)
    frames = decoder.frames if 0 <= decoder.frames < UNKNOWN_FRAMES else None
    if frames == 0:
        raise InputError(f"reference clip {name} contains no audio")
    # soundfile seeks after each read, which fails for GSM and at the end of a stream that does not know its end.
    decoder.seekable = lambda: False
    return Opened(decoder, handle, decoder.samplerate, decoder.channels, frames, exact=decoder.format != "MP3")


# -- its samples


def read_part(opened: Opened, part: ClipPart, name: str, longest_s: float) -> np.ndarray:
    """Decodes what is asked for and no more. [samples, channels] float32"""
    total = None if opened.frames is None else opened.frames / opened.rate
    check_selection(part, total, name, longest_s, opened.truncated)
    limit_s = longest_s if part.end is None else part.end - part.start
    wanted = round(limit_s * opened.rate)
    if min(wanted, opened.frames or wanted) * opened.channels > LARGEST_SAMPLES:
        raise InputError(f"reference clip {name} has too many samples to read at once", hint=example(name, part.start))
    samples = decode(opened, round(part.start * opened.rate), wanted + 1, name)
    if samples.shape[0] > wanted and part.end is None:
        raise too_long(name, None, longest_s)
    expected = expected_samples(opened, part, wanted)
    slack = 0 if opened.exact else round(MP3_SLACK * expected)
    if samples.shape[0] < expected - slack:
        got_s = samples.shape[0] / opened.rate
        opened.notices.append(f"the clip is damaged: {got_s:.2f} s of {expected / opened.rate:.2f} s could be decoded")
        refuse_broken(part, got_s, name)
    return samples[:wanted]


def expected_samples(opened: Opened, part: ClipPart, wanted: int) -> int:
    """The number of samples that decoding must give: all that the header states, or all that were asked for."""
    if opened.frames is None:
        return 0 if part.end is None else wanted
    return min(wanted, opened.frames - round(part.start * opened.rate))


def check_selection(part: ClipPart, total: float | None, name: str, longest_s: float, truncated: bool) -> None:
    if total is not None:
        if part.start >= total or (part.end is not None and part.end > total + 0.01):
            what = f"--ref-start {part.start:g}" if part.start >= total else f"--ref-end {part.end:g}"
            raise InputError(
                f"reference clip {name} lasts {total:.2f} s; {what} lies outside",
                hint=f"choose a part from 0 to {total:.2f} s",
            )
        if truncated:
            refuse_broken(part, total - part.start, name)
        if (total if part.end is None else part.end) - part.start > longest_s:
            raise too_long(name, total, longest_s)
    elif part.end is not None and part.end - part.start > longest_s:
        raise too_long(name, part.end - part.start, longest_s)


def refuse_broken(part: ClipPart, left_s: float, name: str) -> None:
    """Refuses a cut-off clip unless the user chose a part that is complete."""
    if part.end is None or left_s < 1.0:
        part_left = f", or choose the part that can be read: --ref-end {int(left_s * 10 + 0.1) / 10}"
        raise InputError(
            f"reference clip {name} is cut off or damaged; {left_s:.2f} s of it can be read",
            hint=f"get the whole file{part_left if left_s >= SHORTEST_S else ''}",
        )


def too_long(name: str, total: float | None, longest_s: float) -> TooLongError:
    most = duration(longest_s)
    if total is None:
        lasts = f"more than {most}"
    else:
        lasts = f"{duration(total if total < 60 else math.ceil(total))}; at most {most} can be read"
    return TooLongError(f"reference clip {name} lasts {lasts}", hint=example(name, 65))


def example(name: str, start: float) -> str:
    return f'omnitts clone -r {name} --ref-start {start:g} --ref-end {start + 15:g} "text"'


def duration(seconds: float) -> str:
    """36120 -> `10 h 02 min`; 75 -> `1 min 15 s`; 7.25 -> `7.2 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60):02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def decode(opened: Opened, start: int, most: int, name: str) -> np.ndarray:
    """Up to `most` samples from `start`, in blocks; what was decoded before an error in the file counts."""
    import soundfile

    blocks, count = [np.zeros((0, opened.channels), np.float32)], 0
    block = round(opened.rate * READ_BLOCK_S)
    try:
        skip(opened, start, block)
        while count < most:
            data = opened.decoder.read(min(block, most - count), dtype="float32", always_2d=True)
            if not len(data):
                break
            blocks.append(data)
            count += len(data)
    except soundfile.LibsndfileError as error:
        if count == 0:
            reason = error.error_string.rstrip(".")
            raise InputError(f"reference clip {name} cannot be decoded", cause=reason) from error
    if opened.handle.error is not None:
        raise opened.handle.error
    return np.concatenate(blocks)  # [samples, channels]


def skip(opened: Opened, start: int, block: int) -> None:
    """Goes to sample `start`; by decoding where the stream does not know its length."""
    if opened.frames is not None and start > 0:  # GSM cannot even seek to its start
        opened.decoder.seek(start)
        return
    while start > 0 and len(data := opened.decoder.read(min(block, start))):
        start -= len(data)


def clean(samples: np.ndarray, name: str) -> tuple[np.ndarray, list[str]]:
    """Refuses NaN and infinity, selects a channel, and scales absurd levels down."""
    finite = np.isfinite(samples)
    if not finite.all():
        bad = int(finite.size - finite.sum())
        raise InputError(
            f"reference clip {name} is damaged: {bad:,} of {finite.size:,} samples are NaN or infinite",
            hint="record it again, or choose another part: --ref-start S --ref-end S",
        )
    sound, notices = to_mono(samples)
    peak = float(np.max(np.abs(sound), initial=0.0))
    if peak > LOUD:
        sound = sound / np.float32(peak)
        notices.append(f"the clip peaks at {peak:g} where 1 is full scale; it was scaled down")
    return np.where(np.abs(sound) < TINY, np.float32(0.0), sound), notices
