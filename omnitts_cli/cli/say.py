"""omnitts say: speak text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnitts_cli.cli.declare import Words
from omnitts_cli.cli.job import Job, VoiceOf
from omnitts_cli.settings.table import Intent, Machine, Messages, Network, Results, Speech, TextIn
from omnitts_cli.speech import voices as cast

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
    job = Job("say", words, text, speech, output, machine, network, messages)
    voice, variant, model = voice_for(speech)
    job.perform(voice, variant=variant, model=model, style=speech.style)


def voice_for(speech: Speech) -> tuple[VoiceOf, str, str | None]:
    """Who speaks, the variant of a bare size that can, and the model that a saved voice brings along."""
    saved = cast.saved_voice(speech.voice)
    if saved is None:
        return (lambda engine: cast.named_voice(speech.voice, engine.model)), "custom_voice", None

    def voice(engine: Engine) -> Voice:
        cast.check_match(saved, engine.model)
        return saved.voice

    return voice, "base", saved.about.get("model")
