"""Kinds: what a person types is read strictly."""

import pytest

from omnitts_cli.settings.setting import SWITCH, TEXT, ValueKind, either, number, one_of, readable_size, seconds, whole

NO_NUMBER = ["", " ", "-1", "1e309", "nan", "inf", "-inf", "１", "1_0", "10" * 15, "0x10", "1,5", "one", "1 ", "٣"]


@pytest.mark.parametrize(("kind", "text"), [
    *((number(0.5, 2), text) for text in [*NO_NUMBER, "0.49", "2.01"]),
    *((whole(0, 100), text) for text in [*NO_NUMBER, "1.5", "1e1", "101"]),
    (one_of("a"), "b"), (SWITCH, "maybe"), (TEXT, ""), (either("auto", whole(1, 8)), "9"),
])  # fmt: skip
def test_what_is_nothing_of_the_kind_is_refused(kind: ValueKind, text: str) -> None:
    """Numbers are plain digits within their limits."""
    with pytest.raises(ValueError):
        kind.read(text)


def test_numbers_are_read() -> None:
    assert [number(0.5, 2).read(text) for text in ("1", "1.", "+.5", "2e0", "15e-1")] == [1, 1, 0.5, 2, 1.5]
    assert [whole(-5, 5).read(text) for text in ("0", "-5", "+3")] == [0, -5, 3]


def test_sizes_are_shown_in_the_units_of_nvidia_smi_and_free() -> None:
    sizes = (9, 1023, 1536, 2_621_440, 1023.4 * 2**20, 2**30, 3.9e9, 70_500_000_000)
    shown = ["9 B", "1023 B", "2 KiB", "2.5 MiB", "1023.4 MiB", "1.0 GiB", "3.6 GiB", "65.7 GiB"]
    assert [readable_size(size) for size in sizes] == shown


def test_words_and_switches() -> None:
    assert one_of("wav", "mp3").read("WAV") == "wav"
    assert [SWITCH.read(text) for text in ("1", "Yes", "off", "false")] == [True, True, False, False]
    assert either("auto", whole(1, 8)).read("AUTO") == "auto"
    assert either("auto", whole(1, 8)).read("8") == 8


@pytest.mark.parametrize(("kind", "typed", "expected"), [
    (whole(2, 8), "9", "8"), (whole(2, 8), "word", "2"), (number(0, 2), "-1", "0"), (number(0, 2), "word", "1"),
    (seconds(), "0", "1"), (seconds(), "abc", "15m"), (either("off", seconds()), "abc", "15m"),
    (either("auto", whole(1, 9)), "10", "9"), (one_of("a", "b"), "c", None),
])  # fmt: skip
def test_a_hint_suggests_a_value_that_is_accepted(kind: ValueKind, typed: str, expected: str | None) -> None:
    assert kind.example(typed) == expected
    if expected is not None:
        kind.read(expected)
