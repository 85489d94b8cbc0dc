"""Subtitles: the three formats, and text that could break them. pysubs2 reads them back where it is installed."""

import json
from itertools import pairwise

import pytest

from omnitts_cli.errors import UsageError
from omnitts_cli.text.subtitles import Sentence, Word, clock, cues_of, joined, render, subtitle_format

SENTENCES = [Sentence(0.0, 2.1, "Hello there."), Sentence(2.35, 3725.5, "A <b> & 1 --> 2\n\nnew line")]


def test_the_three_formats() -> None:
    assert render(SENTENCES, "srt") == (
        "1\n00:00:00,000 --> 00:00:02,100\nHello there.\n\n2\n00:00:02,350 --> 01:02:05,500\nA <b> & 1 → 2 new line\n"
    )
    assert render(SENTENCES, "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.100\nHello there.\n"
        "\n00:00:02.350 --> 01:02:05.500\nA &lt;b&gt; &amp; 1 → 2 new line\n"
    )
    made = json.loads(render(SENTENCES, "json"))
    assert made["schema"] == 1
    assert made["sentences"][0] == {"i": 0, "start": 0.0, "end": 2.1, "text": "Hello there."}


@pytest.mark.parametrize("form", ["srt", "vtt", "json"])
def test_no_sentences_are_a_file_all_the_same(form: str) -> None:
    assert isinstance(render([], form), str)  # type: ignore[arg-type]
    assert form != "json" or json.loads(render([], "json"))["sentences"] == []


@pytest.mark.parametrize(("seconds", "shown"), [
    (0, "00:00:00,000"), (0.9996, "00:00:01,000"), (59.9999, "00:01:00,000"), (-1, "00:00:00,000"),
    (360000, "100:00:00,000"),
])  # fmt: skip
def test_clocks_carry_over(seconds: float, shown: str) -> None:
    assert clock(seconds, ",") == shown


def test_formats_by_suffix() -> None:
    assert subtitle_format("a.SRT") == "srt"
    with pytest.raises(UsageError, match=r"a\.ass"):
        subtitle_format("a.ass")


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_pysubs2_reads_them(form: str) -> None:
    pysubs2 = pytest.importorskip("pysubs2", reason="pysubs2 is not installed; it is only an oracle here")
    read = pysubs2.SSAFile.from_string(render(SENTENCES, form), format_=form)  # type: ignore[arg-type]
    assert [(e.start, e.end) for e in read] == [(0, 2100), (2350, 3725500)]
    assert read[0].plaintext == "Hello there."


def test_a_number_spoken_in_two_parts_is_one_cue_and_one_word() -> None:
    parts = [Sentence(0.0, 1.0, "Call 123 456"), Sentence(1.0, 2.5, "…"), Sentence(3.0, 4.0, "Now.")]
    assert joined(parts) == [Sentence(0.0, 2.5, "Call 123 456"), Sentence(3.0, 4.0, "Now.")]
    assert joined([Sentence(0.0, 1.0, "…")]) == [Sentence(0.0, 1.0, "…")]
    (found,) = joined([spoken("Call 5551234"), Sentence(2.0, 3.0, "…", (Word(2.0, 3.0, "…"),))])
    assert found.end_s == 3.0 and [word.end_s for word in found.words] == [1.3, 3.0]


def spoken(text: str, start_s: float = 1.0, pause_after: int = 0) -> Sentence:
    """A sentence whose words last 0.3 s each; a pause of a second follows one of them."""
    words, at = [], start_s
    for number, word in enumerate(text.split(), 1):
        words.append(Word(round(at, 3), round(at + 0.3, 3), word))
        at += 1.3 if number == pause_after else 0.3
    return Sentence(start_s, words[-1].end_s, text, tuple(words))


LONG = "It was a bright, cold day in April and all of the clocks in the old town were striking thirteen & one."


def test_srt_of_words_covers_every_word_and_never_overlaps() -> None:
    cues = cues_of(spoken(LONG, pause_after=9))
    assert " ".join(cue.text for cue in cues) == LONG and len(cues) > 3
    assert cues[0].text == "It was a bright," and any(cue.text.endswith(" and") for cue in cues)
    assert all(len(cue.text) <= 40 and cue.start_s < cue.end_s for cue in cues)
    assert all(one.end_s <= other.start_s for one, other in pairwise(cues))
    assert render([spoken(LONG)], "srt").count("-->") == len(cues_of(spoken(LONG)))


def test_vtt_and_json_of_words() -> None:
    made = render([spoken("Hello <b> & you")], "vtt").splitlines()
    assert made[2:] == [
        "00:00:01.000 --> 00:00:02.200",
        "<00:00:01.000><c>Hello</c> <00:00:01.300><c>&lt;b&gt;</c> <00:00:01.600><c>&amp;</c> <00:00:01.900><c>you</c>",
    ]
    assert "</c><00:00:01.300><c>文</c>" in render([spoken("中 文")], "vtt")
    made = json.loads(render([spoken("One two.")], "json"))["sentences"][0]
    assert made["words"] == [[1.0, 1.3, "One"], [1.3, 1.6, "two."]] and made["text"] == "One two."
