"""Articles of web pages: what surrounds them is not spoken."""

import sys
from types import SimpleNamespace

import pytest

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.formats.article import article_blocks

WORDS = "The kettle is on and the bread is still warm from the oven, and it has been raining all morning. "
PAGE = f"""<html><head><title>Rain</title></head><body><nav><a href="/">Home</a><a href="/s">Sport</a></nav>
<article><h1>Rain</h1><p>{WORDS * 4}</p><p>{WORDS * 3}</p></article>
<aside>Subscribe now!</aside><footer>Imprint</footer></body></html>"""


def test_only_the_article_is_spoken() -> None:
    pytest.importorskip("trafilatura")
    spoken = " ".join(block.text for block in article_blocks(PAGE, "page.html"))
    assert WORDS.strip() in spoken and not any(word in spoken for word in ("Sport", "Subscribe", "Imprint"))
    with pytest.raises(InputError) as found:
        list(article_blocks("<html></html>", "page.html"))
    assert found.value.hint


def test_what_was_found_is_read_as_html(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(extract=lambda text, **more: f"<p>{text.upper()}</p>")
    monkeypatch.setitem(sys.modules, "trafilatura", module)
    assert [block.text.strip() for block in article_blocks("one", "page.html") if block.text.strip()] == ["ONE"]


def test_without_the_library_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    with pytest.raises(UsageError, match="trafilatura"):
        article_blocks("one", "page.html")
