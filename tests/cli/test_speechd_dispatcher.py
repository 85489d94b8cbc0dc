"""omnitts speechd under the real Speech Dispatcher, with spd-say. Needs both, and the plugin for libao:

apt-get install speech-dispatcher speech-dispatcher-audio-plugins
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import Omnitts
from patience import LONG_S, eventually

SERVER_FILES = Path("/etc/speech-dispatcher")
TEXTS = ("Hello there.", "It is half past nine; the train leaves at 10:05.", "Three <files> & two folders.", "Yes!")
VOICES, RATES = ("henry", "clara", "emily", "hugh", "arthur"), (-100, -30, 0, 60, 100)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("speech-dispatcher") and shutil.which("spd-say")), reason="not installed"),
]


class Dispatcher:
    """A running server and its log."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.log, self.environment = folder / "speech-dispatcher.log", environment

    def say(self, *words: str, limit_s: float = LONG_S) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["spd-say", "-o", "omnitts", *words], env=self.environment, capture_output=True, timeout=limit_s,
            check=False,
        )  # fmt: skip

    def samples(self) -> int:
        """How many samples have been played in all."""
        return sum(map(int, re.findall(r"speak_queue Sending (\d+) samples", self.log.read_text("utf-8", "replace"))))


@pytest.fixture
def dispatcher(omnitts: Omnitts, home: Path) -> Iterator[Dispatcher]:
    """A server of this home, which plays into nothing and finds our module."""
    assert omnitts("speechd", "--install").code == 0
    settings = home / "settings"
    shutil.copytree(SERVER_FILES, settings)
    text = (settings / "speechd.conf").read_text("utf-8", "replace")
    (settings / "speechd.conf").write_text(text + '\nAudioOutputMethod "libao"\n')
    (home / ".libao").write_text("default_driver=null\n")
    address = home / "socket"
    environment: dict[str, Any] = {**os.environ, "SPEECHD_ADDRESS": f"unix_socket:{address}", "OMNITTS_DEVICE": "cpu"}
    logs = home / "logs"
    logs.mkdir()
    command = [
        "speech-dispatcher", "-s", "-t", "0", "-l", "4", "-C", settings, "-S", address, "-P", home / "pid", "-L", logs,
    ]  # fmt: skip
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(address.exists)
        yield Dispatcher(logs, environment)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(LONG_S)


def test_twenty_utterances_with_voices_and_rates_are_played(dispatcher: Dispatcher) -> None:
    listed = dispatcher.say("-L").stdout.decode().split("\n")
    assert set(VOICES) <= {line.split()[0] for line in listed if line.strip()}
    sizes: dict[tuple[str, int], int] = {}
    for text in TEXTS:
        for voice, rate in zip(VOICES, RATES, strict=True):
            before = dispatcher.samples()
            done = dispatcher.say("-w", "-y", voice, "-r", str(rate), text)
            assert done.returncode == 0, done.stderr
            sizes[text, rate] = dispatcher.samples() - before
    assert len(sizes) == 20 and all(size > 1000 for size in sizes.values()), sizes
    assert all(sizes[text, -100] > 3 * sizes[text, 100] for text in TEXTS)


def test_stop_and_modes_reach_the_module(dispatcher: Dispatcher) -> None:
    long = "A long text that goes on and on. " * 40
    talking = subprocess.Popen(["spd-say", "-o", "omnitts", "-w", long], env=dispatcher.environment)
    eventually(lambda: dispatcher.samples() > 0)
    began = time.monotonic()
    assert dispatcher.say("-S").returncode == 0
    subprocess.run(["spd-say", "-C"], env=dispatcher.environment, timeout=LONG_S, check=False)
    talking.wait(LONG_S)
    assert time.monotonic() - began < 30
    for more in (("-s",), ("-m", "all"), ("-x",)):
        before = dispatcher.samples()
        text = '<speak>One.<mark name="here"/> Two.</speak>' if more == ("-x",) else "a.b (c)"
        assert dispatcher.say("-w", *more, text).returncode == 0 and dispatcher.samples() - before > 1000
