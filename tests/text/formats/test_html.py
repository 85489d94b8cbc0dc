"""Pages: paragraphs, skipped parts, and nothing that could fail."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.text.formats.html import html_blocks


def texts(page: str) -> list[str]:
    return [block.text for block in html_blocks(page)]


def test_paragraphs_and_entities() -> None:
    page = (
        "<head><title>T</title></head><body><h1>One&nbsp;&amp;</h1><p>two<br>lines</p>loose<div>more <b>bold</b>.</div>"
    )
    assert texts(page) == ["One &", "two\nlines", "loose", "more bold."]


def test_scripts_styles_and_readings_are_skipped() -> None:
    assert texts("<script>x()</script><p>漢<ruby>字<rt>じ</rt></ruby></p><style>p{}</style>") == ["漢字"]


def test_table_cells_are_separated() -> None:
    assert texts("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>") == ["a, b", "c"]


@given(
    st.lists(st.sampled_from(["<p>", "</p>", "<script>", "</script>", "x", "<", "&#x110000;", "<!--", "]]>", "<br/>"]))
)
def test_nothing_fails(parts: list[str]) -> None:
    assert all(text.strip() for text in texts("".join(parts)))
