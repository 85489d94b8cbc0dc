"""Sentences: what depends on the neighbours, and the sentences of hibari-tts, which the voice was taught with."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from growth import grows_linearly

from omnitts_cli.text.american.sentence import SentenceReader, reader
from omnitts_cli.text.spell_out import plain_letters

TAUGHT = Path(__file__).parent / "taught.tsv"
"""Made-up sentences as hibari-tts 0.2.1 reads them; none of them trained the tagger."""


@pytest.mark.parametrize(("sentence", "spoken"), [
    ("One basic notion.", "wˈʌn bˈAsɪk nˈOʃən."), ("The apple and the pear.", "ði ˈæpᵊl ænd ðə pˈɛɹ."),
    ("Go to Rome, to Oslo, where to?", "ɡˌO tə ɹˈOm, tʊ ˈɑzlO, wˌɛɹ tu?"), ("A method.", "ɐ mˈɛθəd."),
    ("What is it made of?", "wˌʌt ɪz ɪt mˌAd ʌv."), ("I can, so I will.", "ˌI kˈæn, sˌO ˌI wˈɪl."),
    ("Come in!", "kˈʌm ˈɪn!"), ("Vitamin A, not B.", "vˈITəmən ˈA, nˌɑt bˈi."),
    ("Kennedy's record at home.", "kˈɛnədiz ɹˈɛkəɹd æt hˈOm."), ("US law.", "jˌuˈɛs lˈɔ."),
    ("GIVE US THE MONEY!", "ɡˈɪv ˈʌs ðə mˈʌni!"), ("", ""), ("...", "..."),
])  # fmt: skip
def test_sentences(sentence: str, spoken: str) -> None:
    assert reader().spoken(sentence).strip() == spoken


def test_part_of_a_sentence_is_read_with_all_of_it_in_view() -> None:
    text = "They want to record the record."
    whole = reader().spoken(text)
    assert reader().spoken(text, 0, 13) + reader().spoken(text, 13) == whole
    assert reader().spoken(text, 13, 19) == " ɹəkˈɔɹd"


def bare(spoken: str) -> list[str]:
    return spoken.translate(str.maketrans("", "", ",.!?")).split()


def test_words_sound_as_they_were_taught() -> None:
    rows = [line.split("\t") for line in TAUGHT.read_text(encoding="utf-8").splitlines()]
    total = same = 0
    for text, american in rows:
        meant, said = bare(american), bare(reader().spoken(plain_letters(text)))
        total += len(meant)
        same += sum(a == b for a, b in zip(meant, said, strict=False)) if len(meant) == len(said) else 0
    sys.stdout.write(f"{same} of {total} words of {len(rows)} sentences as they were taught: {same / total:.2%}\n")
    assert len(rows) >= 400
    assert same / total > 0.99


def test_a_long_text_takes_time_in_proportion() -> None:
    reading = SentenceReader()
    text = "The quick brown fox, they say, will record a record of the wind near 9 o clock. "
    reading.spoken(text)
    grows_linearly(lambda count: reading.spoken(text * count), 100, 800)


def test_many_threads_may_read_at_once() -> None:
    """Every engine's thread and the command share one reader."""
    texts = [f"They record the wind and the zorkly{chr(97 + n)} lead, {word}." for n in range(8) for word in "abcd"]
    alone = [SentenceReader().spoken(text) for text in texts]
    shared = SentenceReader()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.spoken, texts * 3)) == alone * 3
