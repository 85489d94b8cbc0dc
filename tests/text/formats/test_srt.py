"""Subtitle files as input: order, odd times, sentences over several cues."""

import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.text.formats.srt import srt_blocks

PLAIN = """1
00:00:01,000 --> 00:00:03,000
<i>I think</i> that
we should

2
00:00:03,100 --> 00:00:04,000
{\\an8}go now.

3
00:00:10,000 --> 00:00:12,000
Later.
"""


def test_close_cues_are_one_paragraph() -> None:
    notices: list[str] = []
    blocks = list(srt_blocks(PLAIN, "a.srt", notices))
    assert [(b.text, b.start_s) for b in blocks] == [("I think that we should go now.", 1.0), ("Later.", 10.0)]
    assert notices == []


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("WEBVTT\n\n00:01.000 --> 00:02.500 align:start\nHello.\n", "Hello."),
        ("1\n00:00:01,000 --> 00:00:02,000\none\n2\n00:00:02,000 --> 00:00:03,000\ntwo\n", "one two"),
    ],
    ids=["WebVTT", "no empty lines between cues"],
)
def test_other_files_are_read_too(text: str, spoken: str) -> None:
    assert [b.text for b in srt_blocks(text, "a.srt", [])] == [spoken]


def test_odd_times_are_reported_and_all_is_spoken() -> None:
    text = (
        "1\n00:00:09,000 --> 00:00:10,000\nthird\n\n"
        "2\n00:00:01,000 --> 00:00:05,000\nfirst\n\n"
        "3\n00:00:02,000 --> 00:00:01,000\nsecond\n\n"
        "4\n-00:00:02,000 --> 00:00:00,500\nzeroth\n"
    )
    notices: list[str] = []
    assert " ".join(b.text for b in srt_blocks(text, "a.srt", notices)) == "zeroth first second third"
    assert all(words in " ".join(notices) for words in ("negative time or length (2", "begins before", "not sorted"))


def test_no_subtitles_at_all() -> None:
    with pytest.raises(InputError, match=r"a\.srt has no subtitles"):
        list(srt_blocks("just text", "a.srt", []))
