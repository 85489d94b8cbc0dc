"""A question mark in phonemes means that the voice rises; questions whose voice falls end in a full stop."""

import pytest

from omnitts_cli.text.american.phonemes import ArrivingPhonemes, phonemes

RISING = [
    "Are you coming home tonight?", "You saw the blue car?", "Do you know what time it is?",
    "When it rains, do you walk?", "You met my brother, who lives in Leeds?", "He left when it was late?", "Yes?",
    "It is cold, isn't it?",
]  # fmt: skip
FALLING = [
    "What time is it?", "Who's there?", "And in which year was that?", "So, how far is it?", "Why not?",
    "If it rains, what shall we do?", "Oh, where have you been all day?", "Tell me, what's that?", "When did he come?",
]  # fmt: skip


@pytest.mark.parametrize("text", RISING)
def test_a_question_of_yes_or_no_rises(text: str) -> None:
    assert phonemes(text).endswith("?")


@pytest.mark.parametrize("text", FALLING)
def test_a_question_that_asks_for_a_word_falls(text: str) -> None:
    assert phonemes(text).endswith(".")


def test_each_question_of_a_text_is_its_own() -> None:
    read = phonemes("What is it? Is it a cat? How nice! Who knows.")
    assert [sign for sign in read if sign in ".!?"] == [".", "?", "!", "."]


@pytest.mark.parametrize("text", [*RISING, *FALLING, "Who " + "walks and " * 30 + "sings?"])
def test_text_that_arrives_in_pieces_ends_alike(text: str) -> None:
    arriving = ArrivingPhonemes()
    read = "".join(arriving.write(text[at : at + 7]) for at in range(0, len(text), 7)) + arriving.close()
    assert read == phonemes(text)
