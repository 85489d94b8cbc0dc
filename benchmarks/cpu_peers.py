"""Programs that speak Qwen3-TTS on a CPU, in turn, from one folder of random weights in the released layout.

    python benchmarks/cpu_peers.py --shapes 0.6b-customvoice --frames 100 -t 2
    python benchmarks/cpu_peers.py --engine vox.json --engine qwentts.json
    python benchmarks/cpu_peers.py -m FOLDER -v ryan                        a CustomVoice folder of yours

A program is described by a JSON file: {"name", "version", "build" (the line that built it), "threads" (its flags),
"command" (a list)}. {folder}, {text}, {voice}, {frames}, {threads} and {wav} are replaced in the command, which
has to write {wav}. omnitts speaks as well, in 8 bits and in float32.

A row has the wall and processor time of the whole process, its peak memory, and the RTF: wall time over the length of
the sound. Where a program cannot be told how many frames to make, its RTF is that of another length. The machine's GB/s
and its load are measured before and after; a load above 0.3 is said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import peers
import rig

TEXT = "Two blue fish swam in the tank."
QUIET = 0.3  # load average
STREAM_BYTES = 256 << 20  # read by each thread: more than caches hold
OURS = ("say", "{text}", "-m", "{folder}", "-d", "cpu", "-v", "{voice}", "-o", "{wav}", "--via", "off")
LIMITS = ("--max-frames", "{frames}", "--threads", "{threads}", "--dtype")


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(threads=2, model="", dtype="bfloat16")
    parser.add_argument("--shapes", default="0.6b-customvoice", help="a released name")
    parser.add_argument("--layers", type=int, help="of the talker, to make a released shape lighter")
    parser.add_argument("-v", "--voice", default=peers.SPEAKER)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", type=Path, action="append", default=[], help="a JSON file, see above")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "omnitts-peers")
    return parser.parse_args()


def made(options: argparse.Namespace) -> Path:
    """The folder of weights: bfloat16, the codec float32, as they are published. Made once."""
    import torch
    from safetensors.torch import save_file

    from omnitts_cli.families.qwen3_tts.config import read_config
    from omnitts_cli.families.qwen3_tts.family import parts
    from omnitts_cli.training.export import stored
    from omnitts_cli.weights.random_fill import random_fill

    if options.model:
        return Path(options.model)
    folder = options.work / f"cpu-{options.shapes}{f'-{options.layers}-layers' if options.layers else ''}"
    if (folder / "model.safetensors").exists():
        return folder
    peers.write_config(folder, options)
    pieces = parts(read_config(folder), cloning=False)
    for part, dtype in ((pieces.decoder, torch.float32), (pieces.language, torch.bfloat16)):
        random_fill(part.module, 0, "cpu", dtype)
        tensors = {name: value.to(dtype).contiguous() for name, value in stored(part.module, part.names).items()}
        save_file(tensors, folder / part.folder / "model.safetensors", {"format": "pt"})
    return folder


def engines(options: argparse.Namespace) -> list[dict[str, Any]]:
    ours = {"version": options.commit, "build": "python -m omnitts_cli.kernels.cpu", "threads": "--threads {threads}"}
    command = [sys.executable, "-m", "omnitts_cli", *OURS, *LIMITS]
    found = [{"name": f"omnitts {kind}", **ours, "command": [*command, kind]} for kind in ("q8", "fp32")]
    return found + [json.loads(path.read_text("utf-8")) for path in options.engine]


def gigabytes_per_s(threads: int) -> float:
    """What so many threads read from memory together; the best of three."""
    from omnitts_cli.kernels import cpu
    from omnitts_cli.speech import outlook

    ops = cpu.native()
    if ops is None or ops.eight is None:
        raise SystemExit("the library of the CPU was not compiled: python -m omnitts_cli.kernels.cpu")
    return outlook.gigabytes_per_s(ops.eight, threads, STREAM_BYTES)


def apart(function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function in a process of its own: the peak memory of a child includes what this process had before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def spoken(engine: dict[str, Any], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One run of a program."""
    with tempfile.TemporaryDirectory() as place:
        wav = Path(place, "speech.wav")
        words = {name: getattr(options, name) for name in ("voice", "frames", "threads")}
        words |= {"folder": folder, "text": TEXT, "wav": wav}
        command = [part.format(**words) for part in engine["command"]]
        variables = os.environ | {"OMP_NUM_THREADS": str(options.threads)}
        began = time.perf_counter()
        process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = process.stderr.read()  # type: ignore[union-attr]
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        if status or not wav.exists():
            return {"failed": said.decode(errors="replace")[-500:]}
        with wave.open(str(wav)) as sound:
            seconds = sound.getnframes() / sound.getframerate()
    times = {"wall_s": wall, "processor_s": used.ru_utime + used.ru_stime, "audio_s": seconds}
    return times | {"rtf": wall / seconds, "peak_memory_bytes": used.ru_maxrss * 1024}


def main() -> None:
    options = arguments()
    folder, programs = apart(made, options), engines(options)
    before, rows = (apart(gigabytes_per_s, options.threads), os.getloadavg()[0]), []
    for turn in range(options.rounds):
        for engine in programs:
            row = {name: engine[name] for name in ("name", "version", "build", "threads")}
            rows.append(
                {"bench": "cpu_peers", "shapes": options.shapes, "round": turn} | row | spoken(engine, folder, options)
            )
    after = apart(gigabytes_per_s, options.threads), os.getloadavg()[0]
    about = rig.machine(options) | {
        "gb_per_s": [before[0], after[0]],
        "load": [before[1], after[1]],
        "quiet": before[1] < QUIET,
    }
    rig.keep("cpu_peers", [row | about for row in rows], options)
    columns = ("name", "rtf", "wall_s", "processor_s", "peak_memory_bytes", "failed")
    rig.table(columns, [[row.get(name) for name in columns] for row in rows])
    if not about["quiet"]:
        print(f"the load was {before[1]:.1f}: these times do not count")


if __name__ == "__main__":
    main()
