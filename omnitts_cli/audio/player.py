"""Player programs as sound output: pw-play, paplay, aplay or ffplay, fed through their standard input."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress

import numpy as np

from omnitts_cli.audio.pcm import silence, to_bytes
from omnitts_cli.errors import DeviceError

COMMANDS = {
    "pw-play": "--raw --rate={rate} --channels=1 --format=s16 -",
    "paplay": "--raw --rate={rate} --channels=1 --format=s16le",
    "aplay": "-q -t raw -r {rate} -c 1 -f S16_LE -",
    "ffplay": "-v error -nodisp -autoexit -probesize 32 -analyzeduration 0 -f s16le -ar {rate} -i pipe:0",
}
TRIAL_S = {"pw-play": 0.3, "paplay": 0.3, "aplay": 0.3, "ffplay": 1.2}
"""A player that has no device gives up within this time; ffplay looks at its input first."""

LAST_WORD_S = 10.0


class PlayerOutput:
    """One running player program."""

    def __init__(self, name: str, program: str, rate: int) -> None:
        self.name, self.rate, self.stutters = name, rate, 0
        self._sent = 0
        self._played_s, self._asked_at = 0.0, time.monotonic()
        self._paused = False
        self._child = subprocess.Popen(
            [program, *COMMANDS[name].format(rate=rate).split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )

    @property
    def played_s(self) -> float:
        """Seconds of sound that were played: a player takes sound ahead of time but plays it in real time."""
        now = time.monotonic()
        ahead_s = self._sent / self.rate - self._played_s
        if not self._paused:
            self._played_s += min(ahead_s, now - self._asked_at)
        self._asked_at = now
        return self._played_s

    def works(self) -> bool:
        """Whether the player is still there after its first moment, with a little silence to play."""
        try:
            self.write(silence(0.05, self.rate))
            self._child.wait(TRIAL_S[self.name])
        except subprocess.TimeoutExpired:
            return True
        except DeviceError:
            pass
        self.stop()
        return False

    def write(self, samples: np.ndarray) -> None:
        assert self._child.stdin is not None
        _ = self.played_s  # time that passed while there was nothing to play does not count
        try:
            self._child.stdin.write(to_bytes(samples, "pcm16"))
            self._child.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise DeviceError(f"the player {self.name} ended", hint="-o speech.wav keeps the sound") from error
        self._sent += samples.size

    def pause(self, paused: bool) -> None:
        _ = self.played_s
        self._paused = paused
        self._send("SIGSTOP" if paused else "SIGCONT")

    def drain(self) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        while self._child.poll() is None:
            time.sleep(0.02)  # short, so that Ctrl-C is noticed
        self._played_s = self._sent / self.rate
        if self._child.returncode:
            raise DeviceError(f"the player {self.name} failed with exit code {self._child.returncode}")

    def stop(self) -> None:
        self._send("SIGCONT")
        self._send("SIGTERM")
        with suppress(OSError):
            self._child.stdin.close()  # type: ignore[union-attr]
        try:
            self._child.wait(LAST_WORD_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _send(self, name: str) -> None:
        """Sends a signal. Windows has none that pauses a program: it plays what it has been given, which is little."""
        number = getattr(signal, name, None)
        if number is not None and self._child.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, number)


def find_player(rate: int) -> PlayerOutput | None:
    """The first player program that is installed and finds a device."""
    for name in COMMANDS:
        program = shutil.which(name)
        if program is None:
            continue
        try:
            player = PlayerOutput(name, program, rate)
        except OSError:
            continue
        if player.works():
            return player
    return None
