"""Reference: the clip that is cloned, its transcript, and warnings about them."""

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from omnitts_cli import files
from omnitts_cli.audio.check import check_clip, check_transcript
from omnitts_cli.audio.read import Recording, read_clip
from omnitts_cli.audio.resample import resample
from omnitts_cli.audio.trim import trim
from omnitts_cli.errors import InputError, Notice, UsageError
from omnitts_cli.speech import transcribe as recognition
from omnitts_cli.speech import voices
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.voices import Voice
from omnitts_cli.text.decode import decode
from omnitts_cli.text.reading import read_transcript
from omnitts_cli.text.split import columns, split
from omnitts_cli.voices import Cloned

if TYPE_CHECKING:
    from omnitts_cli.models.roles import SpeechModel

BREATH_S = 0.2
RECORD = "record 3 to 30 s of one speaker"
"""The hint for a clip that is empty or too short."""
Tell = Callable[[Notice], None]


@dataclass(frozen=True, eq=False)
class Reference:
    """A clip of one speaker, and its transcript if there is one."""

    recording: Recording
    transcript: str | None = None


def sources(audio: object) -> list[str | bytes]:
    """Returns the files of `clone()`: their names, or the bytes of one."""
    if isinstance(audio, bytes | bytearray | memoryview):
        return [bytes(audio)]
    if callable(read := getattr(audio, "read", None)):
        try:
            data = read()
        except UnicodeDecodeError:
            data = ""
        if not isinstance(data, bytes):
            raise UsageError("the open file gives text, not bytes", hint='open(path, "rb")')
        return [data]
    if isinstance(audio, tuple) and len(audio) == 2 and not isinstance(audio[1], str | PathLike):
        return [sound_file(*audio)]
    paths = list(audio) if isinstance(audio, Iterable) and not isinstance(audio, str) else [audio]
    if not paths or not all(isinstance(path, str | PathLike) for path in paths):
        what = "clone() needs a file, several files, bytes, an open file, a Clip, or (samples, rate)"
        raise UsageError(what, hint='tts.clone("voice.wav")   or   tts.clone((samples, 24000))')
    return [fspath(path) for path in paths if isinstance(path, str | PathLike)]


def sound_file(samples: object, rate: object) -> bytes:
    """Returns samples, [samples] or [samples, channels], as the bytes of a WAV file."""
    import soundfile

    file = io.BytesIO()
    try:
        soundfile.write(file, np.asarray(samples), rate, format="WAV", subtype="FLOAT")
    except (TypeError, ValueError, AttributeError, soundfile.SoundFileError) as error:
        what = f"the samples of the clip cannot be used: {error}"
        raise UsageError(what, hint="an array of float32 or int16, and its sample rate") from None
    return file.getvalue()


def reference(
    clips: Sequence[str | bytes],
    transcript: str | None = None,
    *,
    start: float | None = None,
    end: float | None = None,
    pad: float = 0.0,
    check: bool = True,
    transcribe: bool = False,
    asr_model: str | None = None,
    offline: bool = False,
    stdin: BinaryIO | None = None,
    tell: Tell,
) -> Reference:
    """Returns the clip, cut to a usable length. `tell` gets a notice about every problem."""
    recording = in_a_row([read_clip(name, start=start, end=end, stdin=stdin, record=RECORD) for name in clips])
    return prepared(recording, transcript, pad=pad, check=check, transcribe=transcribe,
                    asr_model=asr_model, offline=offline, tell=tell)  # fmt: skip


def prepared(
    recording: Recording,
    transcript: str | None,
    *,
    pad: float = 0.0,
    check: bool = True,
    transcribe: bool = False,
    asr_model: str | None = None,
    offline: bool = False,
    tell: Tell,
) -> Reference:
    """Returns the recording as a reference."""
    doubts = list(recording.notices)
    if transcribe:
        transcript = recognition.transcribe(
            recording.sound, recording.rate, offline=offline, tell=tell, model=asr_model
        )
    if check:
        doubts += check_clip(recording)
        if transcript is not None:
            doubts += check_transcript(columns(transcript, 0, len(transcript)), recording.seconds)
    for doubt in doubts:
        tell(Notice(doubt))
    recording, transcript = shortened(recording, transcript, tell)
    if pad:  # some voices finish the clip's last sound at their own beginning
        recording = replace(recording, sound=np.pad(recording.sound, (0, int(pad * recording.rate))))
    return Reference(recording, transcript)


def in_a_row(recordings: Sequence[Recording]) -> Recording:
    """Several clips as one, with a short pause between them."""
    first, *others = recordings
    if not others:
        return first
    sounds = [first.sound]
    for other in others:
        sounds += [np.zeros(int(BREATH_S * first.rate), np.float32), other.sound]
    return replace(
        first, sound=np.concatenate(sounds), notices=[notice for one in recordings for notice in one.notices]
    )


def shortened(recording: Recording, transcript: str | None, tell: Tell) -> tuple[Recording, str | None]:
    """A long clip cut at a pause, and its transcript at the same place."""
    sentences = None if transcript is None else list(split(transcript))
    ends = None if sentences is None else [piece.end / len(str(transcript)) for piece in sentences]
    cut = trim(recording.sound, recording.rate, ends)
    if cut.notice is None:
        return recording, transcript
    tell(Notice(cut.notice))
    if sentences is not None and cut.sentences is not None:
        transcript = " ".join(piece.text for piece in sentences[: cut.sentences])
    return replace(recording, sound=cut.sound), transcript


def of_clip(clip: Clip) -> Recording:
    """A Clip as a recording."""
    return Recording(clip.samples, clip.sample_rate, "the clip", clip.sample_rate, 1, clip.seconds)


def words_of(path: Path) -> str:
    """The transcript in a file."""
    try:
        return decode(files.read(path, files.LARGE, pipes=True), None, str(path)).strip()
    except OSError as error:
        raise InputError(f"cannot read transcript {path}: {(error.strerror or '').lower()}") from None


def cloned(found: Reference, model: "SpeechModel") -> Voice:
    """Returns the voice of the clip, for this model."""
    voices.require("cloned", model)
    cloner, recording, transcript = model.cloner, found.recording, found.transcript
    assert cloner is not None, "a model that clones can encode clips"
    sound = resample(recording.sound, recording.rate, model.facts.sample_rate)
    codes = cloner.codes(sound) if transcript is not None else None
    transcript = None if transcript is None else read_transcript(transcript, model)
    about = {
        "model": model.name,
        "revision": model.sha256 or "",
        "clip_sha256": hashlib.sha256(recording.sound.tobytes()).hexdigest(),
        "source": "clone",
    }
    clip = Clip(sound, model.facts.sample_rate, 0).encode("flac") if model.plain_letters else None
    identity = Cloned(cloner.embedding(sound), codes, transcript)
    return Voice(identity, about={k: v for k, v in about.items() if v}, clip=clip)
