"""The dictionary's sources: which entry wins, what is left out, and CMUdict in misaki's alphabet."""

from pathlib import Path

import pytest

from omnitts_cli.text.american.dictionary import SOUNDS, SPACE
from omnitts_cli.training.dictionary import cmudict, entries, from_arpabet, line, own_words


@pytest.mark.parametrize(("phones", "spoken"), [
    ("P AO1 L", "pˈɔl"), ("B AA1 R AH0 S T ER2", "bˈɑɹəstˌɜɹ"), ("W AO1 T ER0", "wˈɔTəɹ"), ("M AH1 D AH0 L", "mˈʌdᵊl"),
    ("B AO1 S T AH0 N", "bˈɔstᵊn"), ("CH AY1 N AH0", "ʧˈInə"),
])  # fmt: skip
def test_arpabet(phones: str, spoken: str) -> None:
    assert from_arpabet(phones.split()) == spoken


def test_first_readings_of_words_and_those_by_part_of_speech(tmp_path: Path) -> None:
    rows = "paul P AO1 L\npaul(2) P AW1 L\npaul's P AO1 L Z\na AH0\nthat'll DH AE1 T AH0 L # note\n'bout B AW1 T\n"
    (tmp_path / "cmudict.dict").write_text(rows)
    assert cmudict(tmp_path / "cmudict.dict") == {"paul": "pˈɔl", "that'll": "ðˈæTᵊl", "'bout": "bˈWt"}
    assert line({"DEFAULT": "ɹˈɛkəɹd", "VERB": "ɹəkˈɔɹd"}, "") == "ɹˈɛkəɹd VERB:ɹəkˈɔɹd"
    assert line({"DEFAULT": "ˌʌs", "NOUN": None}, "") == "ˌʌs NOUN:"
    assert line("bˈʌʔn", "-") == "-bˈʌtn"


def test_our_words_win_and_inflections_are_left_out() -> None:
    gold = {"cat": "kˈæt", "cats": "kˈæts", "lead": "lˈid", "want": "wˈɑnt", "axes": "ˈæksiz"}
    silver = {"zork": "zˈɔɹk", "zorks": "zˈɔɹksəz", "Lead": "lˈid"}
    others = {"cat": "kˈɑt", "paul": "pˈɔl", "wante": "wˈɑntə", "wanted": "wˈɑntəd", "lead": "lˈɛd"}
    own = {"lead": "lˈid METAL:lˈɛd"}
    assert entries(gold, silver, others, own) == {
        "cat": "kˈæt", "want": "wˈɑnt", "axes": "ˈæksiz", "zork": "-zˈɔɹk", "zorks": "-zˈɔɹksəz", "paul": "-pˈɔl",
        "lead": "lˈid METAL:lˈɛd",
    }  # fmt: skip


def test_our_words_are_in_the_alphabet() -> None:
    words = own_words()
    assert len(words) > 400
    for word, readings in words.items():
        sounds = "".join(reading.rpartition(":")[2] for reading in readings.split(" "))
        assert set(sounds) <= {*SOUNDS, SPACE}, word
        assert sounds.count("ˈ") >= 1 or word == "deja", word
