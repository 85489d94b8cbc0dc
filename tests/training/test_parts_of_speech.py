"""Training the tagger: words of several parts, usual tags, and a perceptron that learns from context."""

from pathlib import Path

from omnitts_cli.text.american.context import Tagger, write_tagger
from omnitts_cli.training.parts_of_speech import held_out, joined, perceptron, prose, word_classes

NOUN = [("the", "T"), ("record", "N"), ("was", "D"), ("new", "J"), (".", "X")]
VERB = [("they", "X"), ("record", "P"), ("the", "T"), ("song", "N"), (".", "X")]


def test_words_of_several_parts_have_their_usual_tags() -> None:
    tokens = [("Do", "VBP", False), ("n't", "RB", True), ("stop", "VB", False), (".", ".", False)]
    assert joined(tokens) == [("Don't", "P"), ("stop", "B"), (".", "X")]
    classes = word_classes([NOUN, VERB] * 5)
    assert classes["record"] == "NBP" and classes["song"] == "N" and classes["the"] == "T"
    assert "was" in classes and "." not in classes
    assert word_classes([NOUN] * 2) == {}


def test_made_up_sentences_are_left_out_and_one_text_in_ten_is_held_out() -> None:
    salad = [("zebra", "N"), ("of", "X"), ("quickly", "R"), ("them", "X"), ("door", "N")]
    assert prose([NOUN, VERB, NOUN, VERB, NOUN, VERB, salad]) == [NOUN, VERB] * 3
    assert 70 < sum(held_out(f"text {n}") for n in range(1000)) < 130


def test_the_context_decides(tmp_path: Path) -> None:
    lines = [NOUN, VERB] * 20
    classes = word_classes(lines)
    write_tagger(tmp_path / "context.bin", classes, perceptron(lines, classes))
    tagger = Tagger(tmp_path / "context.bin")
    assert tagger.tag([word for word, _ in NOUN], 1, "NBP") == "N"
    assert tagger.tag([word for word, _ in VERB], 1, "NBP") == "P"
