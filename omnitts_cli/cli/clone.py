"""omnitts clone: speak text in the voice of a clip."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli.cli import sound_out
from omnitts_cli.cli.declare import Words
from omnitts_cli.cli.job import Job
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.settings.commands import Clip
from omnitts_cli.settings.table import Intent, Machine, Messages, Network, Results, Speech, TextIn
from omnitts_cli.speech import normalize as reading
from omnitts_cli.speech import voice_files
from omnitts_cli.speech import voices as cast
from omnitts_cli.speech.voice_files import SavedVoice
from omnitts_cli.terminal.console import console

if TYPE_CHECKING:
    from omnitts_cli.audio.read import Recording
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.voices import Cloned, Voice


BREATH_S = 0.2


def clone(
    clip: Clip,
    text: TextIn,
    speech: Speech,
    output: Results,
    machine: Machine,
    intent: Intent,
    network: Network,
    messages: Messages,
    words: Words = None,
) -> None:
    """Speak text in the voice of a clip.

    \b
    omnitts clone -r me.wav "Good morning"
    omnitts clone -r me.wav --ref-text "what I said" "Good morning" --save-voice me -o hi.wav
    """
    from omnitts_cli.cli.text_in import as_meant

    words, text = as_meant(words, text)
    refuse_contradictions(clip, text, speech.voice)
    for name in clip.ref_audio:
        sound_out.refuse_same(output, name)
    recording, transcript = hear(clip, transcript_of(clip), offline=network.offline)

    def voice(engine: Engine) -> Voice:
        tell_without(transcript)
        heard = cloned(engine, recording, transcript)
        if clip.save_voice:
            keep(heard, clip, engine, recording)
        return heard

    job = Job("clone", words, text, speech, output, machine, network, messages)
    job.perform(voice, variant="base", style=speech.style)


def refuse_contradictions(clip: Clip, text: TextIn, voice: str | None, command: str = 'clone "text"') -> None:
    if not clip.ref_audio:
        raise UsageError("no clip to hear the voice in", hint=f"omnitts {command} -r CLIP")
    if clip.transcribe and clip.ref_text:
        raise UsageError("--ref-text and --transcribe exclude each other", hint="leave one of them out")
    if len(clip.ref_text) not in (0, 1, len(clip.ref_audio)):
        count = f"{len(clip.ref_audio)} clips and {len(clip.ref_text)} texts"
        raise UsageError(f"{count} do not belong together", hint="one --ref-text for each -r, or one for all")
    if len(clip.ref_audio) > 1 and (clip.ref_start, clip.ref_end) != (None, None):
        raise UsageError("--ref-start and --ref-end are for one clip", hint="give -r once")
    if clip.ref_audio.count("-") > 1:
        raise UsageError("stdin can be read only once", hint="give -r - once")
    if "-" in clip.ref_audio and "-" in text.file:
        raise UsageError("stdin cannot be both the clip and the text", hint="give one of them as a file")
    if voice is not None:
        raise UsageError("--voice and a clip exclude each other", hint="omnitts say -v NAME, or leave -v out")
    if clip.save_voice:
        voice_files.check_name(clip.save_voice)
        if clip.save_voice in voice_files.names():
            raise voice_files.exists(clip.save_voice)


def transcript_of(clip: Clip) -> str | None:
    """The words of the clip, or of all clips; None without them."""
    return " ".join(map(words_of, clip.ref_text)) if clip.ref_text else None


def words_of(given: str) -> str:
    """One --ref-text."""
    words = given
    if given.startswith("@"):
        from omnitts_cli.text.decode import decode

        path = Path(given[1:])
        try:
            words = decode(path.read_bytes(), None, str(path)).strip()
        except OSError as error:
            raise InputError(f"cannot read transcript {path}: {(error.strerror or '').lower()}") from None
    if not words.strip():
        raise InputError("the transcript of the clip is empty", hint="leave --ref-text out, or give the words")
    return words


def hear(clip: Clip, transcript: str | None, *, offline: bool = False) -> tuple[Recording, str | None]:
    """The clip as sound and the words that belong to it, with everything doubtful about them said."""
    from omnitts_cli.audio.check import check_clip, check_transcript
    from omnitts_cli.text.split import columns

    recording = recorded(clip)
    doubts = list(recording.notices)
    if clip.transcribe:
        from omnitts_cli.speech.transcribe import transcribe

        transcript = transcribe(recording.sound, recording.rate, offline=offline)
    if clip.check:
        doubts += check_clip(recording)
        if transcript is not None:
            doubts += check_transcript(columns(transcript, 0, len(transcript)), recording.seconds)
    for doubt in doubts:
        console.warning(doubt)
    recording, transcript = shortened(recording, transcript)
    return padded(recording, clip.ref_pad), transcript


def recorded(clip: Clip) -> Recording:
    """The clip; several are one after another, with a breath between them."""
    import numpy as np

    from omnitts_cli.audio.read import read_clip

    stdin = sys.stdin.buffer if "-" in clip.ref_audio and sys.stdin else None
    all_of_them = [read_clip(name, start=clip.ref_start, end=clip.ref_end, stdin=stdin) for name in clip.ref_audio]
    first, *others = all_of_them
    if not others:
        return first
    sounds = [first.sound]
    for other in others:
        sounds += [np.zeros(int(BREATH_S * first.rate), np.float32), other.sound]
    notices = [notice for one in all_of_them for notice in one.notices]
    return replace(first, sound=np.concatenate(sounds), notices=notices)


def padded(recording: Recording, seconds: float) -> Recording:
    """--ref-pad: some voices end the clip's last sound in the first of their own."""
    import numpy as np

    return (
        replace(recording, sound=np.pad(recording.sound, (0, int(seconds * recording.rate)))) if seconds else recording
    )


def shortened(recording: Recording, transcript: str | None) -> tuple[Recording, str | None]:
    """A long clip cut at a pause, and its transcript at the same place."""
    from omnitts_cli.audio.trim import trim
    from omnitts_cli.text.split import split

    sentences = None if transcript is None else list(split(transcript))
    ends = None if sentences is None else [piece.end / len(str(transcript)) for piece in sentences]
    cut = trim(recording.sound, recording.rate, ends)
    if cut.notice is None:
        return recording, transcript
    console.warning(cut.notice)
    if sentences is not None and cut.sentences is not None:
        transcript = " ".join(piece.text for piece in sentences[: cut.sentences])
    return replace(recording, sound=cut.sound), transcript


def tell_without(transcript: str | None) -> None:
    if transcript is None:
        console.note("no --ref-text: the voice is taken from its sound alone")


def cloned(engine: Engine, recording: Recording, transcript: str | None) -> Cloned:
    """The voice heard in the clip."""
    from omnitts_cli.audio.resample import resample
    from omnitts_cli.voices import Cloned

    cloner = engine.model.cloner
    cast.require("cloned", engine.model)
    assert cloner is not None, "a model of cloned voices hears clips"
    sound = resample(recording.sound, recording.rate, engine.model.facts.sample_rate)
    codes = cloner.codes(sound) if transcript is not None else None
    transcript = None if transcript is None else reading.transcript(transcript, engine.model)
    return Cloned(cloner.embedding(sound), codes, transcript)


def keep(voice: Cloned, clip: Clip, engine: Engine, recording: Recording) -> None:
    """--save-voice."""
    import hashlib
    import time

    about = {
        "model": engine.model.name,
        "revision": engine.model.sha256 or "",
        "made": time.strftime("%Y-%m-%d", time.gmtime()),
        "clip_sha256": hashlib.sha256(recording.sound.tobytes()).hexdigest(),
        "consent": clip.consent or "",
        "source": "clone",
    }
    if clip.save_voice in engine.model.speakers:
        console.warning(
            f"'{clip.save_voice}' is a voice of {engine.model.name} too; -v {clip.save_voice} is the saved one now",
            hint=f"omnitts voices rm {clip.save_voice} undoes it",
        )
    path = voice_files.save(SavedVoice(str(clip.save_voice), voice, {k: v for k, v in about.items() if v}))
    console.note(f"voice '{clip.save_voice}' is kept in {path}")
