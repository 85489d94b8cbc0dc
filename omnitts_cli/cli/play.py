"""omnitts play: speak live, through the loudspeaker, while the text is still arriving."""

from __future__ import annotations

from dataclasses import replace

from omnitts_cli.cli import sound_out
from omnitts_cli.cli.declare import Words
from omnitts_cli.cli.job import Job
from omnitts_cli.cli.say import speak
from omnitts_cli.errors import UsageError
from omnitts_cli.settings.commands import Live
from omnitts_cli.settings.table import Intent, Machine, Messages, Network, Results, Speech, TextIn


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
