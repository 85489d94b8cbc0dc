"""Text that is still arriving: the same ids as the whole text, soon, and in linear time."""

import pytest
import torch
from golden_set import checkpoint
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from omnitts_cli.errors import InputError
from omnitts_cli.families.common.live import Arriving
from omnitts_cli.families.common.tokenizer import TextTokenizer, read_tokenizer
from omnitts_cli.models.prompts import LiveRows


@pytest.fixture(scope="session")
def tokenizer() -> TextTokenizer:
    return read_tokenizer(checkpoint("base"), 640)


def ids(tokenizer: TextTokenizer, pieces: list[str]) -> list[int]:
    arriving = Arriving(tokenizer)
    return [*(one for piece in pieces for one in arriving.write(piece)), *arriving.close()]


LETTERS = st.sampled_from("a B's .!?\n\t \u0301\u1100\u1161\u4f60\u00a01") | st.characters(codec="utf-8")


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(st.text(LETTERS, max_size=8), max_size=12))
def test_any_cut_gives_the_ids_of_the_whole(tokenizer: TextTokenizer, pieces: list[str]) -> None:
    assert ids(tokenizer, pieces) == tokenizer.encode("".join(pieces).strip())


def test_words_come_out_as_soon_as_they_are_certain(tokenizer: TextTokenizer) -> None:
    arriving = Arriving(tokenizer)
    assert arriving.write("  hel") == []
    assert arriving.write("lo") == []
    assert arriving.write(" ") == tokenizer.encode("hello")
    assert arriving.write("world") == []
    assert arriving.write(".") == tokenizer.encode(" world")
    assert arriving.write("\n") == []
    assert arriving.close() == tokenizer.encode(".")


@pytest.mark.parametrize("letters", ["a", " ", "\n", "\u0301", ".", "1", "你", "a "])
def test_time_is_linear_in_the_length(letters: str, tokenizer: TextTokenizer) -> None:
    """A word, or white space, without an end is not looked at again with every character."""

    def write(length: int) -> None:
        assert len(ids(tokenizer, list("x" + letters * (length // len(letters)) + "x"))) > 1

    grows_linearly(write, 1_000, 10_000)


def test_rows_and_the_end(tokenizer: TextTokenizer) -> None:
    arriving = Arriving(tokenizer)
    live = LiveRows(lambda ids: torch.tensor(ids).reshape(-1, 1).float(), 7, arriving.write, arriving.close)
    assert live.write("hello").shape == (0, 1)
    assert live.write(" there").flatten().tolist() == tokenizer.encode("hello")
    assert live.close().flatten().tolist() == [*tokenizer.encode(" there"), 7]


def test_half_characters_are_refused(tokenizer: TextTokenizer) -> None:
    with pytest.raises(InputError, match="half a character"):
        Arriving(tokenizer).write("\ud83d")
