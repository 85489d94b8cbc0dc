"""SpeakerSink: sound out of this machine, through PortAudio, else through a player program.

PortAudio is imported only here: on a machine without sound the import itself fails.
"""

import math
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.audio.pcm import require_finite, silence
from omnitts_cli.audio.player import PlayerOutput, find_player
from omnitts_cli.audio.resample import Resampler
from omnitts_cli.audio.sinks import Sink
from omnitts_cli.errors import DeviceError

PREBUFFER_S = 0.2
"""Sound that is stored before the first sample plays, and again after a stutter."""

BACKLOG_S = 30.0
"""Sound stored at most; `write` waits beyond it, so that an hour of speech is not held in memory."""

TAIL_S = 0.2
"""Silence at the end of playing: players cut the tail."""

FEED_S = 0.1
WAKE_S = 0.1


class SpeakerSink(Sink):
    """Plays while it is written to. `pause` holds the sound; `stop` of it is `discard`."""

    def __init__(self, output: "PortAudioOutput | PlayerOutput", source_rate: int = 24_000) -> None:
        super().__init__()
        self.output = output
        self._levels: deque[tuple[float, float]] = deque()  # (end in seconds, RMS 0..1) of what is not played yet
        self._written_s = 0.0
        self._resampler = Resampler(source_rate, output.rate)
        self._feed = max(1, int(output.rate * FEED_S))
        self._open = True

    @property
    def played_s(self) -> float:
        """Seconds of sound that were played."""
        return self.output.played_s

    @property
    def stutters(self) -> int:
        """How often the stored sound ran out."""
        return self.output.stutters

    @property
    def level(self) -> float:
        """RMS of what is played now, 0..1; 0 when nothing is."""
        played_s = self.output.played_s
        while self._levels and self._levels[0][0] <= played_s:
            self._levels.popleft()
        return self._levels[0][1] if self._levels else 0.0

    def write(self, samples: np.ndarray) -> None:
        require_finite(samples)
        self._play(self._resampler.feed(samples))

    def _play(self, samples: np.ndarray) -> None:
        for start in range(0, samples.size, self._feed):
            block = np.clip(samples[start : start + self._feed], -1.0, 1.0)
            self._written_s += block.size / self.output.rate
            self._levels.append((self._written_s, math.sqrt(float(np.mean(np.square(block, dtype=np.float64))))))
            self.output.write(block)

    def pause(self, paused: bool = True) -> None:
        """Holds the sound, or lets it go on."""
        self.output.pause(paused)

    def finish(self) -> None:
        """Returns when the last sample was played."""
        if self._open:
            self._play(self._resampler.flush())
            self._play(silence(TAIL_S, self.output.rate))
            self.output.drain()
            self._open = False

    def interrupt(self) -> Path | None:
        self.discard()
        return None

    def discard(self) -> None:
        if self._open:
            self._open = False
            self.output.stop()


def open_speaker(source_rate: int = 24_000, device: str | None = None) -> SpeakerSink:
    """The sink of --play: the named device, else the default one, else a player program; DeviceError without any.

    Called before a model is loaded: a machine without sound says so at once.
    """
    try:
        return SpeakerSink(PortAudioOutput(source_rate, device), source_rate)
    except DeviceError as error:
        if device is not None:
            raise
        reason = error
    player = find_player(source_rate)
    if player is not None:
        return SpeakerSink(player, source_rate)
    raise DeviceError(
        "there is no sound output on this machine",
        cause=f"{reason.message}; pw-play, paplay, aplay and ffplay were tried too",
        hint="-o speech.wav writes a file; omnitts doctor shows more",
    ) from reason


def list_devices() -> list[str]:
    """One line for each sound output, for `--audio-device list`."""
    sounddevice = import_portaudio()
    default = sounddevice.default.device[1]
    return [
        f"{index}: {found['name']}{' (default)' if index == default else ''}"
        for index, found in enumerate(sounddevice.query_devices())
        if found["max_output_channels"] > 0
    ]


def import_portaudio() -> Any:
    """The sounddevice module, or DeviceError where PortAudio is missing."""
    try:
        import sounddevice
    except (ImportError, OSError) as error:
        raise DeviceError(
            f"PortAudio cannot be loaded ({str(error).splitlines()[0] if str(error) else type(error).__name__})",
            hint="Debian and Ubuntu: apt install libportaudio2",
        ) from error
    return sounddevice


class PortAudioOutput:
    """A PortAudio stream that takes stored sound from its own thread."""

    def __init__(self, rate: int, device: str | None = None) -> None:
        self._sounddevice = import_portaudio()
        self.stutters = 0
        self._blocks: deque[np.ndarray] = deque()
        self._stored = self._played = 0
        self._change = threading.Condition()
        self._paused = self._ending = self._ended = False
        self._filling = True  # not playing yet, until enough is stored
        wanted = int(device) if device is not None and device.isdigit() else device
        self.rate, self._stream = self._open_stream(rate, wanted)

    def _open_stream(self, rate: int, device: int | str | None) -> tuple[int, Any]:
        try:
            found = self._sounddevice.query_devices(device, "output")
        except (ValueError, self._sounddevice.PortAudioError) as error:
            shown = "no default sound output" if device is None else f"no sound output '{device}'"
            raise DeviceError(f"there is {shown}", cause=str(error), hint="--audio-device list") from error
        reason: Exception | None = None
        for possible in (rate, int(found["default_samplerate"])):
            try:
                stream = self._sounddevice.OutputStream(
                    samplerate=possible, channels=1, dtype="float32", device=device,
                    callback=self._fill, finished_callback=self._gone,
                )  # fmt: skip
                stream.start()
            except self._sounddevice.PortAudioError as error:
                reason = error
            else:
                return possible, stream
        raise DeviceError(f"the sound output '{found['name']}' does not open", cause=str(reason)) from reason

    @property
    def played_s(self) -> float:
        return self._played / self.rate

    def _fill(self, out: np.ndarray, frames: int, time: Any, status: Any) -> None:
        """On PortAudio's thread: stored sound, or silence while there is too little."""
        with self._change:
            if self._stored >= PREBUFFER_S * self.rate or self._ending:
                self._filling = False
            if self._paused or self._filling:
                out.fill(0.0)
                return
            filled = self._take(out[:, 0])
            if filled < frames and not self._ending:
                self._filling = True
                self.stutters += 1
            self._change.notify_all()

    def _take(self, out: np.ndarray) -> int:
        filled = 0
        while filled < out.size and self._blocks:
            block = self._blocks[0]
            count = min(block.size, out.size - filled)
            out[filled : filled + count] = block[:count]
            filled += count
            if count == block.size:
                self._blocks.popleft()
            else:
                self._blocks[0] = block[count:]
        out[filled:] = 0.0
        self._stored -= filled
        self._played += filled
        return filled

    def _gone(self) -> None:
        with self._change:
            self._ended = True
            self._change.notify_all()

    def write(self, samples: np.ndarray) -> None:
        with self._change:
            self._wait(lambda: self._stored < BACKLOG_S * self.rate)
            self._blocks.append(np.array(samples, np.float32))
            self._stored += samples.size

    def _wait(self, ready: Any) -> None:
        while not ready():
            self._refuse_gone()
            self._change.wait(WAKE_S)  # short, so that Ctrl-C is noticed
        self._refuse_gone()

    def _refuse_gone(self) -> None:
        if self._ended:
            raise DeviceError("the sound output disappeared during playback", hint="-o speech.wav keeps the sound")

    def pause(self, paused: bool) -> None:
        with self._change:
            self._paused = paused

    def drain(self) -> None:
        with self._change:
            self._ending = True
            self._wait(lambda: self._stored == 0)
        self._stream.stop()  # waits for what the device itself has stored
        self._stream.close()

    def stop(self) -> None:
        with self._change:
            self._blocks.clear()
            self._stored = 0
        self._stream.abort()
        self._stream.close()
