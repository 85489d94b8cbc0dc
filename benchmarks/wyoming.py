"""Measures the first sound over Wyoming: ours, and that of wyoming-openai in front of our HTTP, in turn.

python benchmarks/wyoming.py --rounds 20 --tools ENVIRONMENT/bin

ENVIRONMENT is a virtual environment with wyoming-openai and wyoming-bench, which also runs against both at the end.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

ROOT = Path(__file__).parent.parent
SERVE = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
         "from omnitts_cli.__main__ import main; main()", "serve", "-d", "cpu", "--port", "0", "--socket", "off",
         "--wyoming", "127.0.0.1:0"]  # fmt: skip
TEXTS = (
    "The light in the kitchen is on.",
    "It is twenty past four, and the sun will set in half an hour. Tomorrow will be warmer.",
    "The washing machine has finished. There are three messages, two of them from your sister, and a door is open.",
)
VOICE = "clara"


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def event(kind: str, **data: object) -> bytes:
    """An event."""
    return json.dumps({"type": kind, "data": data}).encode() + b"\n"


def next_event(source: BinaryIO) -> tuple[str, int]:
    """The kind of the next event and the size of its payload."""
    line = source.readline()
    if not line:
        raise SystemExit("the server has closed the connection")
    head = json.loads(line)
    source.read(head.get("data_length") or 0)
    return head["type"], len(source.read(head.get("payload_length") or 0))


def first_sound_ms(port: int, text: str, streamed: bool) -> float:
    """From the request to the first sound, on a connection of its own; reads to the end."""
    voice = {"name": VOICE}
    words = [event("synthesize-chunk", text=word) for word in re.findall(r"\S+\s*", text)]
    asked = [event("synthesize-start", voice=voice), *words, event("synthesize-stop")] if streamed else []
    last = "synthesize-stopped" if streamed else "audio-stop"
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as source:
        began, first = time.perf_counter(), 0.0
        client.sendall(b"".join(asked) or event("synthesize", text=text, voice=voice))
        while True:
            kind, size = next_event(source)
            if kind == "error":
                raise SystemExit("the server answered with an error")
            if size and not first:
                first = (time.perf_counter() - began) * 1000
            if kind == last:
                return first


def main() -> None:
    """Starts both, measures in turn, and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tools", type=Path, required=True)
    options = parser.parse_args()
    server = subprocess.Popen(SERVE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout and server.stderr
    url, ours, line = server.stdout.readline().strip(), 0, ""
    while "ready" not in line:
        line = server.stderr.readline()
        if found := re.search(r"tcp://127\.0\.0\.1:(\d+)", line):
            ours = int(found[1])
    threading.Thread(target=server.stderr.read, daemon=True).start()  # a pipe that is full would stop the server
    theirs = free_port()
    proxy = subprocess.Popen(
        [options.tools / "python", "-m", "wyoming_openai", "--uri", f"tcp://127.0.0.1:{theirs}", "--tts-openai-url",
         f"{url}/v1", "--tts-models", "tts-1", "--tts-streaming-models", "tts-1", "--tts-voices", VOICE],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(theirs)
        found_ms: dict[tuple[str, bool], list[float]] = {}
        for number in range(options.rounds + 1):
            for text in TEXTS:
                for streamed in (False, True):
                    for name, port in (("ours", ours), ("proxy", theirs)):
                        taken = first_sound_ms(port, text, streamed)
                        if number:  # the first round warms up
                            found_ms.setdefault((name, streamed), []).append(taken)
        for streamed in (False, True):
            one, other = (statistics.median(found_ms[name, streamed]) for name in ("ours", "proxy"))
            what = "streamed" if streamed else "whole"
            print(f"{what:<9} first sound, median: {one:.1f} ms, proxy {other:.1f} ms, ratio {one / other:.2f}")
        addresses = [f"127.0.0.1:{port}" for port in (ours, theirs)]
        subprocess.run([options.tools / "wyoming-bench", "tts", *addresses, "--mode", "both"], check=True)
    finally:
        for process in (proxy, server):
            process.terminate()
            process.wait()


def wait_for(port: int) -> None:
    """Waits until something listens there."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


if __name__ == "__main__":
    main()
