"""Markdown: words without marks, by the stated rule for code, tables and links."""

import tracemalloc

import pytest
from growth import grows_linearly

from omnitts_cli.text.formats.markdown import front_fields, markdown_blocks


def texts(source: str) -> list[str]:
    return [block.text for block in markdown_blocks(source)]


@pytest.mark.parametrize(("source", "spoken"), [
    ("# A *title*\n\nSome **bold** and `code` and [a link](http://x.y/z).\nSame line.",
     ["A title", "Some bold and code and a link. Same line."]),
    ("- one\n- two\n  - three\n\n> quoted\n\n![a cat](cat.png)", ["one", "two", "three", "quoted", "a cat"]),
    ("```python\nx = 1\n```\n\n    indented\n\n<div>html</div>\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend",
     ["a, b", "1, 2", "end"]),
    ("one  \ntwo", ["one\ntwo"]), ("Term<br>break", ["Term\nbreak"]), ("Term<br/>break", ["Term\nbreak"]),
    ("A ==marked== word.", ["A marked word."]), ("If a ==b then c==d.", ["If a ==b then c==d."]),
    ("`==x==` stays.", ["==x== stays."]), ("Not ~~this~~ that.", ["Not  that."]),
    ("---\ntitle: My doc\ntags: [a, b]\n---\n\n# Title\n\nWords.", ["Title", "Words."]),
    ("+++\ntitle = 'x'\n+++\nWords.", ["Words."]), ("---\ntitle: no end\n", ["title: no end"]),
    ("---\n\nTwo rules.\n\n---\n\nMore.", ["Two rules.", "More."]),
    ("Text[^1] goes on[^note].\n\n- [ ] todo\n- [x] done\n- [link](x) stays\n\n[^1]: The note.\n    More.\n\nEnd.",
     ["Text goes on.", "todo", "done", "link stays", "End."]),
])  # fmt: skip
def test_marks_leave_and_words_stay(source: str, spoken: list[str]) -> None:
    """Code is skipped, tables are read by row, front matter and notes are not read aloud."""
    assert texts(source) == spoken


@pytest.mark.parametrize(
    ("part", "count"), [("[", 50_000), ("*a", 50_000), ("> ", 20_000), ("`", 50_000), ("- ", 5_000), ("![", 30_000)]
)
def test_hostile_nesting_is_harmless(part: str, count: int) -> None:
    """Ten times the text takes about ten times the processor time."""
    grows_linearly(lambda count: list(markdown_blocks(part * count + "x")), count // 10, count)


@pytest.mark.parametrize(
    "authors", ["Ann Lee, Bob", '["Ann Lee", Bob]', "\n  - Ann Lee\n  - 'Bob'", "\n- Ann Lee\n- Bob"]
)
def test_authors_may_be_a_list(authors: str) -> None:
    text = f"---\ntitle: 'My doc'\nauthor: {authors}\nlang: en\n---\n\nWords."
    assert front_fields(text) == {"title": "My doc", "author": "Ann Lee, Bob", "lang": "en"}
    assert texts(text) == ["Words."]


def test_a_very_wide_table_does_not_grow_with_its_rows() -> None:
    columns, rows = 3_000, 300
    text = "|".join(["h"] * columns) + "\n" + "|".join(["-"] * columns) + "\n" + "word|\n" * rows
    tracemalloc.start()
    blocks = list(markdown_blocks(text))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20 and sum(block.text.count("word") for block in blocks) == rows
