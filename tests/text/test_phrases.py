"""Where a long sentence may be cut."""

from itertools import pairwise

import pytest
from growth import grows_linearly

from omnitts_cli.text.phrases import GOOD, best_place, costs_between, cuts, ends_before


def parts(text: str, widest: int) -> list[str]:
    bounds = [-1, *cuts(text, widest), len(text)]
    return [text[start + 1 : end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize(
    "case",
    [
        "The bank raised its rate on Monday and said |that it still expects to cut it twice this year",
        "He had asked for the old green coat; |the tailor brought him a new blue one instead of that",
        "We could not leave the house that morning |because the snow had covered the door",
        "The men came down from the village |in which we had lived until the year of the flood",
        "She put the letters into the box, |and nobody has ever seen any of them again",
        "She left the house on Monday |so that nobody would see her with the suitcase",
    ],
)
def test_a_phrase_is_not_broken(case: str) -> None:
    text = case.replace("|", "")
    assert parts(text, 62) == [part.strip() for part in case.split("|")]


@pytest.mark.parametrize(
    "pair",
    "the house/of milk/305 people/three hundred/Gen 2/Henry Ford/very old/to sing/cup of/said the/broke out".split("/"),
)
def test_words_that_belong_together(pair: str) -> None:
    assert (costs_between(["We", *pair.split(), "x"])[2] > GOOD) is (pair != "said the")


def test_no_part_is_wider_than_asked_if_spaces_allow_it() -> None:
    text = "one small word after another without any mark or clause " * 6
    for widest in (20, 40, 110):
        assert " ".join(parts(text.strip(), widest)) == text.strip()
        assert max(map(len, parts(text.strip(), widest))) <= widest
    assert cuts("", 20) == cuts("short", 20) == cuts("x" * 50, 20) == []


def test_the_best_single_place() -> None:
    text = "all that he had said before we came to the"
    assert text[best_place(text) :].startswith("before")
    assert best_place("nospace") == best_place("") == 0
    assert ends_before("and he said", "that ") < ends_before("of the", "house ")


def test_a_long_text_takes_linear_time() -> None:
    grows_linearly(lambda n: cuts("the quick brown fox, who was late, and " * n, 110), 50, 500)
