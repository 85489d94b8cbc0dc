"""This server beside nari-qwen3-tts over HTTP: same client, card, weights and number of frames, one after the other.

    python benchmarks/servers.py -m FOLDER -d cuda --nari-packages DIRS --nari-profile ttfa -c 1,64 --rates 1,10,20
    python benchmarks/servers.py -m random:toy -d cpu -c 1,4 --rates 2 --duration 5     only ours, anywhere

FOLDER is a CustomVoice folder of 1.7B; `peers.py --shapes 1.7b-customvoice` makes one with random weights.
nari-qwen3-tts is not on a package index: DIRS are its repository's `src`, and folders with those of transformers
4.57.3, qwen-tts 0.1.1, fastapi and flashinfer-python that this Python does not have; it needs nvcc. Or --nari-python
PY names a Python that can import them all. It computes the gate and up products of every talker layer in FP8, ours in
the precision of the weights. It refuses every card but an H100, so `nari_server.py` starts it. The client is `omnitts
bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rig

SPEAKER = "ryan"
NARI = {"language": "english", "skip_fixed_bootstrap_audio": False}
"""With random weights the first frame is as good as any other, so it must not be dropped."""
START_S = 1800.0  # flashinfer compiles its kernels at the first start


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-c", "--concurrency", type=rig.numbers, default=[1, 8, 64])
    parser.add_argument("--rates", type=rig.numbers, default=[1, 10, 20], help="requests a second")
    parser.add_argument("--duration", type=float, default=60.0, help="seconds for each rate")
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--requests", type=int, default=256, help="for each level of concurrency")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--voice", default=SPEAKER)
    parser.add_argument("--nari-python", help="a Python that imports nari_qwen3_tts")
    parser.add_argument("--nari-packages", metavar="DIRS", help="folders to import it from, as PYTHONPATH writes them")
    parser.add_argument("--nari-profile", default="ttfa", help="ttfa, balanced or throughput")
    return parser.parse_args()


def commands(options: argparse.Namespace, port: int) -> dict[str, list[str]]:
    """How each server is started."""
    ours = [sys.executable, "-m", "omnitts_cli", "serve", "-m", options.model, "--port", str(port), "--socket", "off"]
    ours += ["-d", options.device, "--dtype", options.dtype, "-b", str(options.slots), "--no-web"]
    found = {"omnitts": ours}
    if asked(options):
        nari = [options.nari_python or sys.executable, str(rig.HERE / "nari_server.py"), "--model", options.model]
        nari += ["--device", "cuda:0" if options.device == "cuda" else options.device, "--local-files-only"]
        found["nari"] = [*nari, "--host", "127.0.0.1", "--port", str(port), "--profile", options.nari_profile]
    return found


def asked(options: argparse.Namespace) -> bool:
    """Whether nari-qwen3-tts is to be measured; without it only ours is."""
    return bool(options.nari_python or options.nari_packages)


@contextmanager
def running(command: list[str], port: int, packages: str | None = None) -> Iterator[float]:
    """A server that is ready; gives the seconds that it took. Raises what it said where it ended instead."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        places = os.pathsep.join(filter(None, [packages, str(rig.HERE.parent), os.environ.get("PYTHONPATH")]))
        process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | {"PYTHONPATH": places})
        try:
            while not ready(port):
                if process.poll() is not None or time.perf_counter() - began > START_S:
                    said.seek(0)
                    lines = said.read().decode(errors="replace").strip().splitlines()
                    raise RuntimeError(lines[-1] if lines else f"exit code {process.returncode}")
                time.sleep(0.2)
            yield time.perf_counter() - began
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ready(port: int) -> bool:
    """Both servers have /ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def measured(name: str, port: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The figures of one server: closed loops, then open ones."""
    bench = [sys.executable, "-m", "omnitts_cli", "bench", "--url", f"http://127.0.0.1:{port}", "--json", "-q"]
    bench += ["--frames", str(options.frames), "--percentiles", "50,95,99", "--progress", "none", "-v", options.voice]
    bench += ["--body", json.dumps(NARI)] if name == "nari" else []
    levels = ",".join(map(str, options.concurrency))
    runs = [["-c", levels, "-n", str(options.requests)]]
    runs += [["--rate", str(rate), "--duration", str(options.duration)] for rate in options.rates]
    rows = []
    for run in runs:
        done = subprocess.run([*bench, *run], capture_output=True, text=True, cwd=rig.HERE.parent)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode:
            raise RuntimeError(f"{' '.join(run)}: {records[-1]['message'] if records else done.stderr[-300:]}")
        for level in records[0]["levels"]:
            rows.append({
                "engine": name, "concurrency": level["concurrency"], "rate": level["rate"],
                "requests": level["requests"], "failed": level["failed"],
                "audio_s_per_s": level["audio_throughput"], "rtf": level["rtf"]["median"],
                **{f"{key}_median_ms": level[f"{key}_ms"]["median"] for key in ("ttfp", "audible")},
                **{f"{key}_p95_ms": level[f"{key}_ms"]["p95"] for key in ("ttfp", "audible")},
            })  # fmt: skip
    return rows


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main() -> None:
    options = arguments()
    rows: list[dict[str, Any]] = []
    start_s: dict[str, float] = {}
    errors = {} if asked(options) else {"nari": "not tried: no --nari-packages"}
    for name in commands(options, 0):
        port = free_port()
        try:
            packages = options.nari_packages if name == "nari" else None
            with running(commands(options, port)[name], port, packages) as took:
                start_s[name] = round(took, 1)
                rows += measured(name, port, options)
        except RuntimeError as error:
            errors[name] = str(error)
    keys = ["engine", "concurrency", "rate", "audio_s_per_s", "rtf", "ttfp_median_ms", "ttfp_p95_ms", "audible_p95_ms"]
    rig.table(keys, [[row.get(key) for key in keys] for row in rows])
    for name, error in errors.items():
        print(f"{name}: {error}")
    row = {
        "bench": "servers",
        "model": Path(options.model).name,
        "frames_per_request": options.frames,
        "slots": options.slots,
        "nari_profile": options.nari_profile if asked(options) else None,
        "rows": rows,
        "not_measured": errors,
        "start_s": start_s,
        "note": options.note,
    }
    rig.keep("servers", [row | rig.machine(options) | {"device": options.device, "dtype": options.dtype}], options)


if __name__ == "__main__":
    main()
