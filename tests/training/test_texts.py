"""What the teacher may read."""

from __future__ import annotations

import random

from omnitts_cli.training import texts
from omnitts_cli.training.evaluate import sentences


def test_sentences_are_cut_and_strange_ones_left_out() -> None:
    found = list(texts.sentences("He came: late; but he came. x = {1, 2}. Did she?\nYes, she did."))
    assert found == ["He came, late, but he came.", "Did she?", "Yes, she did."]


def test_two_spellings_are_one_sentence() -> None:
    assert texts.plain("Rice is OFTEN served,  in round bowls!") == texts.plain(sentences()[4])


def test_inventions_are_short_enough_and_end() -> None:
    draw = random.Random(0)
    made = [texts._invent(draw, ["heron", "lamp"], ["came", "late"]) for _ in range(50)]
    assert all((len(m) <= texts.LONGEST and m[-1] in ".?!" and m[0].isupper()) or m[0].isdigit() for m in made)
    assert len(set(made)) > 30
