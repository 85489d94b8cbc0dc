"""Normalize: which models get words for numbers, and which get the text as it is."""

import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from command import Omnitts
from golden_set import checkpoint

from omnitts_cli.errors import UsageError
from omnitts_cli.speech.live import LiveStream
from omnitts_cli.text.reading import normaliser, reader

LONG = "It was a long sentence of many words, " * 5 + "and it cost $5."
PLAIN: Any = SimpleNamespace(plain_letters=True)
LARGE: Any = SimpleNamespace(plain_letters=False)


def test_only_a_model_of_plain_letters_gets_them_unasked() -> None:
    read = reader(None, None, PLAIN)
    assert read is not None and read("It is 5 o'clock — now") == "It is five o'clock, now."
    as_it_is = reader(False, "en", PLAIN)
    assert as_it_is is not None and as_it_is("5 — “now” 京") == "5 — “now”  "
    parts = reader(None, None, PLAIN, parts=True)
    assert parts is not None and parts(" 5 o'clock ") == " five o'clock "
    assert reader(None, "en", LARGE) is None
    read = reader(True, "en", LARGE)
    assert read is not None and read("5 € — “now”") == "five euros — “now”"


def test_a_language_without_rules_is_2(omnitts: Omnitts) -> None:
    with pytest.raises(UsageError, match="does not support 'ko'"):
        normaliser("ko")
    toy = ["say", "-m", "random:toy", "--max-frames", "6", "-o", "a.wav", "--normalize"]
    assert omnitts(*toy, "-l", "de", "Um 5 Uhr.").code == 2
    assert omnitts(*toy, "-l", "en", "At 5 o'clock.").code == 0


def test_each_sentence_is_read_in_its_language_unless_one_is_given() -> None:
    told: list[Any] = []
    read = reader(True, None, LARGE, tell=told.append)
    assert read is not None and len(told) == 1
    assert read("Les enfants ont mangé 21 pommes avec leur mère.") == (
        "Les enfants ont mangé vingt et une pommes avec leur mère."
    )
    assert read("Los niños tienen 21 libros y no quieren más.").split()[3] == "veintiún"
    assert read("21") == "twenty one"
    mixed = reader(True, "fr", LARGE)
    assert mixed is not None and mixed("21") == "vingt et un"
    assert mixed("They have 21 books and some of them are very good.").split()[2] == "twenty"
    given = reader(True, "it", LARGE, certain=True)
    assert given is not None and "ventuno" in given("They have 21 books and some of them are very good.")


def test_chinese_needs_the_extra_and_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wetext", None)
    with pytest.raises(UsageError, match="needs wetext"):
        normaliser("zh")
    extra = ModuleType("wetext")
    extra.Normalizer = lambda lang, operator: SimpleNamespace(normalize=lambda text: f"{lang} {operator} {text}")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wetext", extra)
    assert normaliser("zh")("5") == "zh tn 5"


def test_the_extra_itself() -> None:
    pytest.importorskip("wetext")
    assert normaliser("zh")("占50%。") == "占百分之五十。"


def test_subtitles_and_results_keep_what_was_written(omnitts: Omnitts, landed: Path) -> None:
    call = ["say", "--max-frames", "6", "--seed", "1", "-o", "a.wav", "--subs", "a.srt", "--json"]
    done = omnitts(*call, "It costs $5.50 today.").ended(0)
    assert done.json["sentences"][0]["text"] == "It costs $5.50 today."
    assert "$5.50" in Path("a.srt").read_text()


def test_words_of_live_text_are_whole() -> None:
    class Words(LiveStream):
        def __init__(self) -> None:
            self._held, self._by_words, self._ended, self.spoken = "", True, True, [""]

        def _speak(self, text: str) -> None:
            self.spoken.append(text)

        def close(self) -> None:
            """There is nothing to cancel."""

    words = Words()
    for text in ("It is 1", "2,0", "00 m", "eters.\n", "Next"):
        words.write(text)
    words.flush()
    assert [text for text in words.spoken if text] == ["It is ", "12,000 ", "meters.\n", "Next"]


@pytest.fixture
def short_winded(tmp_path: Path) -> str:
    """A folder, named by its path, that says 60 letters well."""
    folder = shutil.copytree(checkpoint("custom_voice"), tmp_path / "own")
    config = json.loads((folder / "config.json").read_text())
    config["omnitts"] = {"longest_piece": 60}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_folder_says_how_much_it_says_in_one_go(omnitts: Omnitts, short_winded: str) -> None:
    call = ["say", "-m", short_winded, "--max-frames", "4", "--seed", "1", "-o", "a.wav", "--json", LONG]
    told = omnitts(*call).json
    assert told["pieces"] == len(told["sentences"]) > 3
    assert all(len(sentence["text"]) <= 60 for sentence in told["sentences"])
    rehearsed = omnitts("say", "-m", short_winded, "--dry-run", "--json", LONG).objects
    assert [one["text"] for one in rehearsed] == [one["text"] for one in told["sentences"]]
    whole = omnitts(*call, "--split", "none")
    assert whole.json["pieces"] == 1
    assert f"{len(LONG)} characters were spoken in one piece; beyond 60 this model may leave words out" in whole.err
    assert "leave --split none out" in whole.err and "in one piece" not in omnitts(*call).err
    assert len(omnitts("say", "-m", short_winded, "--dry-run", "--json", "--split", "none", LONG).objects) == 1
