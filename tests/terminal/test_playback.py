"""Playback: the line of `play` says what was played."""

import pytest

from omnitts_cli.terminal.playback import Playback, level_bar


@pytest.mark.parametrize(
    ("moment", "words", "share"),
    [
        (Playback(7, 12), "0:07", None),
        (Playback(7, 12, expected_s=35), "0:07 of about 0:35", 0.2),
        (Playback(7, 40, expected_s=35), "0:07 of about 0:40", 0.175),
        (Playback(7, 35, complete=True, expected_s=20), "0:07 of 0:35", 0.2),
        (Playback(35.2, 35, complete=True), "0:35 of 0:35", 1.0),
    ],
)
def test_a_whole_is_shown_only_when_it_is_known(moment: Playback, words: str, share: float | None) -> None:
    assert moment.words == f"{level_bar(0)} {words}"
    assert moment.share == pytest.approx(share) if share else moment.share is None


def test_pause_and_keys_are_shown() -> None:
    assert Playback(7, 12, keys=True).words.endswith("   space pauses, q stops")
    assert Playback(7, 12, keys=True, paused=True).words == "paused   0:07   space resumes, q stops"
    assert Playback(7, 12, level=1.0).words.startswith("▮" * 8)
