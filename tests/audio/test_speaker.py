"""The loudspeaker: the pre-buffer, the end, a device that goes away. PortAudio is played by a stand-in."""

import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from patience import LONG_S

from omnitts_cli.audio import speaker
from omnitts_cli.audio.speaker import PortAudioOutput, SpeakerSink, list_devices, open_speaker
from omnitts_cli.errors import DeviceError, GuardError

TONE = (0.2 * np.sin(np.arange(24000) * 0.1)).astype(np.float32)


class Stream:
    """A stream whose clock is the test's: `turn` asks for a block of sound."""

    made: list["Stream"] = []  # noqa: RUF012

    def __init__(self, samplerate: int, callback: Any, finished_callback: Any, **_: Any) -> None:
        if samplerate not in FakePortAudio.rates:
            raise FakePortAudio.PortAudioError("Invalid sample rate")
        self.samplerate, self.callback, self.finished = samplerate, callback, finished_callback
        self.closed = self.aborted = False
        Stream.made.append(self)

    def start(self) -> None: ...

    def turn(self, frames: int = 480) -> np.ndarray:
        out = np.full((frames, 1), 9.0, np.float32)
        self.callback(out, frames, None, None)
        return out[:, 0]

    def stop(self) -> None: ...

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.closed = True


class FakePortAudio(types.ModuleType):
    PortAudioError = type("PortAudioError", (Exception,), {})
    OutputStream = Stream
    rates: set[int] = {24000, 44100}  # noqa: RUF012
    devices = [  # noqa: RUF012
        {"name": "Microphone", "max_output_channels": 0, "default_samplerate": 44100.0},
        {"name": "Built-in", "max_output_channels": 2, "default_samplerate": 44100.0},
        {"name": "Headset", "max_output_channels": 2, "default_samplerate": 44100.0},
    ]
    default = types.SimpleNamespace(device=[0, 1])

    def query_devices(self, device: int | str | None = None, kind: str | None = None) -> Any:
        if kind is None:
            return self.devices
        if isinstance(device, str):
            for found in self.devices:
                if device in str(found["name"]):
                    return found
            raise ValueError(f"No output device matching '{device}'")
        return self.devices[1 if device is None else device]


@pytest.fixture
def portaudio(monkeypatch: pytest.MonkeyPatch) -> FakePortAudio:
    fake = FakePortAudio("sounddevice")
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    monkeypatch.setattr(FakePortAudio, "rates", {24000, 44100})
    Stream.made.clear()
    return fake


@pytest.fixture
def playing(portaudio: FakePortAudio) -> Iterator[tuple[SpeakerSink, Stream]]:
    """A loudspeaker, and what PortAudio asks of it."""
    sink = open_speaker(24000)
    (stream,) = Stream.made
    yield sink, stream
    sink.discard()


def test_nothing_plays_before_the_prebuffer_is_full(playing: tuple[SpeakerSink, Stream]) -> None:
    sink, stream = playing
    sink.write(TONE[:2400])
    assert not stream.turn().any(), "0.1 s is stored, 0.2 s are wanted"
    sink.write(TONE[2400:4800])
    assert np.array_equal(stream.turn(), TONE[:480])
    assert np.array_equal(stream.turn(100), TONE[480:580])
    assert sink.played_s == pytest.approx(580 / 24000)
    assert sink.level == pytest.approx(0.1414, abs=0.01)
    sink.discard()
    assert stream.aborted and stream.closed


def test_running_dry_counts_as_a_stutter_and_fills_again(playing: tuple[SpeakerSink, Stream]) -> None:
    sink, stream = playing
    sink.write(TONE[:4800])
    stream.turn(4800)
    assert not stream.turn().any()
    assert sink.stutters == 1
    sink.write(TONE[:480])
    assert not stream.turn().any(), "filling again"


def test_finishing_plays_everything_and_a_little_silence(playing: tuple[SpeakerSink, Stream]) -> None:
    sink, stream = playing
    played_blocks: list[np.ndarray] = []
    ended = threading.Event()

    def clock() -> None:
        while not ended.is_set():
            played_blocks.append(stream.turn())
            ended.wait(0.001)

    thread = threading.Thread(target=clock)
    sink.write(TONE[:1000])
    thread.start()
    sink.finish()
    ended.set()
    thread.join()
    played = np.concatenate(played_blocks)
    first = int(np.argmax(played != 0.0)) - 1  # the tone begins with a zero
    assert np.array_equal(played[first : first + 1000], TONE[:1000])
    assert not played[first + 1000 : first + 1000 + 4800].any()
    assert sink.played_s >= (1000 + 4800) / 24000 and stream.closed


def test_a_pause_holds_the_sound(playing: tuple[SpeakerSink, Stream]) -> None:
    sink, stream = playing
    sink.write(TONE[:9600])
    sink.pause()
    assert not stream.turn().any()
    sink.pause(False)
    assert np.array_equal(stream.turn(), TONE[:480])


def test_a_long_backlog_makes_the_writer_wait(
    playing: tuple[SpeakerSink, Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaker, "BACKLOG_S", 0.5)
    sink, stream = playing
    writer = threading.Thread(target=lambda: sink.write(TONE))
    writer.start()
    writer.join(0.2)
    assert writer.is_alive()
    for _ in range(40):
        stream.turn(480)
    writer.join(LONG_S)
    assert not writer.is_alive()


def test_a_device_that_goes_away_ends_the_waiting(playing: tuple[SpeakerSink, Stream]) -> None:
    sink, stream = playing
    sink.write(TONE)
    stream.finished()
    with pytest.raises(DeviceError, match="disappeared") as caught:
        sink.finish()
    assert caught.value.exit_code == 5


def test_a_device_with_one_rate_only(portaudio: FakePortAudio, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakePortAudio, "rates", {44100})
    sink = open_speaker(24000)
    (stream,) = Stream.made
    assert stream.samplerate == 44100
    sink.write(TONE)
    sink.write(TONE)
    assert np.max(np.abs(stream.turn(44100))) == pytest.approx(0.2, abs=0.01)
    sink.discard()


def test_devices_are_listed_and_chosen(portaudio: FakePortAudio) -> None:
    assert list_devices() == ["1: Built-in (default)", "2: Headset"]
    open_speaker(24000, "Headset").discard()
    open_speaker(24000, "2").discard()
    with pytest.raises(DeviceError, match="no sound output 'Toaster'") as caught:
        open_speaker(24000, "Toaster")
    assert caught.value.hint == "--audio-device list"


def test_a_machine_without_sound(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="no sound output on this machine") as caught:
        open_speaker(24000)
    assert caught.value.exit_code == 5
    assert "pw-play, paplay, aplay and ffplay" in (caught.value.cause or "")


def test_a_missing_library_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)  # an import of None is an ImportError
    with pytest.raises(DeviceError, match="PortAudio cannot be loaded") as caught:
        PortAudioOutput(24000)
    assert "libportaudio2" in (caught.value.hint or "")


def test_nan_is_not_played(playing: tuple[SpeakerSink, Stream]) -> None:
    sink, _ = playing
    with pytest.raises(GuardError):
        sink.write(np.full(10, np.nan, np.float32))
    sink.discard()  # and once more at the end
