"""Measures modules of Speech Dispatcher side by side: ours and espeak-ng's, over the same protocol, in turn.

python benchmarks/screen_reader.py --rounds 20 --espeak /usr/lib/speech-dispatcher-modules/sd_espeak-ng

First sound: from the end of a character's message to the first event with a sample that can be heard. New characters
are spoken for the first time, known ones were spoken before. While nothing is spoken, our module makes the sound of
usual characters and keys in advance, so nothing is asked for in the first --rest seconds. "Not prepared" are keys of
which no sound is made in advance, such as control_b. Stop: from STOP to its event, while a long text is spoken.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
LONG = "A long text that goes on and on, so that there is something to stop. " * 10
QUIET = 130  # of 32768
OURS = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from omnitts_cli.__main__ import main; main()", "speechd"]  # fmt: skip


class Module:
    """A module in a process of its own."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
        began = time.perf_counter()
        self.ask("INIT", until=rb"[23]99 ")
        self.loading_s = time.perf_counter() - began
        self.ask("AUDIO", until=b"207")
        self.ask("audio_output_method=server", ".", until=b"203")
        self.ask("SET", until=b"20[37]")
        self.ask("rate=0", "volume=100", "language=en", "punctuation_mode=none", ".", until=b"203")

    def send(self, *lines: str) -> None:
        """Sends lines."""
        assert self.process.stdin
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())

    def line(self) -> bytes:
        """The next line."""
        assert self.process.stdout
        parts = []
        while not parts or not parts[-1].endswith(b"\n"):
            part = self.process.stdout.readline()
            if not part:
                raise SystemExit("the module has ended")
            parts.append(part)
        return b"".join(parts)

    def ask(self, *lines: str, until: bytes) -> None:
        """Sends lines and reads up to an answer."""
        self.send(*lines)
        while not re.match(until, self.line()):
            pass

    def begin(self, command: str, text: str) -> float:
        """Has a message spoken; returns when its last line was sent."""
        self.ask(command, until=b"202")
        began = time.perf_counter()
        self.send(text, ".")
        return began

    def heard(self) -> bool:
        """Reads an event; whether it has a sample that can be heard. Raises StopIteration at the end of the message."""
        line = self.line()
        if re.match(rb"70[234] ", line):
            raise StopIteration
        if not line.startswith(b"705-AUDIO\0"):
            return False
        data = re.sub(rb"\x7d(.)", lambda found: bytes([found[1][0] ^ 0x20]), line[10:-1], flags=re.DOTALL)
        return bool(np.abs(np.frombuffer(data, "<i2").astype(np.int32)).max(initial=0) > QUIET)

    def first_sound_ms(self, command: str, name: str) -> float:
        """Of one character or key; reads to its end."""
        began, first = self.begin(command, name), 0.0
        try:
            while True:
                if self.heard() and not first:
                    first = time.perf_counter() - began
        except StopIteration:
            return first * 1000

    def stop_ms(self) -> float:
        """From STOP to its event."""
        self.begin("SPEAK", LONG)
        while not self.heard():
            pass
        began = time.perf_counter()
        self.send("STOP")
        try:
            while True:
                self.heard()
        except StopIteration:
            return (time.perf_counter() - began) * 1000


def row(name: str, values: list[float]) -> str:
    """A line of the table."""
    ordered = sorted(values)
    return f"{name:<28} {statistics.median(values):8.1f} {ordered[int(len(ordered) * 0.95)]:8.1f} {ordered[-1]:8.1f}"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rest", type=float, default=60.0, help="seconds before the first character")
    parser.add_argument("--espeak", default="/usr/lib/speech-dispatcher-modules/sd_espeak-ng")
    options = parser.parse_args()
    modules = {"omnitts": Module(OURS), "espeak-ng": Module([options.espeak, "/dev/null"])}
    found: dict[str, list[float]] = {}
    time.sleep(options.rest)
    for letter in LETTERS[: options.rounds]:
        asked = {"new": ("CHAR", letter), "known": ("CHAR", letter), "not prepared": ("KEY", f"control_{letter}")}
        for what, message in asked.items():
            for name, module in modules.items():
                found.setdefault(f"{name} {what}", []).append(module.first_sound_ms(*message))
    for _ in range(options.rounds):
        for name, module in modules.items():
            found.setdefault(f"{name} stop", []).append(module.stop_ms())
    print(f"{'ms':<28} {'median':>8} {'p95':>8} {'most':>8}")
    for name, values in found.items():
        print(row(name, values))
    for what in asked:
        ours, theirs = (statistics.median(found[f"{name} {what}"]) for name in modules)
        print(f"first sound, {what}: {ours / theirs:.2f} of espeak-ng's")
    print(f"loading: {modules['omnitts'].loading_s:.1f} s")


if __name__ == "__main__":
    main()
