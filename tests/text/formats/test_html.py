"""Pages: paragraphs, skipped parts, and nothing that could fail."""

from __future__ import annotations

import pytest
from growth import grows_linearly
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


def test_what_a_page_hides_is_skipped() -> None:
    page = (
        '<p hidden>One.</p><div style="color: red; display: none">Two.</div><p aria-hidden="true">Three.</p>'
        '<span style="visibility:hidden">Four.</span><p aria-hidden="false" style="display:block">Shown.</p>'
    )
    assert texts(page) == ["Shown."]
    assert texts('<body style="display:none"><p>Shown by a script.</p></body>') == ["Shown by a script."]
    assert texts("<p hidden>One.<p>Shown.<p hidden>Two.<div>Also shown.</div>") == ["Shown.", "Also shown."]


def test_form_controls_are_skipped() -> None:
    page = "Size: <select><option>Small<option>Large</select><button>Buy</button><noscript>No script.</noscript> now."
    assert texts(page) == ["Size: now."]


def test_table_cells_are_separated() -> None:
    assert texts("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>") == ["a, b", "c"]


@given(
    st.lists(
        st.sampled_from(
            ["<p>", "</p>", "<script>", "</script>", "x", "<", "&#x110000;", "<!--", "]]>", "<br/>", "<![", "<!"]
        )
    )
)
def test_nothing_fails(parts: list[str]) -> None:
    assert all(text.strip() for text in texts("".join(parts)))


HOSTILE = ["<a ", "<!--", "<![", "<!", "</a ", "<?x ", '<a b="', "&#", "<sup>1</sup>x", "<td>a", "<p", "<![CDATA["]


@pytest.mark.parametrize("end", ["", ">", "-->"])
@pytest.mark.parametrize("part", HOSTILE)
def test_time_grows_with_the_page_alone(part: str, end: str) -> None:
    """Tags, comments and cells without an end; 6,600 times `<a ` once took four seconds."""
    grows_linearly(lambda count: texts(part * count + end), 2_000, 20_000)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one <a b", "one <a b"), ("<p>one <!-- two", "one <!-- two"), ("<p>one <![CDATA[ <b> ]]>two", "one two"),
        ("<p>one <![if x]>two<![endif]>", "one two"), ("a < b<p>c", "a < b"),
    ],
)  # fmt: skip
def test_what_has_no_end_is_text(page: str, text: str) -> None:
    assert texts(page)[0] == text


def test_code_blocks_and_notes_are_not_read_aloud() -> None:
    page = (
        '<p>Words<sup><a href="#n1">1</a></sup> go on<a epub:type="noteref" href="#n2">2</a>.</p>'
        "<pre><code>x = 1</code></pre><p>Inline <code>x</code> stays.</p>"
        '<aside epub:type="footnote"><p>The note.<a href="#r1">↩</a></p></aside>'
        '<section role="doc-endnotes"><section>Deep.</section><p>More notes.</p></section><p>End.↩</p>'
    )
    assert texts(page) == ["Words go on.", "Inline x stays.", "End."]


def test_powers_are_not_notes() -> None:
    assert texts("<p>10<sup>6</sup> and x<sup>2</sup>, the 5<sup>th</sup>, said<sup>3</sup>.</p>") == [
        "10^6 and x^2, the 5th, said."
    ]


def test_a_table_row_does_not_begin_with_a_comma() -> None:
    page = "<table>\n <tr>\n  <td>a</td>\n  <td>b</td>\n </tr>\n <tr><th></th><td>c</td></tr></table>"
    assert texts(page) == ["a, b", "c"]


def test_links_are_never_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("builtins.open", lambda *given, **_: opened.append(given))
    monkeypatch.setattr("socket.socket", lambda *given, **_: opened.append(given))
    page = '<p>words<img src="file:///etc/passwd"></p><iframe src="http://127.0.0.1:9/">x</iframe><object data="x"/>'
    assert texts(page)[0] == "words" and opened == []


def test_a_picture_is_described_and_struck_words_are_not_spoken() -> None:
    page = '<p>See <img alt="A cat on a mat" src="a.png">. <img alt="" src="b.png">Not <s>it</s> <del>x</del>that.</p>'
    assert texts(page) == ["See A cat on a mat. Not that."]
    assert texts('<p>One<img alt="no" hidden src="a.png"> two.</p>') == ["One two."]
