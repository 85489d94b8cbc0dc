"""Parts of speech from context, for words of one class."""

from pathlib import Path

import pytest

from omnitts_cli.text.american import context
from omnitts_cli.text.american.context import FILE, Tagger, usual


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger(Path(context.__file__).parent / FILE)


@pytest.mark.parametrize(("sentence", "word", "tags"), [
    ("She wants to insult him .", "insult", "BP"), ("That was a terrible insult .", "insult", "N"),
    ("We export most of it .", "export", "BP"), ("The export of coffee fell .", "export", "N"),
    ("They will import the data .", "import", "BP"), ("An import needs a licence .", "import", "N"),
    ("Nobody can escort her home .", "escort", "BP"), ("The police escort arrived .", "escort", "N"),
])  # fmt: skip
def test_noun_or_verb(sentence: str, word: str, tags: str, tagger: Tagger) -> None:
    words = sentence.split()
    assert tagger.tag(words, words.index(word), "NBP") in tags


def test_usual_classes(tagger: Tagger) -> None:
    assert usual("zorkly", tagger.classes) == "R"
    assert usual("Zork", tagger.classes) == "N"
    assert usual("zorks", tagger.classes) == "NZ"
    assert usual(".", tagger.classes) == "."
