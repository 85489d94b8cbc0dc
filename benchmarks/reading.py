"""How long others wait while one client has a long text read: /health, and the next chunk of another stream.

    python benchmarks/reading.py TREE [TREE ...] --rounds 3

Each TREE is a source tree, such as a worktree of an older commit. All are served at once and asked in turn, so that the
figures of one run can be compared. The time that a chunk takes by itself is measured just before. Also the memory that
twelve whole answers, and the list of 1,000 saved voices, take.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

CHARS = 20_000
TEXTS = {
    "digits": "1 ",
    "roots": "√1 ",
    "halves": "½ ",
    "ranges": "1-2 ",
    "numbers": "10 000 ",
    "brackets": "(555) ",
    "titles": "Dr. ",
    "usual": "A usual word. ",
}
STEP_S, BEFORE_S, LONGEST_S = 0.02, 4.0, 30.0
PATIENCE_S = 6 * 3600.0  # for a whole answer of twenty minutes of sound, of twelve that are made at once


class Server:
    """`omnitts serve` of a source tree."""

    def __init__(self, tree: str, folder: Path, model: str) -> None:
        self.tree, voices = tree, folder / "voices"
        voices.mkdir(parents=True)
        environment = {**os.environ, "PYTHONPATH": tree, "HOME": str(folder), "OMNITTS_THREADS": "1"}
        command = [
            sys.executable,
            "-m",
            "omnitts_cli",
            "serve",
            "-m",
            model,
            "-d",
            "cpu",
            "--port",
            "0",
            "--socket",
            "off",
        ]
        self.process = subprocess.Popen(
            [*command, "--voices-dir", str(voices), "--max-per-client", "0", "--request-timeout", "6h"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder, text=True,
        )  # fmt: skip
        assert self.process.stdout and self.process.stderr
        self.where = urlsplit(self.process.stdout.readline().strip())
        for line in self.process.stderr:
            if "ready" in line:
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, int]:
        """The status and the length of an answer."""
        link = http.client.HTTPConnection(self.where.hostname or "", self.where.port, timeout=PATIENCE_S)
        try:
            kind = {"Content-Type": "application/json"}
            link.request(method, path, None if body is None else json.dumps(body), kind)
            answer = link.getresponse()
            length = 0
            while data := answer.read(1 << 16):
                length += len(data)
            return answer.status, length
        finally:
            link.close()

    def gaps(self, stop: threading.Event, found: list[float]) -> None:
        """The waits for chunks of a stream that goes on."""
        while not stop.is_set():
            link = http.client.HTTPConnection(self.where.hostname or "", self.where.port, timeout=PATIENCE_S)
            text = {"input": "Some words that go on for a while. " * 4, "response_format": "pcm", "seed": 1}
            link.request("POST", "/v1/audio/speech", json.dumps(text), {"Content-Type": "application/json"})
            answer, before = link.getresponse(), 0.0
            while answer.read1(1 << 16):
                now = time.perf_counter()
                if before:
                    found.append(now - before)
                before = now
            link.close()

    def health(self, stop: threading.Event, found: list[float]) -> None:
        """The waits for /health."""
        while not stop.is_set():
            began = time.perf_counter()
            self.ask("GET", "/health")
            found.append(time.perf_counter() - began)
            time.sleep(STEP_S)

    def memory(self) -> int:
        """Resident bytes of the HTTP process in MiB."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def waits(server: Server, text: str) -> tuple[float, float, float]:
    """The longest wait for /health and for a chunk while a text is read, and for a chunk in the seconds before."""
    stop, health, gaps = threading.Event(), list[float](), list[float]()
    others = [threading.Thread(target=server.health, args=(stop, health)),
              threading.Thread(target=server.gaps, args=(stop, gaps))]  # fmt: skip
    for one in others:
        one.start()
    time.sleep(BEFORE_S)
    quiet = len(health), len(gaps)
    link = http.client.HTTPConnection(server.where.hostname or "", server.where.port, timeout=PATIENCE_S)
    body = {"input": (text * CHARS)[:CHARS], "response_format": "pcm", "seed": 1, "max_new_tokens": 1, "retries": 0}
    link.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
    answer = link.getresponse()
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and answer.read1(1 << 16):
        pass
    link.close()
    stop.set()
    for one in others:
        one.join()
    parts = health[quiet[0] :], gaps[quiet[1] :], gaps[1 : quiet[1]]
    return tuple(max(part, default=0.0) for part in parts)  # type: ignore[return-value]


def whole_answers(server: Server, count: int, chars: int) -> tuple[int, int]:
    """The highest and the last memory of the HTTP process, with this many whole answers at once."""
    text = ("This is a sentence of the text that is spoken. " * chars)[:chars]
    body = {"input": text, "response_format": "wav", "stream": False, "seed": 1}
    threads = [threading.Thread(target=server.ask, args=("POST", "/v1/audio/speech", body)) for _ in range(count)]
    for one in threads:
        one.start()
    most = 0
    while any(one.is_alive() for one in threads):
        most = max(most, server.memory())
        time.sleep(0.1)
    return most, server.memory()


def saved_voices(server: Server, count: int) -> int:
    """The memory of the HTTP process after a list of this many saved voices."""
    maker = (
        "import sys, numpy as np; from pathlib import Path; from omnitts_cli.speech import voice_files as v;"
        "from omnitts_cli.voices import Cloned\n"
        "for n in range(int(sys.argv[2])):\n"
        "    c = Cloned(np.zeros(1024, np.float32), np.zeros((750, 16), np.int64), 'words ' * 100)\n"
        "    v.write(v.SavedVoice(f'v{n}', c, {'consent': 'me'}), Path(sys.argv[1], f'v{n}.voice'))"
    )
    folder = str(FOLDERS[server.tree] / "voices")
    environment = {**os.environ, "PYTHONPATH": server.tree}
    subprocess.run([sys.executable, "-c", maker, folder, str(count)], check=True, env=environment)
    time.sleep(1.5)
    assert server.ask("GET", "/v1/audio/voices")[0] == 200
    return server.memory()


FOLDERS: dict[str, Path] = {}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("trees", nargs="+", metavar="TREE")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--model", default="tiny")
    options.add_argument("--texts", nargs="+", choices=TEXTS, default=list(TEXTS))
    options.add_argument("--memory", action="store_true", help="measure memory instead of waits")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        servers = []
        for number, tree in enumerate(given.trees):
            FOLDERS[tree] = Path(name, str(number))
            servers.append(Server(tree, FOLDERS[tree], given.model))
        try:
            memories(servers) if given.memory else all_waits(servers, given.rounds, given.texts)
        finally:
            for one in servers:
                one.close()


def all_waits(servers: list[Server], rounds: int, texts: list[str]) -> None:
    for name, text in ((name, TEXTS[name]) for name in texts):
        found: dict[str, list[tuple[float, float, float]]] = {server.tree: [] for server in servers}
        for _ in range(rounds):
            for server in servers:
                found[server.tree].append(waits(server, text))
        for tree, measured in found.items():
            health, gaps, before = zip(*measured, strict=True)
            longer = [gap - usual for gap, usual in zip(gaps, before, strict=True)]
            print(f"{name:9} {tree:30} /health {statistics.median(health):7.3f} (longest {max(health):.3f}) s   "
                  f"chunk {statistics.median(gaps):7.3f} (longest {max(gaps):.3f}) s, "
                  f"longer than before by {statistics.median(longer):7.3f} s", flush=True)  # fmt: skip


def memories(servers: list[Server]) -> None:
    for server in servers:
        print(f"{server.tree}: {server.memory()} MiB at rest")
        print(f"  1,000 saved voices: {saved_voices(server, 1000)} MiB", flush=True)
        most, after = whole_answers(server, 12, 19_000)
        print(f"  12 whole answers of 19,000 characters: {most} MiB, {after} MiB afterwards", flush=True)


if __name__ == "__main__":
    main()
