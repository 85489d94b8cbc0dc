"""omnitts say: speak text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnitts_cli.cli import cast
from omnitts_cli.cli.job import Job
from omnitts_cli.cli.options import Intent, Machine, Network, Results, Speech, Telling, TextIn, Words

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.voices import Voice


def say(
    text: TextIn,
    speech: Speech,
    output: Results,
    machine: Machine,
    intent: Intent,
    network: Network,
    telling: Telling,
    words: Words = None,
) -> None:
    """Speak text.

    \b
    omnitts say "Hello there"
    git log --oneline -5 | omnitts say --play
    omnitts say -f book.md -o book.flac
    cat book.txt | omnitts say -o - | ffmpeg -i - book.opus
    """
    saved = cast.saved_voice(speech.voice)

    def voice(engine: Engine) -> Voice:
        if saved is None:
            return cast.named_voice(speech.voice, engine.model)
        cast.check_match(saved, engine.model)
        return saved.voice

    job = Job("say", words, text, speech, output, machine, network, telling)
    variant = "custom_voice" if saved is None else "base"
    job.perform(voice, variant=variant, model=saved and saved.about.get("model"), style=speech.instruct)
