"""How long the speech of files will be: said before it begins, and asked about if it is more than --max-hours."""

import math
import os
from collections.abc import Iterable

from omnitts_cli.cli.text_in import opened
from omnitts_cli.errors import InputError
from omnitts_cli.settings.table import Messages, TextIn
from omnitts_cli.speech.speaking import estimated_s
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import estimate
from omnitts_cli.text.decode import TextDecoder
from omnitts_cli.text.formats.block import Block
from omnitts_cli.text.inputs import blocks_of, input_format

SAID_S = 600.0  # shorter speech is soon there
SAMPLE_BYTES = 1 << 16  # of a plain text, from which the length of the whole is estimated


def seconds_of_files(options: TextIn) -> float:
    """The estimated seconds of speech of the files of a command. A pipe counts nothing, as it may stay open."""
    return sum(seconds_of_file(name, options) for name in options.file if os.path.isfile(name))


def seconds_of_file(name: str, options: TextIn) -> float:
    form = input_format(name, options.input_format)
    with opened(name) as file:
        if form != "text":
            return seconds_of_blocks(blocks_of(file, form, options.encoding, name, []))
        head = file.read(SAMPLE_BYTES)
    share = len(head) / max(os.path.getsize(name), 1)
    return estimated_s(TextDecoder(options.encoding, name).feed(head)) / share if share else 0.0


def seconds_of_blocks(blocks: Iterable[Block]) -> float:
    return sum(block.pause_s or estimated_s(block.text) for block in blocks if block.pause_s or block.text)


def confirm(seconds: float, most_hours: float | str, messages: Messages) -> None:
    """Asks before more speech than --max-hours; without a terminal, raises InputError."""
    if isinstance(most_hours, str) or seconds <= most_hours * 3600:
        return
    hours = f"about {seconds / 3600:,.0f} hours of speech"
    if not messages.no_input and console.asks() and console.confirm(f"{hours}: continue?"):
        return
    raise InputError(
        f"the text makes {hours}; --max-hours allows {most_hours:g}",
        hint=f"--max-hours {math.ceil(seconds / 3600)}   or, for a book, --chapters 1-3",
    )


def tell(seconds: float, of: str = "") -> None:
    """Says how long the speech will be, if it is long. `of`: what is spoken, in words."""
    if seconds >= SAID_S:
        console.note(f"{of}{estimate(seconds)} of speech")
