"""Pages: paragraphs, skipped parts, and nothing that could fail."""

import pytest
from growth import grows_linearly
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.text.formats.html import html_blocks


def texts(page: str) -> list[str]:
    return [block.text for block in html_blocks(page)]


PAGES = {
    "paragraphs and entities": (
        "<head><title>T</title></head><body><h1>One&nbsp;&amp;</h1><p>two<br>lines</p>loose<div>more <b>bold</b>",
        ["One &", "two\nlines", "loose", "more bold"],
    ),
    "scripts, styles and readings": (
        "<script>x()</script><p>漢<ruby>字<rt>じ</rt></ruby></p><style>p{}</style>", ["漢字"],
    ),
    "what a page hides": (
        '<p hidden>One.</p><div style="color: red; display: none">Two.</div><p aria-hidden="true">Three.</p>'
        '<span style="visibility:hidden">Four.</span><p aria-hidden="false" style="display:block">Shown.</p>',
        ["Shown."],
    ),
    "a body that a script shows": ('<body style="display:none"><p>Shown.</p></body>', ["Shown."]),
    "hidden paragraphs without an end": (
        "<p hidden>One.<p>Shown.<p hidden>Two.<div>Also shown.</div>", ["Shown.", "Also shown."],
    ),
    "form controls": (
        "Size: <select><option>Small<option>Large</select><button>Buy</button><noscript>No script.</noscript> now.",
        ["Size: now."],
    ),
    "cells of a table": (
        "<table>\n <tr>\n <td>a</td>\n <td>b</td>\n </tr>\n <tr><th></th><td>c</td></tr><tr><td>d</td></tr></table>",
        ["a, b", "c", "d"],
    ),
    "a tag without an end": ("<p>one <a b", ["one <a b"]),
    "a comment without an end": ("<p>one <!-- two", ["one <!-- two"]),
    "character data": ("<p>one <![CDATA[ <b> ]]>two", ["one two"]),
    "a condition": ("<p>one <![if x]>two<![endif]>", ["one two"]),
    "less than": ("a < b<p>c", ["a < b", "c"]),
    "code blocks and notes": (
        '<p>Words<sup><a href="#n1">1</a></sup> go on<a epub:type="noteref" href="#n2">2</a>.</p>'
        "<pre><code>x = 1</code></pre><p>Inline <code>x</code> stays.</p>"
        '<aside epub:type="footnote"><p>The note.<a href="#r1">↩</a></p></aside>'
        '<section role="doc-endnotes"><section>Deep.</section><p>More notes.</p></section><p>End.↩</p>',
        ["Words go on.", "Inline x stays.", "End."],
    ),
    "powers, which are not footnotes": (
        "<p>10<sup>6</sup> and x<sup>2</sup>, the 5<sup>th</sup>, said<sup>3</sup>.</p>",
        ["10^6 and x^2, the 5th, said."],
    ),
    "pictures and struck words": (
        '<p>See <img alt="A cat on a mat" src="a.png">. <img alt="" src="b.png">Not <s>it</s> <del>x</del>that.</p>',
        ["See A cat on a mat. Not that."],
    ),
    "a hidden picture": ('<p>One<img alt="no" hidden src="a.png"> two.</p>', ["One two."]),
}  # fmt: skip


@pytest.mark.parametrize("what", PAGES)
def test_what_is_spoken_of_a_page(what: str) -> None:
    page, spoken = PAGES[what]
    assert texts(page) == spoken


PARTS = ["<p>", "</p>", "<script>", "</script>", "x", "<", "&#x110000;", "<!--", "]]>", "<br/>", "<![", "<!"]


@given(st.lists(st.sampled_from(PARTS)))
def test_nothing_fails(parts: list[str]) -> None:
    assert all(text.strip() for text in texts("".join(parts)))


HOSTILE = ["<a ", "<!--", "<![", "<!", "</a ", "<?x ", '<a b="', "&#", "<sup>1</sup>x", "<td>a", "<p", "<![CDATA["]


@pytest.mark.parametrize("end", ["", ">", "-->"])
@pytest.mark.parametrize("part", HOSTILE)
def test_time_grows_with_the_page_alone(part: str, end: str) -> None:
    """Tags, comments and cells without an end; 6,600 times `<a ` once took four seconds."""
    grows_linearly(lambda count: texts(part * count + end), 2_000, 20_000)


def test_links_are_never_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("builtins.open", lambda *given, **_: opened.append(given))
    monkeypatch.setattr("socket.socket", lambda *given, **_: opened.append(given))
    page = '<p>words<img src="file:///etc/passwd"></p><iframe src="http://127.0.0.1:9/">x</iframe><object data="x"/>'
    assert texts(page)[0] == "words" and opened == []
