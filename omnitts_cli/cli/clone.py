"""omnitts clone: speak text in a voice like that of a clip."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from omnitts_cli.audio.magic import is_recording
from omnitts_cli.cli import sound_out
from omnitts_cli.cli.job import Job
from omnitts_cli.cli.text_in import as_meant, instead_of
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.settings.commands import Clip
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import TextIn
from omnitts_cli.speech import reference as references
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.reference import Reference
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import Voice
from omnitts_cli.terminal.console import console


def clone(job: Job, clip: Clip) -> None:
    """Speak text in a voice like that of a clip."""
    words, text = as_meant(job.words, job.text)
    if words and not clip.ref_audio and is_recording(Path(words[0])):
        meant = f"omnitts clone -r {shlex.quote(words[0])} " + (shlex.join(words[1:]) or '"text"')
        raise UsageError(f"-r is missing before the clip {words[0]}", hint=meant)
    refuse_contradictions(clip, text, job.speech.voice)
    sound_out.refuse_overwriting(job.output, clip.ref_audio)
    reference = read(clip, job.output.asr_model, offline=job.opener.network.offline)
    job = replace(job, words=words, text=text, keeps_voice=clip.save_voice is not None)
    with job.opened("base") as ready:
        if ready:
            tell_without(reference, ready.tts.engine.model.name)
            voice = ready.tts.clone(reference)
            if clip.save_voice:
                keep(voice, clip, ready.tts)
            ready.speak(voice, job.speech)


def refuse_contradictions(clip: Clip, text: TextIn, voice: str | None, command: str = 'clone "text"') -> None:
    refuse_transcripts(clip)
    if not clip.ref_audio:
        needing = command.removesuffix(' "text"')
        raise UsageError(f"{needing} needs a reference clip", hint=f"omnitts {command} -r CLIP")
    if len(clip.ref_audio) > 1 and (clip.ref_start, clip.ref_end) != (None, None):
        raise UsageError("--ref-start and --ref-end need a single clip", hint="give -r once")
    if clip.ref_audio.count("-") > 1:
        raise UsageError("stdin can be read only once", hint="give -r - once")
    if "-" in clip.ref_audio and "-" in text.file:
        raise UsageError("stdin cannot be both the clip and the text", hint="give one of them as a file")
    if voice is not None:
        raise UsageError("use either --voice or a clip, not both", hint="omnitts say -v NAME   or leave -v out")
    if clip.save_voice:
        voice_files.check_free(clip.save_voice)


def refuse_transcripts(clip: Clip) -> None:
    if clip.transcribe and clip.ref_text:
        raise UsageError("use either --ref-text or --transcribe, not both", hint="leave one of them out")
    if clip.ref_audio and len(clip.ref_text) not in (0, 1, len(clip.ref_audio)):
        count = f"{len(clip.ref_audio)} clips and {len(clip.ref_text)} texts"
        raise UsageError(f"{count} do not match", hint="give one --ref-text for each -r, or one for all")


def transcript_of(clip: Clip) -> str | None:
    """The transcript of the clip or clips; None if there is none."""
    return " ".join(map(words_of, clip.ref_text)) if clip.ref_text else None


def words_of(given: str) -> str:
    """One --ref-text."""
    words = references.words_of(Path(given[1:])) if given.startswith("@") else given
    if not words.strip():
        raise InputError(
            "the transcript of the clip is empty", hint="give the words of the clip, or leave --ref-text out"
        )
    return words


def read(clip: Clip, asr_model: str | None = None, *, offline: bool = False) -> Reference:
    """The clip and its transcript, with warnings about them."""
    for name in clip.ref_audio:
        if name != "-" and not os.path.exists(name):
            raise InputError(f"reference clip {name} not found", hint=instead_of(name, "-r"))
    return references.reference(
        clip.ref_audio,
        transcript_of(clip),
        start=clip.ref_start,
        end=clip.ref_end,
        pad=clip.ref_pad,
        check=clip.check,
        transcribe=clip.transcribe,
        asr_model=asr_model,
        offline=offline,
        stdin=sys.stdin.buffer if "-" in clip.ref_audio and sys.stdin else None,
        tell=console.notice,
    )


def tell_without(reference: Reference, model: str) -> None:
    """A transcript makes no difference to the embedded model."""
    if reference.transcript is None and model != EMBEDDED:
        console.note("no --ref-text: cloning from audio only; a transcript can improve similarity")


def keep(voice: Voice, clip: Clip, tts: TTS) -> None:
    """--save-voice."""
    name = str(clip.save_voice)
    if name in tts.engine.model.speakers:
        warn_of_namesake(tts.engine.model.name, name, f"omnitts voices rm {name}")
    path = voice.save(name, consent=clip.consent)
    console.note(f"saved voice '{name}' to {path}")


def warn_of_namesake(model: str, name: str, undo: str) -> None:
    """A saved voice was given the name of one of the model's own."""
    console.warning(
        f"{model} has a voice '{name}' too; -v {name} now selects the saved one", hint=f"{undo}   undoes it"
    )
