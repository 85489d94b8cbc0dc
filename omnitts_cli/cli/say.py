"""omnitts say: speak text."""

from __future__ import annotations

from omnitts_cli.cli.declare import Words
from omnitts_cli.cli.job import Job
from omnitts_cli.settings.table import Intent, Machine, Messages, Network, Results, Speech, TextIn


def say(
    text: TextIn,
    speech: Speech,
    output: Results,
    machine: Machine,
    intent: Intent,
    network: Network,
    messages: Messages,
    words: Words = None,
) -> None:
    """Speak text.

    \b
    omnitts say "Hello there"
    git log --oneline -5 | omnitts say --play
    omnitts say -f book.md -o book.flac
    cat book.txt | omnitts say -o - | ffmpeg -i - book.opus
    """
    speak(Job("say", words, text, speech, output, machine, network, messages))


def speak(job: Job) -> None:
    """The job in a voice of the model, or in a saved one, which brings its own model along."""
    from omnitts_cli.speech.voice_files import model_of
    from omnitts_cli.speech.voices import saved_voice

    saved = saved_voice(job.speech.voice)
    variant, model = "base" if saved else "custom_voice", None
    if saved and job.speech.model is None:
        model = model_of(saved.about, saved.name)
    with job.opened(variant, model) as ready:
        if ready:
            ready.speak(saved or job.speech.voice, job.speech.style)
