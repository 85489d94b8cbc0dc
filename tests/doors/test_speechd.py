"""The module of Speech Dispatcher: each command of its protocol, over pipes, with the toy model."""

import os
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from patience import LONG_S, eventually, first_sound_only

from omnitts_cli.doors import ahead
from omnitts_cli.doors.speechd import LONGEST, Module
from omnitts_cli.errors import ModelError
from omnitts_cli.settings.table import Speech
from omnitts_cli.speech import tts

LONG = "A text that goes on and on. " * 30


class Pipes:
    """A module on a thread of its own, seen from the server."""

    def __init__(self, load: Any = None) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self.send, self.answers = os.fdopen(ours[1], "wb", 0), os.fdopen(theirs[0], "rb")
        self._in, self._out = os.fdopen(ours[0], "rb"), os.fdopen(theirs[1], "wb", 0)
        self.notes: list[str] = []
        load = load or (lambda: tts.load("random:toy", threads=1, slots=2, device="cpu"))
        self.module = Module(load, Speech(), self._in, self._out, self.notes.append)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.module.run()
        self._out.close()

    def say(self, *lines: str) -> None:
        self.send.write("".join(f"{line}\n" for line in lines).encode())

    def line(self) -> bytes:
        return self.answers.readline()

    def answer(self) -> list[str]:
        """The lines up to one without a dash."""
        found = []
        while not found or found[-1][3:4] == "-":
            found.append(self.line().decode().rstrip("\n"))
        return found

    def ask(self, *lines: str) -> str:
        self.say(*lines)
        return self.answer()[-1]

    def set(self, **values: object) -> str:
        assert self.ask("SET") == "207 OK RECEIVING SETTINGS"
        return self.ask(*(f"{name}={value}" for name, value in values.items()), ".")

    def begin(self, command: str, *text: str) -> str:
        assert self.ask(command) == "202 OK RECEIVING MESSAGE"
        return self.ask(*text, ".")

    def event(self) -> tuple[str, bytes]:
        """The next event: its last line, and the samples or the name of a mark."""
        shape: dict[str, int] = {}
        data = b""
        while True:
            line = self.line()
            name, dash, rest = line[:3], line[3:4], line[4:-1]
            assert name.startswith(b"7"), line
            if dash == b" ":
                if shape:
                    assert shape["bits"] == 16 and shape["num_channels"] == 1 and not shape["big_endian"]
                    assert len(data) == 2 * shape["num_samples"]
                return f"{name.decode()} {rest.decode()}", data
            if rest.startswith(b"AUDIO\0"):
                data = re.sub(rb"\x7d(.)", lambda found: bytes([found[1][0] ^ 0x20]), rest[6:], flags=re.DOTALL)
            elif name == b"705":
                key, _, value = rest.partition(b"=")
                shape[key.decode()] = int(value)
            else:
                data = rest

    def events(self) -> list[tuple[str, bytes]]:
        found = [self.event()]
        while found[-1][0] not in ("702 END", "703 STOP", "704 PAUSE"):
            found.append(self.event())
        return found

    def sound(self, command: str, *text: str) -> np.ndarray:
        assert self.begin(command, *text) == "200 OK SPEAKING"
        found = self.events()
        assert found[0][0] == "701 BEGIN" and found[-1][0] == "702 END"
        return np.frombuffer(b"".join(data for name, data in found if name == "705 AUDIO"), "<i2")


@pytest.fixture(scope="module")
def pipes() -> Iterator[Pipes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead, "IDLE_S", LONG_S)  # nothing is prepared
        yield from opened_pipes()


def opened_pipes() -> Iterator[Pipes]:
    found = Pipes()
    assert found.ask("INIT") == "299 OK LOADED SUCCESSFULLY"
    yield found
    found.send.close()
    found.thread.join(LONG_S)
    assert not found.thread.is_alive() and found.notes == []


@pytest.fixture(autouse=True)
def plain(request: pytest.FixtureRequest) -> None:
    if "pipes" in request.fixturenames:
        found = request.getfixturevalue("pipes")
        found.set(rate=0, pitch=0, volume=100, punctuation_mode="none", spelling_mode="off", cap_let_recogn="none",
                  voice="male1", language="en", synthesis_voice="NULL")  # fmt: skip


def test_init_says_what_was_loaded_or_why_it_was_not() -> None:
    def fail() -> tts.TTS:
        raise ModelError("there is not a model\nof that name")

    broken = Pipes(fail)
    broken.say("INIT")
    assert broken.answer() == ["399-there is not a model of that name", "399 ERR CANT INIT MODULE"]
    assert broken.begin("SPEAK", "Hello.") == "301 ERROR CANT SPEAK"
    assert broken.ask("LIST VOICES") == "304 CANT LIST VOICES"
    assert broken.ask("QUIT") == "210 OK QUIT" and broken.line() == b""


def test_audio_goes_to_the_server_only(pipes: Pipes) -> None:
    assert pipes.ask("AUDIO") == "207 OK RECEIVING AUDIO SETTINGS"
    assert pipes.ask("audio_output_method=server", ".") == "203 OK AUDIO INITIALIZED"
    assert pipes.ask("AUDIO") == "207 OK RECEIVING AUDIO SETTINGS"
    assert pipes.ask("audio_output_method=alsa", ".").startswith("303")


def test_loglevel_and_debug_are_taken(pipes: Pipes) -> None:
    assert pipes.ask("LOGLEVEL") == "207 OK RECEIVING LOGLEVEL SETTINGS"
    assert pipes.ask("log_level=3", ".") == "203 OK LOGLEVEL SET"
    assert pipes.ask("DEBUG ON /tmp/log") == "200 OK DEBUGGING ON" and pipes.ask("DEBUG OFF") == "200 OK DEBUGGING OFF"
    assert pipes.ask("DEBUG") == "302 ERROR BAD SYNTAX"


def test_voices_are_listed_with_their_language(pipes: Pipes) -> None:
    pipes.say("LIST VOICES")
    *voices, last = pipes.answer()
    assert last == "200 OK VOICE LIST SENT"
    assert voices and all(re.fullmatch(r"200-\S+\t\S+\t\S+", one) for one in voices)


@pytest.mark.parametrize(
    ("lines", "code"),
    [(["rate=200"], "303"), (["rate=fast"], "303"), (["punctuation_mode=many"], "303"), (["unknown=1"], "303"),
     (["rate"], "302"), (["=1"], "302"), (["rate=1", "volume=7"], "203"), ([], "203")],
)  # fmt: skip
def test_set_checks_its_values(pipes: Pipes, lines: list[str], code: str) -> None:
    assert pipes.ask("SET") == "207 OK RECEIVING SETTINGS"
    assert pipes.ask(*lines, ".").startswith(code)


def test_a_message_is_spoken(pipes: Pipes) -> None:
    sound = pipes.sound("SPEAK", "Hello there.")
    assert sound.size > 1000 and np.abs(sound).max() > 100
    assert pipes.sound("SPEAK", "<speak>Hello there.</speak>").size == sound.size
    assert pipes.sound("SPEAK", "First line,", "..second line.").size > 1000


def test_index_marks_come_between_the_sounds(pipes: Pipes) -> None:
    text = "<speak>First one. <mark name=\"__spd_0\"/>Second one.<mark name='__spd_1'/> A &lt;tag&gt;.</speak>"
    assert pipes.begin("SPEAK", text) == "200 OK SPEAKING"
    found = pipes.events()
    names = [data.decode() if name == "700 INDEX MARK" else name for name, data in found]
    runs = [name for n, name in enumerate(names) if n == 0 or names[n - 1] != name]
    assert runs == ["701 BEGIN", "705 AUDIO", "__spd_0", "705 AUDIO", "__spd_1", "705 AUDIO", "702 END"]


def test_ssml_that_is_cut_or_unknown_is_read_without_its_tags(pipes: Pipes) -> None:
    for text in ('<speak><p>One.<mark name="a"/> Two.</p></speak>', "<speak><unknown>One.</unknown></speak>",
                 "<speak>One <b>two.</speak>", '<speak>One.<break time="10ms"/> Two.</speak>'):  # fmt: skip
        assert pipes.sound("SPEAK", text).size > 500


def test_characters_keys_and_icons_are_named_and_kept(pipes: Pipes) -> None:
    first = pipes.sound("CHAR", "a")
    engine = pipes.module.reader.tts.engine.engine  # type: ignore[union-attr]
    submitted = engine.snapshot()
    assert np.array_equal(pipes.sound("CHAR", "a"), first) and engine.snapshot() == submitted
    assert first.size and pipes.sound("KEY", "shift_a").size and pipes.sound("SOUND_ICON", "message").size
    assert pipes.sound("CHAR", "space").size
    pipes.set(rate=100)
    fast = pipes.sound("CHAR", "a")
    assert fast.size == pytest.approx(first.size / 3, abs=2)


def test_rate_and_volume_change_the_sound(pipes: Pipes) -> None:
    usual = pipes.sound("SPEAK", "Hello there.")
    pipes.set(rate=100)
    assert pipes.sound("SPEAK", "Hello there.").size == pytest.approx(usual.size / 3, rel=0.02)
    pipes.set(rate=-50)
    assert pipes.sound("SPEAK", "Hello there.").size == pytest.approx(usual.size * 3**0.5, rel=0.02)
    pipes.set(rate=0, volume=0)
    half = pipes.sound("SPEAK", "Hello there.")
    assert np.abs(half).max() == pytest.approx(np.abs(usual).max() / 2, abs=2)


@pytest.mark.parametrize(("command", "event"), [("STOP", "703 STOP"), ("PAUSE", "704 PAUSE")])
def test_stop_and_pause_end_a_message_at_once(pipes: Pipes, command: str, event: str) -> None:
    """While the engine stands still: they wait for nothing that it makes."""
    engine = pipes.module.reader.tts.engine.engine  # type: ignore[union-attr]
    eventually(lambda: not engine.busy)
    with first_sound_only(engine):
        assert pipes.begin("SPEAK", LONG) == "200 OK SPEAKING"
        while pipes.event()[0] != "705 AUDIO":
            pass
        pipes.say(command)
        assert pipes.events()[-1][0] == event
    assert pipes.sound("CHAR", "b").size  # and the next is spoken
    pipes.say(command)  # nothing is spoken now: no event
    assert pipes.ask("DEBUG OFF") == "200 OK DEBUGGING OFF"


def test_keys_are_prepared_while_nothing_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "IDLE_S", 0.0)
    one = Pipes()
    assert one.ask("INIT").startswith("299")
    reader: Any = eventually(lambda: one.module.reader)
    eventually(lambda: len(reader._kept) > 2)
    assert one.sound("SPEAK", "Hello there.").size  # in between
    kept = len(reader._kept)
    eventually(lambda: len(reader._kept) > kept)
    one.send.close()
    one.thread.join(LONG_S)
    assert not one.thread.is_alive() and one.notes == []


def test_what_cannot_be_spoken_is_refused_or_silent(pipes: Pipes) -> None:
    assert pipes.ask("NONSENSE") == "300 ERR UNKNOWN COMMAND"
    assert pipes.ask("SPEAK") and pipes.ask(".") == "301 ERROR CANT SPEAK"
    assert pipes.begin("CHAR", "a", "b") == "305 DATA MORE THAN ONE LINE"
    assert pipes.begin("SPEAK", "x" * LONGEST) == "301 ERROR CANT SPEAK"
    assert pipes.sound("SPEAK", "...").size == 0
    assert pipes.sound("SPEAK", "\xff\x00 Hello.").size > 500


def test_a_second_message_must_wait(pipes: Pipes) -> None:
    engine = pipes.module.reader.tts.engine.engine  # type: ignore[union-attr]
    eventually(lambda: not engine.busy)
    with first_sound_only(engine):
        assert pipes.begin("SPEAK", LONG) == "200 OK SPEAKING"
        while pipes.event()[0] != "705 AUDIO":
            pass
        pipes.say("SPEAK", "More.", ".", "STOP")
        found = []
        while not found or found[-1][:3] != "703":
            found.append(pipes.line().decode("latin-1").rstrip("\n"))
    assert "202 OK RECEIVING MESSAGE" in found and "301 ERROR CANT SPEAK" in found


def test_quit_and_the_end_of_the_input_end_it_in_the_middle() -> None:
    for leave in (lambda one: one.say("QUIT"), lambda one: one.send.close()):
        one = Pipes()
        assert one.ask("INIT").startswith("299")
        assert one.begin("SPEAK", LONG) == "200 OK SPEAKING"
        leave(one)
        while one.line():
            pass
        one.thread.join(LONG_S)
        assert not one.thread.is_alive()
