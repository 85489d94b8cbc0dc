"""omnitts design: speak text in a voice made from a description."""

from __future__ import annotations

from omnitts_cli.cli.job import Job
from omnitts_cli.cli.options import Intent, Machine, Network, Results, Speech, Telling, TextIn, Words
from omnitts_cli.errors import UsageError


def design(
    text: TextIn,
    speech: Speech,
    output: Results,
    machine: Machine,
    intent: Intent,
    network: Network,
    telling: Telling,
    words: Words = None,
) -> None:
    """Speak text in a voice made from a description.

    \b
    omnitts design -i "elderly storyteller, slow, warm" "Once upon a time" -o tale.wav
    """
    from omnitts_cli.voices import Designed

    if speech.instruct is None:
        raise UsageError("no description of the voice", hint='-i "a deep, calm voice"')
    if speech.voice is not None:
        raise UsageError("--voice and a description exclude each other", hint="omnitts say -v NAME, or leave -v out")
    description = Designed(speech.instruct)
    job = Job("design", words, text, speech, output, machine, network, telling)
    job.perform(lambda engine: description, variant="voice_design")
