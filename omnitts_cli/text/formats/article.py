"""The article of a web page, without what surrounds it, found by trafilatura, which is imported here and late."""

from collections.abc import Iterator

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.formats.block import Block
from omnitts_cli.text.formats.html import html_blocks


def article_blocks(text: str, name: str) -> Iterator[Block]:
    """The blocks of the article in an HTML page; InputError if there is none."""
    return html_blocks(article_of(text, name))


def article_of(text: str, name: str) -> str:
    """The article as HTML."""
    try:
        from trafilatura import extract
    except ImportError:
        raise UsageError(
            "--input-format article needs trafilatura, which is not installed",
            hint="pip install trafilatura   or   --input-format html, which reads the whole page",
        ) from None
    found = extract(text, output_format="html", include_comments=False, include_links=False)
    if not found:
        raise InputError(f"no article was found in {name}", hint="--input-format html   reads the whole page")
    return str(found)
