"""Measures the first sound over Wyoming: ours, and that of wyoming-openai in front of our HTTP, in turn.

python benchmarks/wyoming.py --rounds 20 --tools ENVIRONMENT/bin
python benchmarks/wyoming.py --rounds 200 --texts short --tools ENVIRONMENT/bin

Who comes first changes with each round. In brackets stand the quartiles of each side, and the interval of the ratio in
which 95 % of 2,000 ratios lie when rounds are drawn anew. --texts short: only the short text, whose sound ends soon,
and no wyoming-bench.
ENVIRONMENT is a virtual environment with wyoming-openai and wyoming-bench, which also runs against both at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
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
DRAWN = 2000
SIDES = ("ours", "proxy")
Round = tuple[list[float], list[float]]
"""First sounds of one round, ours and the proxy's, ms."""


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


def ratio(rounds: Sequence[Round]) -> float:
    """Our median over the proxy's."""
    ours, proxy = (statistics.median([one for both in rounds for one in both[side]]) for side in (0, 1))
    return ours / proxy


def described(rounds: Sequence[Round]) -> str:
    """Medians and quartiles of both sides; the ratio of the medians with its interval."""
    parts = []
    for side, name in enumerate(SIDES):
        low, middle, high = statistics.quantiles([one for both in rounds for one in both[side]], n=4)
        parts.append(f"{name} {middle:.1f} ms ({low:.1f} to {high:.1f})")
    draw = random.Random(0)
    drawn = sorted(ratio(draw.choices(rounds, k=len(rounds))) for _ in range(DRAWN))
    low, high = drawn[DRAWN // 40], drawn[-DRAWN // 40 - 1]
    return f"{', '.join(parts)}, ratio {ratio(rounds):.2f} ({low:.2f} to {high:.2f})"


def measured(count: int, texts: Sequence[str], ports: Sequence[int]) -> dict[bool, list[Round]]:
    """So many rounds of whole and of streamed texts, after one to warm up."""
    found: dict[bool, list[Round]] = {False: [], True: []}
    for number in range(count + 1):
        for streamed, rounds in found.items():
            taken: Round = ([], [])
            for text in texts:
                for side in (0, 1) if number % 2 else (1, 0):
                    taken[side].append(first_sound_ms(ports[side], text, streamed))
            if number:
                rounds.append(taken)
    return found


def main() -> None:
    """Starts both, measures in turn, and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--texts", choices=("all", "short"), default="all")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("an interval needs two rounds")
    texts = TEXTS[:1] if options.texts == "short" else TEXTS
    server = subprocess.Popen(SERVE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout and server.stderr
    url, ours, line = server.stdout.readline().strip(), 0, ""
    while "ready" not in line:
        line = server.stderr.readline()
        if at := re.search(r"tcp://127\.0\.0\.1:(\d+)", line):
            ours = int(at[1])
    threading.Thread(target=server.stderr.read, daemon=True).start()  # a pipe that is full would stop the server
    theirs = free_port()
    proxy = subprocess.Popen(
        [options.tools / "python", "-m", "wyoming_openai", "--uri", f"tcp://127.0.0.1:{theirs}", "--tts-openai-url",
         f"{url}/v1", "--tts-models", "tts-1", "--tts-streaming-models", "tts-1", "--tts-voices", VOICE],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(theirs)
        found = measured(options.rounds, texts, (ours, theirs))
        for streamed, rounds in found.items():
            print(f"{'streamed' if streamed else 'whole':<9} first sound, medians: {described(rounds)}", flush=True)
        if options.texts == "short":
            return
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
