"""What the teacher may read."""

import random

import pytest

from omnitts_cli.bench.evaluate import sentences
from omnitts_cli.training import texts


def test_sentences_are_cut_and_strange_ones_left_out() -> None:
    found = list(texts.sentences("He came: late; but he came. x = {1, 2}. Did she?\nYes, she did."))
    assert found == ["He came, late, but he came.", "Did she?", "Yes, she did."]


def test_two_spellings_are_one_sentence_and_the_model_reads_one_accent() -> None:
    assert texts.plain("Rice is OFTEN served,  in round bowls!") == texts.plain(sentences()[4])
    assert texts.TrainingLine("Why now, Joy?", "wˈI nˈW, ʤˈY?", "wˈI nˈW, ʤˈY?").read == "wˈaɪ nˈaʊ, ʤˈɔɪ?"


def test_inventions_are_short_enough_and_end() -> None:
    draw = random.Random(0)
    made = [texts._invent(draw, ["heron", "lamp"], ["came", "late"]) for _ in range(50)]
    assert all((len(m) <= texts.LONGEST and m[-1] in ".?!" and m[0].isupper()) or m[0].isdigit() for m in made)
    assert len(set(made)) > 30


def test_unknown_words_are_left_out_and_a_question_mark_stays_where_the_voice_rises() -> None:
    pytest.importorskip("hibari")
    lines = list(texts.phonemes(["The cat sat.", "The zzxqv sat.", "Who sat there?", "The cat sat?"]))
    assert [line.text for line in lines] == ["The cat sat.", "Who sat there?", "The cat sat?"]
    assert lines[0].said.startswith("ðə kˈæt")
    assert [(line.said[-1], line.british[-1], line.read[-1]) for line in lines[1:]] == [(".",) * 3, ("?",) * 3]
