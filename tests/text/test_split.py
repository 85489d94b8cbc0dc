"""Splitting: golden rules for ten languages, any cuts equal to the whole, and time that grows with the text alone."""

import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from growth import grows_linearly
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnitts_cli.text.split import LARGEST_COLUMNS, MODES, Splitter, columns, split


def sentences(text: str, language: str | None) -> list[str]:
    """Every sentence for itself, however short."""
    splitter = Splitter("auto", language, short=0)
    return [piece.text for piece in splitter.feed(text) + splitter.flush()]


GOLDEN: dict[str, list[str]] = defaultdict(list)
"""By language: texts, with a bar where one sentence ends and the next begins."""
for line in (Path(__file__).parent / "sentences.tsv").read_text("utf-8").splitlines():
    GOLDEN[line.partition("\t")[0]].append(line.partition("\t")[2])


@pytest.mark.parametrize(("language", "case"), [(code, case) for code, cases in GOLDEN.items() for case in cases])
def test_golden_rules(language: str, case: str) -> None:
    space = "" if language in ("zh", "ja") else " "
    assert sentences(case.replace("|", space), language) == case.split("|")


def test_enough_languages_and_cases() -> None:
    assert sorted(GOLDEN) == sorted("zh en ja ko de fr ru pt es it".split())
    assert sum(map(len, GOLDEN.values())) >= 80


UNKNOWN = ["en", "de", "fr", "ru", "zh", "ja", "ko"]


@pytest.mark.parametrize("language", UNKNOWN)
def test_without_a_language_most_rules_still_hold(language: str) -> None:
    space = "" if language in ("zh", "ja") else " "
    right = sum(sentences(case.replace("|", space), None) == case.split("|") for case in GOLDEN[language])
    assert right >= 0.7 * len(GOLDEN[language])


# -- lines and paragraphs


def texts(text: str, mode: str = "auto", language: str | None = "en", **how: int) -> list[str]:
    splitter = Splitter(mode, language, **how)  # type: ignore[arg-type]
    return [piece.text for piece in splitter.feed(text) + splitter.flush()]


def test_a_finished_line_never_waits_for_the_next() -> None:
    splitter = Splitter("auto", "en")
    for line in ("First line.\n", "no stop here\n", "and\n", "Mr.\n", "- an item\n", "What? Yes!\n"):
        assert "".join(piece.text for piece in splitter.feed(line)).replace(" ", "") == "".join(line.split())
        assert splitter.flush() == []


def test_a_line_broken_to_fit_a_page_goes_on_below_but_not_into_a_list() -> None:
    text = "This is a sentence that somebody has broken at a column so that it\nfits on a page. Next one.\n"
    assert texts(text) == [
        "This is a sentence that somebody has broken at a column so that it fits on a page.",
        "Next one.",
    ]
    splitter = Splitter("auto", "en")
    assert splitter.feed(text.split("\n")[0] + "\n") == []
    (held,) = splitter.idle()
    assert held.text.endswith("so that it"), "a quiet pipe gets what it has"
    long = "a list item that is quite long and has no full stop at its very end"
    assert texts(f"{long}\n- next item\n12. another\nlast\n") == [long, "- next item", "12. another", "last"]


def test_entries_of_a_log_are_not_run_together() -> None:
    lines = [
        "99d0ddd One check for prompts that outgrow a model, for both families; rows remember their parts once",
        "b0a2878 Each engine has a prompter of its own: rows of text that one keeps lie in its lane",
        "e4f80c0 A command imports and declares itself alone",
    ]
    assert texts("\n".join(lines)) == lines
    subjects = [line.split(" ", 1)[1] for line in lines]
    assert texts("\n".join(subjects)) == subjects
    labels = ["fix(cli): the seed is printed whenever it was drawn by the command", "docs: the new words of the help"]
    assert texts("\n".join(labels)) == labels
    stamps = [
        "2026-11-21 17:05:00 ERROR the disk is full and nothing more can be written",
        "2026-11-21 17:05:01 INFO x y",
    ]
    assert texts("\n".join(stamps)) == stamps


def test_broken_prose_goes_on_before_a_capital_and_in_chinese_without_a_space() -> None:
    text = (
        "They had all been very happy when they went together to see the\nQueen of England and her three small dogs.\n"
    )
    assert texts(text) == [text.strip().replace("\n", " ")]
    german = "Als er am nächsten Morgen in die Stadt ging, sah er vor dem alten\nHaus einen Mann mit einem Hut.\n"
    assert texts(german) == [german.strip().replace("\n", " ")]
    long = "这是一个很长的句子没有标点符号只是为了测试换行的时候会发生什么事情"
    assert texts(long + "\n" + "接着写。\n", language="zh") == [long + "接着写。"]


def test_pieces_know_their_place_and_the_gap_before_them() -> None:
    pieces = list(
        split("This is the first one. And this the second.\nHere is a line.\n\nA new paragraph.", "auto", "en")
    )
    assert [(piece.gap, piece.paragraph) for piece in pieces] == [
        ("none", 0), ("sentence", 0), ("sentence", 0), ("paragraph", 1),
    ]  # fmt: skip
    assert [piece.gap_s(0.25, 0.6) for piece in pieces] == [0.0, 0.25, 0.25, 0.6]
    text = "  First one here.   Second one there.\n\n\n Third."
    for piece in split(text, "auto", "en"):
        assert text[piece.start : piece.end] == piece.text


def test_modes() -> None:
    text = "One is here. Two is there.\nThree comes then.\n\nFour is last.\n"
    assert texts(text, "line") == ["One is here. Two is there.", "Three comes then.", "Four is last."]
    assert texts(text, "paragraph") == ["One is here. Two is there. Three comes then.", "Four is last."]
    assert texts(text, "none") == [text.strip()]


def test_short_sentences_are_spoken_with_the_next_one_of_their_line() -> None:
    assert texts("Oh. I see what you mean. Yes. No.\nWell. Fine.") == [
        "Oh. I see what you mean.",
        "Yes. No.",
        "Well. Fine.",
    ]


def test_line_ends_of_all_kinds() -> None:
    from omnitts_cli.text.clean import clean

    expected = ["One line here.", "Two lines here.", "Three"]
    for end in ("\n", "\r\n", "\r", "\u2028", "\x85"):
        assert texts(clean(f"One line here.{end}Two lines here.{end}Three")) == expected


def test_pieces_without_a_letter_are_not_spoken() -> None:
    assert texts("***\n\nHello there you.\n---\n…\n\nBye bye now.") == ["Hello there you.", "Bye bye now."]
    assert texts("…?!") == texts("  \n \n") == texts("") == texts("🙂") == []


# -- pauses


def test_pauses_are_silence_with_a_limit_and_can_be_turned_off() -> None:
    pieces = list(split("Wait for it. [pause:0.8s] Now! [pause:250ms][pause:3]Later [pause:x] too.", "auto", "en"))
    assert [piece.text or piece.pause_s for piece in pieces] == [
        "Wait for it.", 0.8, "Now!", 0.25, 3.0, "Later [pause:x] too.",
    ]  # fmt: skip
    assert all(piece.gap == "none" for piece in pieces)
    assert [piece.pause_s for piece in split("[pause:99999s]a", "auto")] == [60.0, 0.0]
    notices: list[str] = []
    assert [p.pause_s for p in Splitter("auto", notices=notices).feed("[pause:90s][pause:60s]\n")] == [60.0, 60.0]
    assert notices == ["[pause:90s] is cut to 60 s, the longest pause"]
    splitter = Splitter("auto", pauses=False)
    assert [p.text for p in splitter.feed("a [pause:1s] b\n")] == ["a [pause:1s] b"]


# -- any cuts

LETTERS = "ab AB.!?\n\n\"'”“»「」。、,い字가3-*()[]:;…"
ALPHABET = [*LETTERS, "Mr. ", "[pause:1s]", " word" * 12, "\n- ", "A. ", "z. B. ", "He ", " . .", " »"]


@settings(max_examples=400, deadline=None)
@example(" word" * 12 + "[pause:1s]He \nA. ", [21], "auto", None, 20)
@given(
    st.lists(st.sampled_from(ALPHABET), max_size=60).map("".join),
    st.lists(st.integers(0, 400), max_size=12),
    st.sampled_from(MODES),
    st.sampled_from([None, "en", "de"]),
    st.sampled_from([20, 60, 400]),
)
def test_any_cuts_are_the_whole(text: str, cuts: list[int], mode: str, language: str | None, largest: int) -> None:
    whole = Splitter(mode, language, largest=largest)  # type: ignore[arg-type]
    expected = whole.feed(text) + whole.flush()
    splitter, pieces, last = Splitter(mode, language, largest=largest), [], 0  # type: ignore[arg-type]
    for cut in [*sorted({min(cut, len(text)) for cut in cuts}), len(text)]:
        pieces += splitter.feed(text[last:cut])
        last = cut
    assert pieces + splitter.flush() == expected
    assert Splitter(mode, language, largest=largest).flush(text) == expected, "at the end"  # type: ignore[arg-type]
    if "[" not in text:
        letters = [c for c in text if c.isalnum()]
        assert [c for piece in expected for c in piece.text if c.isalnum()] == letters, "nothing is lost"


# -- size


@pytest.mark.parametrize(
    "text", ["a" * 5000, "字" * 5000, "word " * 1000, "word, " * 1000, "https://x.y/" * 400, "aGVsbG8" * 700]
)
def test_what_has_no_end_is_cut_at_its_best_place(text: str) -> None:
    pieces = list(split(text))
    assert all(columns(p.text, 0, len(p.text)) <= LARGEST_COLUMNS["auto"] for p in pieces)
    assert "".join(p.text for p in pieces).replace(" ", "") == text.replace(" ", "")
    if " " in text:
        assert all(p.text.endswith(("word", ",")) for p in pieces), "between words, not inside one"
    assert all(p.gap == "none" for p in pieces[1:])


def test_a_long_sentence_is_cut_behind_a_semicolon_or_a_comma() -> None:
    text = "x" * 150 + "; " + "y " * 80 + ", " + "z " * 100
    first, second = texts(text, largest=250)[:2]
    assert first.endswith(";") and second.endswith(",")


BIG = {
    "one line without a stop": "word " * 2_000_000, "one word": "a" * 10_000_000, "a letter per line": "a\n" * 600_000,
    "Chinese": "字" * 3_300_000, "only stops": "." * 10_000_000, "only blanks": " " * 10_000_000,
    "open pauses": "[pause:" * 1_400_000, "open brackets": "[" * 2_000_000,
}  # fmt: skip


def in_blocks(text: str, size: int = 65_536) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


@pytest.mark.parametrize("name", BIG)
def test_megabytes_start_at_once_and_memory_is_flat(name: str) -> None:
    text, splitter = BIG[name][: 2 << 20], Splitter("auto")
    pieces = (splitter.feed(part) for part in in_blocks(text))
    block = next((number for number, found in enumerate(pieces) if found), None)
    assert block in (0, 1, None), "a first piece comes from the first blocks, or there is none before the end"
    tracemalloc.start()  # every allocation takes several times as long from here on
    small = list(in_blocks(text[: 1 << 20], 16_384))
    for part in small[20:23]:
        splitter.feed(part)
    early = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    for part in small[23:31]:
        splitter.feed(part)
    late = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert late < early + 1_000_000


@pytest.mark.parametrize("name", ["one line without a stop", "Chinese", "only stops", "open pauses", "open brackets"])
def test_time_grows_with_the_text_alone(name: str) -> None:
    text = BIG[name]
    grows_linearly(lambda count: list(split(in_blocks(text[:count]))), len(text) // 80, len(text) // 8)


@pytest.mark.parametrize("language", [None, "en"])
@pytest.mark.parametrize(
    "case",
    [
        "Mr. Smith arrived at 5 p.m.|He left at 6 p.m.|Bring wine.",
        "The call is at 9 a.m. Pacific time on the first of the month.",
        "He moved to the U.S.|He likes it there, he says.",
        "She has a Ph.D.|He has an M.D. from there.|They argue a lot.",
        "John Smith Sr.|He was quite old.",
        "John Smith Sr. was quite old, and Sr. Garcia too.",
        "I live on Elm Dr.|She left Main St.|Turn left, she said.",
        "I asked Dr. Turner and St. Paul.",
        "We bought 3 lg. eggs, 2 pkgs. of yeast and a doz. rolls.",
        "He lives in Tampa, Fla. with a dog.",
        "The school is on Friedrichstr. 43, near the park.",
        "we took 3 lg. eggs and went home again.|then we had a late breakfast.",
        "We see it in Eq. (4) and Fig. [2] of the paper.",
        "We sell pens, paper, etc.|Come in and see us.",
    ],
)
def test_a_short_form_ends_a_sentence_where_the_next_word_says_so(language: str | None, case: str) -> None:
    assert sentences(case.replace("|", " "), language) == case.split("|")


@pytest.mark.parametrize("language", [None, "de"])
def test_a_german_date_is_not_cut_in_a_text_of_unknown_language(language: str | None) -> None:
    for text in ("Wir kommen am 5. Juni nach Hause.", "Es war im 19. Jahrhundert so gewesen."):
        assert sentences(text, language) == [text]


def test_a_long_sentence_is_cut_before_a_phrase_and_says_that_it_goes_on() -> None:
    long = "It was the custom of the house that nobody spoke at the table " * 8
    pieces = list(split(long + "and that was all."))
    assert [piece.goes_on for piece in pieces] == [True, False]
    assert pieces[1].text.startswith("that nobody")
