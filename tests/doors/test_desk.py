"""The desk of a host: its queue, its turn among other programs, and the folders into which it writes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import LONG_S, eventually

from omnitts_cli.doors import desk as desks
from omnitts_cli.doors.desk import Desk
from omnitts_cli.errors import DeviceError, OmniError
from omnitts_cli.settings.table import Speech
from omnitts_cli.speech import tts


class Loudspeaker:
    """Sound that is heard when `go` is set; all that is heard is in `heard`."""

    heard: list[str]

    def __init__(self, name: str, heard: list[str], go: threading.Event) -> None:
        self.name, self.heard, self.go = name, heard, go
        self.samples, self.discarded = 0, threading.Event()
        heard.append(f"{name} begins")

    def write(self, samples: np.ndarray) -> None:
        self.samples += samples.size

    def finish(self) -> None:
        while not (self.go.wait(0.01) or self.discarded.is_set()):
            pass
        if self.discarded.is_set():
            raise DeviceError("the sound output disappeared")
        self.heard.append(f"{self.name} ends")

    def discard(self) -> None:
        self.discarded.set()
        self.heard.append(f"{self.name} stops")


@pytest.fixture(scope="module")
def model() -> Iterator[tts.TTS]:
    with tts.load("random:toy", threads=1, slots=2, device="cpu") as found:
        yield found


@pytest.fixture
def go() -> threading.Event:
    return threading.Event()


@pytest.fixture
def heard() -> list[str]:
    return []


Make = Callable[..., Desk]


@pytest.fixture
def make(home: Path, model: tts.TTS, heard: list[str], go: threading.Event) -> Iterator[Make]:
    made: list[Desk] = []

    @contextmanager
    def opened() -> Iterator[tts.TTS]:
        yield model

    def begin(name: str = "one", **more: Any) -> Desk:
        given = {"speaker": lambda rate: Loudspeaker(name, heard, go), **more}
        made.append(Desk(opened, given.pop("speaker"), Speech(), **given))
        return made[-1]

    yield begin
    go.set()
    for one in made:
        one.close()


def test_texts_are_heard_one_at_a_time_in_order(make: Make, heard: list[str], go: threading.Event) -> None:
    desk = make()
    assert desk.speak("First.") == {"state": "queued", "before_it": 0}
    assert desk.speak("Second.")["before_it"] == 1
    eventually(lambda: heard == ["one begins"])
    status = desk.status()
    assert status["now"] == [{"state": "speaking", "text": "First."}] and status["queued"][0]["text"] == "Second."
    go.set()
    done = desk.speak("Third.", wait=True)
    assert done["state"] == "spoken" and done["seconds"] > 0
    assert heard == ["one begins", "one ends"] * 3 and desk.status()["now"] == []


def test_two_desks_take_turns(make: Make, heard: list[str], go: threading.Event) -> None:
    one, other = make("one"), make("other")
    one.speak("First.")
    eventually(lambda: heard == ["one begins"])
    other.speak("Second.")
    eventually(lambda: other.status()["now"][0]["state"] == "waiting")
    assert heard == ["one begins"]
    go.set()
    eventually(lambda: len(heard) == 4)
    assert heard == ["one begins", "one ends", "other begins", "other ends"]


def test_stop_ends_what_is_spoken_waits_and_is_queued(make: Make, heard: list[str], go: threading.Event) -> None:
    one, other = make("one"), make("other")
    one.speak("First.")
    eventually(lambda: heard == ["one begins"])
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(other.speak("Second.", wait=True)))
    thread.start()
    eventually(lambda: other.status()["now"])
    other.speak("Third.")
    assert other.stop() == {"stopped": 2}
    thread.join(LONG_S)
    assert results == [{"state": "stopped", "seconds": 0}]
    assert one.stop() == {"stopped": 1} and one.stop() == {"stopped": 0}
    eventually(lambda: one.status()["now"] == [])
    assert heard == ["one begins", "one stops"]
    go.set()
    assert one.speak("Again.", wait=True)["state"] == "spoken"


def test_a_call_can_be_cancelled_alone(make: Make, heard: list[str], go: threading.Event) -> None:
    desk, acts = make(), []
    desk.speak("First.", on_cancel=acts.append)
    desk.speak("Second.")
    eventually(lambda: heard == ["one begins"])
    acts[0]()
    go.set()
    eventually(lambda: desk.status()["now"] == [])
    assert heard == ["one begins", "one stops", "one begins", "one ends"]


def test_what_cannot_be_spoken_is_an_error_and_the_next_text_is_spoken(make: Make, go: threading.Event) -> None:
    notes: list[str] = []
    go.set()
    desk = make(note=notes.append)
    for wrong in ({"text": "  "}, {"text": "Hi.", "voice": "nobody"}, {"text": "Hi.", "voice": "/etc/x.voice"}):
        with pytest.raises(OmniError):
            desk.speak(**wrong)
    with pytest.raises(OmniError):
        desk.speak("...", wait=True)
    assert notes and desk.speak("Hello.", wait=True)["state"] == "spoken"


def test_a_machine_without_sound_says_so(make: Make) -> None:
    def silent(rate: int) -> Any:
        raise DeviceError("there is no sound output on this machine")

    desk = make(speaker=silent)
    with pytest.raises(DeviceError):
        desk.speak("Hello.", wait=True)


def test_the_queue_has_an_end(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "MOST_QUEUED", 2)
    desk = make()
    desk.speak("One.")
    desk.speak("Two.")
    with pytest.raises(OmniError):
        desk.speak("Three.")


def test_files_go_into_allowed_folders_only(make: Make, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    (inside / "deeper").mkdir(parents=True)
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "file.wav").symlink_to(outside / "file.wav")
    (inside / "taken.wav").write_text("mine")
    desk = make(folders=[inside])
    assert desk.save("Hello.", "one.wav")["path"] == str(inside / "one.wav")
    assert desk.save("Hello.", str(inside / "deeper" / "two.flac"))["seconds"] > 0
    assert (inside / "one.wav").read_bytes()[:4] == b"RIFF" and (inside / "deeper" / "two.flac").exists()
    for path in ("../three.wav", str(outside / "x.wav"), "link/x.wav", "file.wav", "/etc/x.wav", "deeper/../../x.wav",
                 "none/x.wav", "taken.wav", "notes.txt", "noending", ".wav", "", ".", "a\0b.wav",
                 str(inside)):  # fmt: skip
        with pytest.raises(OmniError):
            desk.save("Hello.", path)
    assert list(outside.iterdir()) == [] and (inside / "taken.wav").read_text() == "mine"
    assert not list(tmp_path.glob("*.wav"))
    with pytest.raises(OmniError):
        make().save("Hello.", "one.wav")


def test_voices_and_state_are_told(make: Make, model: tts.TTS) -> None:
    desk = make()
    before = desk.status()
    listed = desk.list_voices()
    assert [voice["name"] for voice in listed["voices"]] == list(model.voices) and listed["default"] in model.voices
    assert before["model"] is None and desk.status()["model"] == model.engine.model.name
    assert desk.status()["through"] == "local"


def test_a_folder_that_others_can_write_to_is_not_used(make: Make, home: Path, go: threading.Event) -> None:
    (home / "run" / "omnitts").mkdir(parents=True)
    (home / "run" / "omnitts").chmod(0o777)
    go.set()
    with pytest.raises(OmniError):
        make().speak("Hello.", wait=True)
