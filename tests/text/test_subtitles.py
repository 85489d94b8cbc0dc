"""Subtitles: the three formats, and text that could break them. pysubs2 reads them back where it is installed."""

from __future__ import annotations

import json

import pytest

from omnitts_cli.errors import UsageError
from omnitts_cli.text.subtitles import Sentence, clock, joined, render, subtitle_format

SENTENCES = [Sentence(0.0, 2.1, "Hello there."), Sentence(2.35, 3725.5, "A <b> & 1 --> 2\n\nnew line")]


def test_srt() -> None:
    assert render(SENTENCES, "srt") == (
        "1\n00:00:00,000 --> 00:00:02,100\nHello there.\n\n2\n00:00:02,350 --> 01:02:05,500\nA <b> & 1 → 2 new line\n"
    )


def test_vtt() -> None:
    assert render(SENTENCES, "vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.100\nHello there.\n"
        "\n00:00:02.350 --> 01:02:05.500\nA &lt;b&gt; &amp; 1 → 2 new line\n"
    )


def test_json() -> None:
    made = json.loads(render(SENTENCES, "json"))
    assert made["schema"] == 1
    assert made["sentences"][0] == {"i": 0, "start": 0.0, "end": 2.1, "text": "Hello there."}


@pytest.mark.parametrize("form", ["srt", "vtt", "json"])
def test_no_sentences_are_a_file_all_the_same(form: str) -> None:
    assert isinstance(render([], form), str)  # type: ignore[arg-type]
    assert form != "json" or json.loads(render([], "json"))["sentences"] == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "00:00:00,000"),
        (0.9996, "00:00:01,000"),
        (59.9999, "00:01:00,000"),
        (-1, "00:00:00,000"),
        (360000, "100:00:00,000"),
    ],
)
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


def test_B10_a_number_spoken_in_two_parts_is_one_cue() -> None:
    parts = [Sentence(0.0, 1.0, "Call 123 456"), Sentence(1.0, 2.5, "…"), Sentence(3.0, 4.0, "Now.")]
    assert joined(parts) == [Sentence(0.0, 2.5, "Call 123 456"), Sentence(3.0, 4.0, "Now.")]
    assert joined([Sentence(0.0, 1.0, "…")]) == [Sentence(0.0, 1.0, "…")]
