"""Casts: who speaks which words, and every way in which a cast can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from omnitts_cli.books.cast import Cast, Member, read_cast
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.fleet.rows import VoiceChoice
from omnitts_cli.text.formats.block import Block


def spoken(text: str, *names: str, tags: bool = True) -> list[tuple[str, str]]:
    """(speaker, words) of a text whose paragraphs are separated by empty lines."""
    cast = Cast({name: Member(name) for name in names}, "c.json", lines=bool(names), tags=tags)
    blocks = [Block(paragraph) for paragraph in text.split("\n\n")]
    return [(one.member.name, one.block.text) for one in cast.words(blocks, "chapter 1")]


def test_tags_count_until_the_next_one_and_names_until_the_paragraph_ends() -> None:
    text = "Before. [voice: clara] Hers.\n\nStill hers. [voice:leo]His. [voice: default] After."
    assert spoken(text) == [
        ("", "Before."), ("clara", "Hers."), ("clara", "Still hers."), ("leo", "His."), ("", "After."),
    ]  # fmt: skip
    assert spoken(text, tags=False) == [("", paragraph) for paragraph in text.split("\n\n")]
    text = "ANNA: One.\ngoes on.\nBen: Two: three.\n**Anna:** Four.\n\nNobody: is a word.\n\n[voice: Ben] Five."
    text += "\n\nANNA: Six.\n\nSeven."
    assert spoken(text, "Anna", "Ben") == [
        ("Anna", "One.\ngoes on."), ("Ben", "Two: three."), ("Anna", "Four."), ("", "Nobody: is a word."),
        ("Ben", "Five."), ("Anna", "Six."), ("Ben", "Seven."),
    ]  # fmt: skip
    text = "It was late.\n\nANNA: Yes.\n\n[voice: default] They slept."
    assert [name for name, _ in spoken(text, "Narrator", "Anna")] == ["Narrator", "Anna", "Narrator"]


@pytest.mark.parametrize(
    ("text", "name", "hint"), [("BENN: Hi.", "BENN", "Ben "), ("[voice: Zoë] x", "Zoë", "add it to")]
)
def test_unknown_characters(text: str, name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"chapter 1: '{name}' is not in the cast c.json") as caught:
        spoken(text, "Anna", "Ben")
    assert caught.value.cause == "it has Anna, Ben" and str(caught.value.hint).startswith(hint)


def write(table: Any) -> str:
    Path("cast.json").write_text(table if isinstance(table, str) else json.dumps(table), "utf-8")
    return "cast.json"


def test_every_kind_of_voice(home: Path) -> None:
    Path("b.wav").write_bytes(b"")
    cast = read_cast(
        write(
            {
                "A": "clara", "B": {"ref_audio": "b.wav", "ref_text": "words"},
                "C": {"description": "a low voice", "seed": 3},
                "D": {"voice": "d.voice", "instruct": "whisper", "speed": 1.2}, "E": {"style": "sad"},
            }
        )
    )  # fmt: skip
    kinds = {name: member.speaker for name, member in cast.members.items()}
    assert kinds == {
        "A": VoiceChoice("voice", "clara"), "B": VoiceChoice("clip", "b.wav", "words"),
        "C": VoiceChoice("design", "a low voice"), "D": VoiceChoice("voice", "d.voice"), "E": VoiceChoice(),
    }  # fmt: skip
    assert (cast.members["D"].style, cast.members["D"].speed, cast.members["C"].seed) == ("whisper", 1.2, 3)


def test_a_style_for_all_names_who_cannot_take_it(home: Path) -> None:
    read_cast(write({"A": "clara", "B": {"description": "deep", "style": ""}})).check_style("sad")
    described = read_cast(write({"A": "clara", "B": {"description": "deep"}}))
    described.check_style(None)
    with pytest.raises(UsageError, match=r"--style does not work with B, a described voice of cast\.json") as caught:
        described.check_style("sad")
    assert "leave --style out" in str(caught.value.hint)


@pytest.mark.parametrize(("table", "message"), [
    ("{", "JSON"), ('{"A": {}, "A": {}}', "twice"), ([], "is not"),
    ({}, "is not an object"), ({"A": {"voice": 3}}, "voice is not text"),
    ({"A": 3}, "neither an object nor a voice"), ({"A": {"voise": "x"}}, "did you mean 'voice'"),
    ({"A": {"voice": "x", "description": "y"}}, "both voice and description"),
    ({"A": {"ref_audio": "gone.wav"}}, "gone.wav does not exist"), ({"A": {"ref_text": "x"}}, "needs ref_audio"),
    ({"A": {"speed": 9}}, "speed 9 is not a number from 0.5 to 2"), ({"A": {"seed": "x"}}, "seed 'x' is not"),
    ({"A": {"ref_audio": "b.wav", "ref_text": " "}}, "ref_text is empty"),
    ({"A": {"description": "deep", "style": "sad"}}, "A: style does not work with a described voice"),
    ({"A": {"ref_audio": "b.wav", "instruct": "sad"}}, "A: style does not work with a cloned voice"),
    ({"A": {"description": "an old woman", "style": "sad"}}, '\n{"description": "an old woman, sad"}\n'),
    ({"A": {"ref_audio": "b.wav", "style": "sad"}}, "give the character a voice of the model"),
])  # fmt: skip
def test_casts_that_cannot_be_used(table: Any, message: str, home: Path) -> None:
    Path("b.wav").write_bytes(b"")
    with pytest.raises(InputError) as caught:
        read_cast(write(table))
    assert caught.value.hint
    assert message in f"{caught.value.message} {caught.value.cause}\n{caught.value.hint}\n"
