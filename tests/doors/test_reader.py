"""What a screen reader asks for as sound: the parts of a message and the silence before a key."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from omnitts_cli.doors import reader
from omnitts_cli.doors.reader import MarkedWords, Reader, Utterance, parts_of, without_lead
from omnitts_cli.settings.table import Speech
from omnitts_cli.speech.clip import Chunk


@pytest.mark.parametrize(("text", "parts"), [
    ("Plain <text>.", [MarkedWords("Plain <text>.")]),
    ("<speak>One &amp; two.</speak>", [MarkedWords("One & two.")]),
    ('<speak>One.<mark name="a"/>Two.</speak>', [MarkedWords("One.", "a"), MarkedWords("Two.")]),
    ("<speak xml:lang='en'>One.<mark name='b'></mark></speak>\n", [MarkedWords("One.", "b"), MarkedWords("")]),
    ('<speak>A <sub alias="b">c</sub>.</speak>',
     [MarkedWords('<speak>A <sub alias="b">c</sub>.</speak>', tagged=True)]),
    ('<speak><p>One.<mark name="a"/>Two.</p></speak>', [MarkedWords(" One.", "a"), MarkedWords("Two. ")]),
])  # fmt: skip
def test_a_message_is_cut_at_its_marks(text: str, parts: list[MarkedWords]) -> None:
    assert parts_of(text) == parts


def test_a_document_type_is_not_followed() -> None:
    bomb = '<speak><!DOCTYPE x [<!ENTITY a "aaaa">]><s>&a;</s></speak>'
    assert not any(part.tagged for part in parts_of(bomb))


def test_silence_before_a_key_is_left_out() -> None:
    sound = np.concatenate([np.zeros(1000, np.float32), np.full(10, 0.5, np.float32)])
    assert without_lead(sound, 8000).size == 10 + 80
    assert without_lead(sound[:500], 8000).size == 0


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The text, the voice and the settings of each stream that is opened."""
    monkeypatch.setattr(reader, "script_of", lambda text, how, language: text)
    return []


class Sound(list[Chunk]):
    """A stream of which everything is there already."""

    def close(self) -> None:
        pass


def speaking(opened: list[tuple[Any, ...]], speech: Speech | None = None, **settings: str) -> Reader:
    def begin(script: Any, voice: Any, how: Any, speech: Any, **more: Any) -> Any:
        opened.append((script, voice, how, speech, more))
        return Sound([Chunk(np.ones(80, np.float32), 8000, None)])

    about = {"ann": "a woman", "bea": "a lady", "carl": "a calm man", "dan": "an old man"}
    model = SimpleNamespace(speakers=about)
    tts: Any = SimpleNamespace(
        voices=(*about, "saved"),
        languages=("en", "de"),
        sample_rate=8000,
        engine=SimpleNamespace(model=model),
        open=begin,
    )
    return Reader(tts, speech or Speech(), settings)


@pytest.mark.parametrize(
    ("settings", "voice"),
    [({"voice": "male1"}, "carl"), ({"voice": "male2"}, "dan"), ({"voice": "male3"}, "carl"),
     ({"voice": "FEMALE2"}, "bea"), ({"voice": "child_female"}, "ann"), ({"voice": "unknown"}, None), ({}, None),
     ({"voice": "male1", "synthesis_voice": "saved"}, "saved"),
     ({"voice": "male1", "synthesis_voice": "of another module"}, "carl")],
)  # fmt: skip
def test_a_voice_is_chosen_by_its_name_or_its_type(
    opened: list[tuple[Any, ...]], settings: dict[str, str], voice: str | None
) -> None:
    list(speaking(opened, **settings).message(Utterance(), "Hello."))
    assert opened[0][1] == voice
    list(speaking(opened, Speech(voice="bea"), **settings).message(Utterance(), "Hello."))
    assert opened[1][1] == ("saved" if voice == "saved" else "bea")


def test_the_modes_change_the_words(opened: list[tuple[Any, ...]]) -> None:
    def said(text: str, **settings: str) -> str:
        list(speaking(opened, **settings).message(Utterance(), text))
        return str(opened[-1][0])

    assert said("Hi (you).") == said("<speak>Hi (you).</speak>") == "Hi (you)."
    assert said("Hi (you).", punctuation_mode="most") == "Hi  left paren you right paren ."
    assert said("Hi.", spelling_mode="on", cap_let_recogn="spell") == "capital H, I, dot"
    assert said('<speak>a<b&amp;b> <sub alias="d">c</sub></speak>', punctuation_mode="some").startswith("a")
    tagged = said('<speak>a &lt; b <sub alias="d">c</sub></speak>', punctuation_mode="some")
    assert tagged == '<speak>a  less  b <sub alias="d">c</sub></speak>' and opened[-1][2].input_format == "ssml"


def test_rate_and_language_are_followed_where_they_can_be(opened: list[tuple[Any, ...]]) -> None:
    for settings, speed, language in (
        ({"rate": "100", "language": "de-AT"}, 3.0, "de"), ({"rate": "-100", "language": "fr"}, 1 / 3, "auto"),
        ({}, 1.0, "auto"),
    ):  # fmt: skip
        list(speaking(opened, **settings).message(Utterance(), "Hello."))
        assert opened[-1][3].speed == pytest.approx(speed) and opened[-1][3].language == language


def test_a_name_is_kept_for_each_voice_and_not_if_it_was_cut(opened: list[tuple[Any, ...]]) -> None:
    one = speaking(opened)
    for _ in range(2):
        assert sum(part.size for part in one.name(Utterance(), "a")) == 80
    assert len(opened) == 1
    assert sum(part.size for part in one.name(Utterance("703 STOP"), "b")) == 80
    list(one.name(Utterance(), "b"))
    assert [found[0] for found in opened] == ["A", "B", "B"]


def test_usual_keys_are_prepared_once_for_each_voice(opened: list[tuple[Any, ...]]) -> None:
    settings = {"voice": "male1"}
    one = speaking(opened)
    one._settings = settings
    one.prepare(Utterance())
    count = len(opened)
    assert count > 90 and not any(found[4]["urgent"] for found in opened)
    assert sum(part.size for part in one.name(Utterance(), "q")) == 80 and len(opened) == count
    one.prepare(Utterance())
    assert len(opened) == count
    settings["voice"] = "female1"
    one.prepare(Utterance("left"))
    assert len(opened) == count
    one.prepare(Utterance())
    assert len(opened) == 2 * count
