"""omnitts design: speak text in a voice made from a description."""

import re
from dataclasses import replace
from pathlib import Path

from omnitts_cli.cli import clone, sound_out
from omnitts_cli.cli.job import Job
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.commands import Clip, Takes
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Results, Speech, TextIn
from omnitts_cli.speech import voice_files
from omnitts_cli.terminal.console import console

LONGEST_SOURCE = 500
KNOWN = frozenset(
    "man woman lady guy female male speaker person voice deep low low-pitched bass high high-pitched bright light"
    " slow calm unhurried leisurely fast quick rapid hurried slowly quickly rapidly pace manner hurry very"
    " british american english accent england america".split()
)
"""The words of the descriptions that the embedded model was trained on (`training/unnamed_speakers.py`)."""
LITTLE = frozenset("a an the and with without in at of from who speaks speaking speak use is that".split())
TAKE = re.compile(r"take-(\d{1,9})")


def design(job: Job, takes: Takes) -> None:
    """Speak text in a voice made from a description."""
    speech, output = job.speech, job.output
    refuse_contradictions(takes, job.text, speech, output, job.words)
    outputs = tuple(outputs_of(takes, output))
    job = replace(job, output=outputs[0], takes=outputs, names_outputs=takes.output_dir is not None)
    needed = takes.output_dir is not None and not output.dry_run
    with sound_out.folder_for_sound(Path(takes.output_dir or "."), needed=needed), job.opened("voice_design") as ready:
        if ready:
            tell_unknown(speech.style or "", ready.tts.engine.model.name)
            ready.speak(ready.tts.design(speech.style or ""), replace(speech, style=None))
    if takes.save_voice and not (output.dry_run or output.audio_device == "list"):
        clip = Clip(ref_audio=(str(outputs[0].output),), save_voice=takes.save_voice, check=False)
        reference = clone.read(clip)
        with job.opener.model(speech.model, "base") as tts:
            voice = tts.clone(reference)
            about = {**voice.about, "source": f"design: {speech.style}"[:LONGEST_SOURCE]}
            clone.keep(replace(voice, about=about), clip, tts)


def tell_unknown(description: str, model: str) -> None:
    """Names the words of a description that the embedded model was not trained on; they change the voice at random."""
    if model != EMBEDDED:
        return
    words = dict.fromkeys(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", description.lower()))
    unknown = [word for word in words if word not in {*KNOWN, *LITTLE}]
    if unknown:
        listed = ", ".join(f"'{word[:40]}'" for word in unknown[:5]) + ", ..." * (len(unknown) > 5)
        hint = "man, woman, deep, high, slow, fast, very, British, American; -m 1.7b understands much more"
        console.warning(f"{model} does not understand {listed} in a description", hint=hint)


def refuse_contradictions(takes: Takes, text: TextIn, speech: Speech, output: Results, words: list[str] | None) -> None:
    if speech.style is None:
        raise UsageError(
            "design needs a description of the voice", hint='omnitts design -i "a deep, calm voice" "text"'
        )
    if speech.voice is not None:
        raise UsageError("use either --voice or a description, not both", hint="omnitts say -v NAME   or leave -v out")
    if takes.output_dir and output.output:
        raise UsageError("use either --output or --output-dir, not both", hint="leave one of them out")
    if takes.candidates > 1 and not takes.output_dir:
        raise UsageError("--candidates needs --output-dir", hint=f"--candidates {takes.candidates} -O takes")
    if takes.candidates > 1 and (output.subs or output.codes):
        raise UsageError("--subs and --codes cannot be used with --candidates", hint="leave --candidates out")
    if takes.candidates > 1 and not words and text.file in ((), ("-",)):
        raise UsageError("--candidates needs its text as words or in a file", hint="-f FILE")
    if takes.save_voice:
        voice_files.check_free(takes.save_voice)
        if takes.candidates > 1 or output.output in (None, "-"):
            raise UsageError("--save-voice needs a single take in a file", hint="-o take.wav")


def outputs_of(takes: Takes, output: Results) -> list[Results]:
    """Where each take goes: take-1, take-2 and so on, after existing takes."""
    if takes.output_dir is None:
        return [output]
    folder = Path(takes.output_dir)
    there = [int(found[1]) for path in folder.glob("take-*") if (found := TAKE.fullmatch(path.stem))]
    first, suffix = max(there, default=0) + 1, output.format or "wav"
    names = [folder / f"take-{number}.{suffix}" for number in range(first, first + takes.candidates)]
    return [replace(output, output=str(name), no_clobber=True) for name in names]
