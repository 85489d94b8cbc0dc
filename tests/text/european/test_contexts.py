"""Tables of letters in their contexts."""

from pathlib import Path

import pytest

from omnitts_cli.text.european.contexts import BY_ACCENT, Tables, read, sound_keys, spoken, stress_of, stressed, write

TABLES = Tables(
    stress={"$": "1", "a$": "2", "^la": "0"},
    second={"1,0-": "ˌ"},
    sounds={".c": "k", ".a": "a", "ˈA": "a", "ˌa": "a", ".cE": "θ", ".m": "m", ".l": "l", ".s": "s", ".e": "e"},
)


def test_the_longest_context_decides() -> None:
    assert "".join(spoken("|cama|", TABLES)) == "kˈama"
    assert "".join(spoken("|ce|", TABLES)) == "θ"  # nothing is known of the e
    assert "".join(spoken("|la|", TABLES)) == "la"
    assert "".join(spoken("|camasa|", TABLES)) == "kˌamˈasa"


def test_an_accent_that_no_known_ending_holds_has_the_stress() -> None:
    shown = TABLES._replace(stress={**TABLES.stress, BY_ACCENT: "1.00"}, sounds={**TABLES.sounds, "ˈÁ": "a", ".á": ""})
    assert "".join(spoken("|cámasa|", shown)) == "kˈamasa"
    assert "".join(spoken("|cámasa|", shown._replace(stress=TABLES.stress))) == "kmˈasa"
    known = shown._replace(stress={**shown.stress, "ámasa$": "1"})
    assert stress_of(known, "cámasa", "|") == {5: "ˈ"}
    assert stress_of(shown._replace(stress={"$": "63"}), "cama", "|") == {1: "ˌ"}


def test_contexts_grow_and_never_repeat() -> None:
    keys = list(sound_keys("|cama|", 1, ""))
    assert keys[:2] == [".c", ".ca"] and keys[-1] == "|.cama|" and len(set(keys)) == len(keys)


@pytest.mark.parametrize(("sounds", "mark", "said"), [("kwa", "ˈ", "kwˈa"), ("s", "ˈ", "ˈs"), ("", "ˈ", "")])
def test_stress_stands_before_the_vowel(sounds: str, mark: str, said: str) -> None:
    assert stressed(sounds, mark) == said


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "x.bin", TABLES)
    assert read(tmp_path / "x.bin") == TABLES
    (tmp_path / "y.bin").write_bytes(b"else" + (tmp_path / "x.bin").read_bytes()[4:])
    with pytest.raises(ValueError, match="no tables"):
        read(tmp_path / "y.bin")
