"""Programs that speak Qwen3-TTS on a CPU, in turn, from one folder of random weights in the released layout.

    python benchmarks/cpu_peers.py --before ../older --rounds 2             this checkout beside another one of omnitts
    python benchmarks/cpu_peers.py --shapes 1.7b-customvoice --cases start,one --before ../older
    python benchmarks/cpu_peers.py --cases tiny --before ../older --rounds 5      three words with the embedded voice
    python benchmarks/cpu_peers.py --engine vox.json --engine qwentts.json
    python benchmarks/cpu_peers.py -m FOLDER -v ryan                        a CustomVoice folder of yours

A program is described by a JSON file: {"name", "version", "build" (the line that built it), "threads" (its flags),
"command" (a list)}. {folder}, {text}, {voice}, {frames}, {threads} and {wav} are replaced in the command, which
has to write {wav}. "folder" is where it runs; with "pipe", a command that writes its sound to standard output, as a WAV
file or as samples of 16 bits, it has a first sound too. omnitts speaks as well: this checkout in 8 bits (`--dtypes`
names others), and another one with `--before`, with its own library compiled and its own defaults.

Cases: `first`, the first start of all, which may prepare the weights; `start`, two frames, so the time until it
speaks; `one`, a sentence of --frames; `long`, eight sentences of half as many frames; `sound`, until the first sample;
`tiny`, three words with the embedded voice.

A row has the wall and processor time of the whole process, its peak memory, on Linux also how much of it is private
and how much mapped files, and the RTF: wall time over the length of the sound, for `one` and `long` without the time
and the sound of `start`. If a program has no option for the number of frames, its RTF is for the length that it chose.
The machine's GB/s and its load are measured before and after; a load above 0.3 is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
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
LONG = (
    "The kettle is on, and the bread is still warm. Two blue fish swam in the tank. The last ferry leaves at nine. "
    "You can hear the ropes against the masts. That window has been closed since May. The clock in the hall is slow. "
    "She put the letters back into the drawer. By morning the snow had covered the road."
)
CASES = ("first", "start", "one", "long", "sound")
QUIET = 0.3  # load average
STREAM_BYTES = 256 << 20  # read by each thread: more than caches hold
LOOK_S = 0.02  # between two looks at the memory of a process
FIRST_BYTES = 2048  # more than the header of a WAV file, less than that and a frame
MEMORY = ("peak_memory_bytes", "private_bytes", "mapped_bytes")
OURS = ("-m", "omnitts_cli", "say", "{text}", "-d", "cpu", "-o", "{wav}", "--via", "off", "--seed", "1")
MODEL = ("-m", "{folder}", "-v", "{voice}", "--max-frames", "{frames}", "--threads", "{threads}")


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(threads=2, model="", dtype="bfloat16")
    parser.add_argument("--shapes", default="0.6b-customvoice", help="a released name")
    parser.add_argument("--layers", type=int, help="of the talker, to make a released shape lighter")
    parser.add_argument("-v", "--voice", default=peers.SPEAKER)
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--dtypes", default="q8", help="of this checkout")
    parser.add_argument("--before", type=Path, help="another checkout of omnitts, with its library compiled")
    parser.add_argument("--engine", type=Path, action="append", default=[], help="a JSON file, see above")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "omnitts-peers")
    return parser.parse_args()


def made(options: argparse.Namespace) -> Path:
    """The folder of weights: bfloat16, the codec float32, as they are published. Made once."""
    import torch
    from safetensors.torch import save_file

    from omnitts_cli.families.common.parts import stored
    from omnitts_cli.families.qwen3_tts.config import read_config
    from omnitts_cli.families.qwen3_tts.modules import parts
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
    """omnitts as it is here and as it was, and the programs that were named."""

    def ours(name: str, version: str | None, folder: Path, *more: str) -> dict[str, Any]:
        command = [sys.executable, *OURS, *MODEL, *more]
        return {
            "name": name,
            "version": version,
            "build": "python -m omnitts_cli.kernels.cpu",
            "threads": "--threads {threads}",
            "folder": str(folder),  # `python -m` imports from there
            "command": command,
            "pipe": [part.replace("{wav}", "-") for part in command],
            "tiny": [sys.executable, *OURS],
        }

    here = rig.HERE.parent
    found = [ours(f"omnitts {kind}", options.commit, here, "--dtype", kind) for kind in options.dtypes.split(",")]
    if options.before:
        command = ["git", "-C", str(options.before), "rev-parse", "--short=12", "HEAD"]
        version = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        found.append(ours("omnitts before", version, options.before))
    return found + [json.loads(path.read_text("utf-8")) for path in options.engine]


def gigabytes_per_s(threads: int) -> float:
    """What so many threads read from memory together; the best of three."""
    from omnitts_cli.devices.cpu import CPUDevice
    from omnitts_cli.speech import outlook

    ops = CPUDevice(threads).ops()
    if ops.eight is None:
        raise SystemExit("the library of the CPU was not compiled: python -m omnitts_cli.kernels.cpu")
    return outlook.gigabytes_per_s(ops.eight, threads, STREAM_BYTES)


def apart(function: Callable[..., Any], *given: Any) -> Any:
    """Calls a function in a process of its own: the peak memory of a child includes what this process had before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *given).result()


def spoken(engine: dict[str, Any], case: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One run of a program."""
    frames = {"first": 2, "start": 2, "sound": 8, "long": options.frames // 2}.get(case, options.frames)
    texts = {"long": LONG, "tiny": "Two blue fish."}
    with tempfile.TemporaryDirectory() as place:
        wav = Path(place, "speech.wav")
        words = {name: getattr(options, name) for name in ("voice", "threads")}
        words |= {"folder": folder, "text": texts.get(case, TEXT), "wav": wav, "frames": frames}
        kind = {"sound": "pipe", "tiny": "tiny"}.get(case, "command")
        if kind not in engine:
            return {"failed": f"cannot do {case}"}
        run = run_of([part.format(**words) for part in engine[kind]], engine.get("folder"), options, case == "sound")
        if case == "sound" or "failed" in run:
            return run
        if not wav.exists():
            return {"failed": "wrote no file"}
        with wave.open(str(wav)) as sound:
            return run | {"audio_s": sound.getnframes() / sound.getframerate()}


def run_of(command: list[str], folder: str | None, options: argparse.Namespace, piped: bool) -> dict[str, Any]:
    """Times and peak memory of a process; with `piped` also the time until its first sample."""
    variables = os.environ | {"OMP_NUM_THREADS": str(options.threads), "PYTHONPATH": folder or ""}
    variables.pop(
        "PYTHONDONTWRITEBYTECODE", None
    )  # pip compiles what it installs, so only the first run may do it here
    first, memory, ended = None, dict[str, int](), threading.Event()
    with tempfile.TemporaryFile() as said:
        began = time.perf_counter()
        out = subprocess.PIPE if piped else subprocess.DEVNULL
        process = subprocess.Popen(command, env=variables, cwd=folder, stdout=out, stderr=said)
        threading.Thread(target=watch, args=(process.pid, memory, ended), daemon=True).start()
        if process.stdout is not None:
            if len(process.stdout.read(FIRST_BYTES)) == FIRST_BYTES:
                first = time.perf_counter() - began
            process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        ended.set()
        said.seek(0)
        if status:
            return {"failed": said.read().decode(errors="replace")[-500:]}
    found = {"wall_s": wall, "processor_s": used.ru_utime + used.ru_stime, "peak_memory_bytes": used.ru_maxrss * 1024}
    found |= {name: float(size) for name, size in memory.items()}
    return found if first is None else found | {"first_sound_s": first}


def watch(process: int, most: dict[str, int], ended: threading.Event) -> None:
    """Notes the most memory of its own, and the most pages of mapped files, that a process has at one time."""
    while not ended.wait(LOOK_S):
        try:
            lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError):  # no such file system, or a strange name
            return
        fields = dict(line.partition(":")[::2] for line in lines)
        for name, field in (("private_bytes", "RssAnon"), ("mapped_bytes", "RssFile")):
            if field in fields:  # not in a process that has just ended
                most[name] = max(most.get(name, 0), 1024 * int(fields[field].split()[0]))


def with_rtf(rows: list[dict[str, Any]]) -> None:
    """Adds the RTF to the rows of one program in one round, and of long speech without the start."""
    start = next((row for row in rows if row["case"] == "start" and "audio_s" in row), None)
    for row in rows:
        if "audio_s" in row:
            before = start if start is not None and row["case"] in ("one", "long") else {"wall_s": 0, "audio_s": 0}
            row["rtf"] = (row["wall_s"] - before["wall_s"]) / (row["audio_s"] - before["audio_s"])


def best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best of all rounds of each program and case, beside the earlier checkout."""
    made: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        known = made.setdefault((row["case"], row["name"]), {"case": row["case"], "name": row["name"]})
        for name in ("wall_s", "rtf", "first_sound_s", "processor_s", *MEMORY):
            if name in row:
                known[name] = min(known.get(name, row[name]), row[name])
        known |= {"failed": row["failed"]} if "failed" in row else {}
    for (case, _), row in made.items():
        measure = {"one": "rtf", "long": "rtf", "sound": "first_sound_s"}.get(case, "wall_s")
        before = made.get((case, "omnitts before"), {})
        if measure in row and measure in before:
            row["faster"] = before[measure] / row[measure]
    return list(made.values())


def main() -> None:
    options = arguments()
    cases = options.cases.split(",")
    folder = Path() if cases == ["tiny"] else apart(made, options)
    programs = engines(options)
    before, rows = (apart(gigabytes_per_s, options.threads), os.getloadavg()[0]), list[dict[str, Any]]()
    for turn in range(options.rounds):
        for engine in programs:
            row = {name: engine[name] for name in ("name", "version", "build", "threads")}
            about = {"bench": "cpu_peers", "shapes": options.shapes, "round": turn} | row
            mine = [
                about | {"case": case} | spoken(engine, case, folder, options)
                for case in cases
                if case != "first" or not turn
            ]
            with_rtf(mine)
            rows += mine
    after = apart(gigabytes_per_s, options.threads), os.getloadavg()[0]
    about = rig.machine(options) | {
        "gb_per_s": [before[0], after[0]],
        "load": [before[1], after[1]],
        "quiet": before[1] < QUIET,
    }
    rig.keep("cpu_peers", [row | about for row in rows], options)
    columns = ("case", "name", "rtf", "first_sound_s", "wall_s", "processor_s", *MEMORY, "faster", "failed")
    rig.table(columns, [[row.get(name) for name in columns] for row in best(rows)])
    print(f"{before[0]:.1f} and {after[0]:.1f} GB/s")
    if not about["quiet"]:
        print(f"the load was {before[1]:.1f}: these times do not count")


if __name__ == "__main__":
    main()
