"""The dictionary on disk: what goes in comes out, and one word costs one block."""

from pathlib import Path

import pytest

from omnitts_cli.text.american import dictionary
from omnitts_cli.text.american.dictionary import SOUNDS, Dictionary, write

SHIPPED = Path(dictionary.__file__).parent / "words.bin"


def test_every_word_is_found_again(tmp_path: Path) -> None:
    words = {f"word{n}": f"w{SOUNDS[n % len(SOUNDS)]} VERB:{SOUNDS[n % 7]}" for n in range(9000)}
    words |= {"Word1": "-ˈA", "it's": "ɪts", "a": "", "zz": "NOUN:"}
    write(tmp_path / "words.bin", words.items())
    found = Dictionary(tmp_path / "words.bin")
    assert {word: found.find(word) for word in words} == words


@pytest.mark.parametrize("word", ["", "zzz", "A" * 10_000, "wör", "word", "word1\t", "\n", "word10 VERB"])
def test_what_is_not_there_is_none(word: str, tmp_path: Path) -> None:
    write(tmp_path / "words.bin", [(f"word{n}", "wˈɜɹd") for n in range(100)])
    assert Dictionary(tmp_path / "words.bin").find(word) is None


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.bin").write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="is not a dictionary"):
        Dictionary(tmp_path / "words.bin")


def test_one_word_unpacks_one_block() -> None:
    found = Dictionary(SHIPPED)
    assert found.find("hello") == "həlˈO"
    assert len(found._blocks) == 1 and len(found._starts) > 100
    assert found.find("record") == "ɹˈɛkəɹd VERB:ɹəkˈɔɹd"
    assert SHIPPED.stat().st_size < 1_700_000
