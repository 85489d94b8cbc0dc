"""Read a book: files of any text format become one document in chapters; and which chapters are wanted."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.clean import clean, has_speech, safe_for_terminal
from omnitts_cli.text.decode import decode
from omnitts_cli.text.formats.block import LARGEST_DOCUMENT, Document, Section
from omnitts_cli.text.formats.chapters import sections_of, text_blocks
from omnitts_cli.text.formats.epub import epub_document
from omnitts_cli.text.formats.markdown import front_fields, markdown_blocks
from omnitts_cli.text.inputs import InputFormat, blocks_of, input_format

RANGE = re.compile(r"(\d{1,6})?(-)?(\d{1,6})?")


def read_book(
    sources: Iterable[tuple[str, bytes]], form: str, encoding: str | None, level: int | None, *, lines: bool
) -> Document:
    """One document of all files, each given by its name and bytes. A file without headings is a chapter; its name is
    the title. `lines`: line ends count, as in a play.
    """
    found, names = Document(), []
    for name, data in sources:
        names.append(name)
        one = read_file(name, data, input_format(name, form), encoding, level, lines)
        found = replace(
            one,
            title=found.title or one.title,
            author=found.author or one.author,
            language=found.language or one.language,
            cover=found.cover or one.cover,
            sections=found.sections + one.sections,
            notices=found.notices + one.notices,
        )
    found.sections = [one for one in found.sections if any(has_speech(block.text) for block in one.blocks)]
    if not found.sections:
        raise InputError(f"nothing to speak in {', '.join(names)}", hint=f"omnitts say -f {names[0]} --dry-run")
    return found


def read_file(
    name: str, data: bytes, form: InputFormat, encoding: str | None, level: int | None, lines: bool
) -> Document:
    if form == "epub":
        return epub_document(BytesIO(data), name, level)
    if len(data) > LARGEST_DOCUMENT:
        raise InputError(f"{name} is larger than {LARGEST_DOCUMENT >> 20} MiB", hint="split it into several files")
    found = Document()
    if form == "text":
        blocks = text_blocks(clean(decode(data, encoding, name)))
    elif form == "md":
        text = clean(decode(data, encoding, name))
        fields = front_fields(text)
        found.title, found.author = fields.get("title", ""), fields.get("author", "")
        found.language = fields.get("lang", fields.get("language", ""))
        blocks = list(markdown_blocks(text, lines=lines))
    else:
        blocks = list(blocks_of(BytesIO(data), form, encoding, name, found.notices))
    title, found.sections = sections_of(blocks, level)
    found.title = found.title or title
    if len(found.sections) == 1 and not any(block.level for block in found.sections[0].blocks):
        found.sections[0].title = Path(name).stem
    return found


def chosen(sections: Sequence[Section], wanted: str | None) -> list[tuple[int, Section]]:
    """The chapters of `--chapters 1-3,7`, in the order of the book, each with its number."""
    numbered = list(enumerate(sections, 1))
    if wanted is None:
        return numbered
    numbers: set[int] = set()
    for part in wanted.split(","):
        found = RANGE.fullmatch(part.strip())
        if not found or not (found[1] or found[3]):
            raise UsageError(
                f"--chapters {safe_for_terminal(wanted, 80)}: '{part.strip()[:40]}' is not a chapter or a range",
                hint="--chapters 1-3,7",
            )
        first = int(found[1] or 1)
        last = int(found[3]) if found[3] else len(sections) if found[2] else first
        if first > last and found[3]:
            raise UsageError(
                f"--chapters {part.strip()}: the range ends before it begins", hint=f"--chapters {last}-{first}"
            )
        if not 1 <= first <= last <= len(sections):
            raise UsageError(
                f"--chapters {part.strip()}: the book has {len(sections)} chapter{'s' * (len(sections) != 1)}",
                hint=f"--chapters 1-{len(sections)}   (--list-chapters shows them)",
            )
        numbers |= set(range(first, last + 1))
    return [(number, section) for number, section in numbered if number in numbers]
