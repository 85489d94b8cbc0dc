"""omnitts say: speak text. omnitts play: speak live, through the loudspeaker, while the text is still arriving."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from omnitts_cli.cli import sound_out
from omnitts_cli.cli.declare import Words
from omnitts_cli.cli.job import Job
from omnitts_cli.cli.sound_out import make_folder
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.table import Folder, Intent, Live, Machine, Messages, Network, Results, Speech, TextIn

NO_FOLDER = Folder()


def say(
    text: TextIn,
    speech: Speech,
    output: Results,
    machine: Machine,
    intent: Intent,
    network: Network,
    messages: Messages,
    folder: Folder = NO_FOLDER,
    words: Words = None,
) -> None:
    """Speak text.

    \b
    omnitts say "Hello there"
    git log --oneline -5 | omnitts say --play
    omnitts say -f book.md -o book.flac
    omnitts say -f one.txt -f two.txt -O sounds
    cat book.txt | omnitts say -o - | ffmpeg -i - book.opus
    """
    if folder.output_dir is None:
        return speak(Job("say", words, text, speech, output, machine, network, messages))
    refuse_contradictions(output)
    texts = tuple(replace(text, file=(name,)) for name in text.file) or (text,)
    outputs = tuple(outputs_of(Path(folder.output_dir), texts, output))
    speak(
        Job(
            "say", words, texts[0], speech, outputs[0], machine, network, messages,
            takes=outputs, texts=texts, names_outputs=True,
        )
    )  # fmt: skip


def refuse_contradictions(output: Results) -> None:
    if output.output:
        raise UsageError("use either --output or --output-dir, not both", hint="leave one of them out")
    if output.subs or output.codes:
        raise UsageError(
            "--subs and --codes are for one output", hint="omnitts say -f FILE -o FILE.wav --subs FILE.srt"
        )


def outputs_of(folder: Path, texts: Sequence[TextIn], output: Results) -> Iterator[Results]:
    """A sound file in the folder for each input, of its name; two of one name are numbered."""
    if not output.dry_run:
        make_folder(folder)
    taken: Counter[str] = Counter()
    for text in texts:
        stem = "speech" if text.file in ((), ("-",)) else Path(text.file[0]).stem
        taken[stem] += 1
        name = stem if taken[stem] == 1 else f"{stem}-{taken[stem]}"
        yield replace(output, output=str(folder / f"{name}.{output.format or 'wav'}"), play=False)


def speak(job: Job) -> None:
    """Speaks in a voice of the model or in a saved voice, which selects its own model."""
    from omnitts_cli.speech.voice_files import model_of
    from omnitts_cli.speech.voices import saved_voice

    saved = saved_voice(job.speech.voice)
    variant, model = "base" if saved else "custom_voice", None
    if saved and job.speech.model is None:
        model = model_of(saved.about, saved.name)
    with job.opened(variant, model) as ready:
        if ready:
            ready.speak(saved or job.speech.voice, job.speech.style)


def play(
    live: Live,
    text: TextIn,
    speech: Speech,
    output: Results,
    machine: Machine,
    intent: Intent,
    network: Network,
    messages: Messages,
    words: Words = None,
) -> None:
    """Speak live: standard input as it arrives, a file, or words. Space pauses, q stops.

    \b
    tail -f app.log | grep --line-buffered ERROR | omnitts play
    omnitts play -f book.txt
    some-language-model | omnitts play --live
    """
    if output.audio_device == "list":
        return sound_out.list_speakers()
    if output.play is False:
        raise UsageError("play cannot be used with --no-play", hint="omnitts say --no-play")
    if output.output == "-":
        raise UsageError("play cannot write to standard output", hint="omnitts say -o -")
    speak(Job("play", words, text, speech, replace(output, play=True), machine, network, messages, live.live))
