"""This engine beside the official `qwen-tts` package and `faster-qwen3-tts`: same weights, texts and frames, in turn.

    python benchmarks/peers.py                                              small shapes, anywhere
    python benchmarks/peers.py --shapes 0.6b-customvoice --layers 4 --frames 25
    python benchmarks/peers.py -d cuda --dtype bfloat16 --shapes 1.7b-customvoice -c 1,8
    python benchmarks/peers.py -m FOLDER                                    a CustomVoice folder of yours
    python benchmarks/peers.py --official-packages DIR --faster-packages DIR   where nothing can be installed

Makes one random checkpoint in the released layout and an environment per peer, both under --work, and reuses them the
next time. Or it takes a peer's packages from a folder that `pip install --target DIR` made; they come before those of
this Python. All engines are loaded at once, each in a process of its own, and speak in turn, so that other load
affects all of them. The length of the sound is fixed: no engine may draw the end code. nari-qwen3-tts is a server
only: with --nari-packages or --nari-python, `servers.py` measures it and our server over HTTP afterwards, with the
same weights and number of frames.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rig

TEXTS = (
    "The kettle is on, and the bread is still warm from the oven.",
    "Good morning.",
    "The last ferry leaves the harbour at twenty past nine.",
    "You can hear the ropes knock against the masts until the wind turns.",
)
SPEAKER = "ryan"
PACKAGES = {
    "official": ("qwen-tts==0.1.1",),
    "faster": ("faster-qwen3-tts==0.5.4", "transformers==5.16.1"),  # with 5.17 its codec does not load
    "omnitts": (),
}
GOLDEN = rig.HERE.parent / "tests" / "golden"
FIRST_SPECIAL = 151_643  # in the released tokenizer
SPECIAL = {151_643: "<|endoftext|>", 151_644: "<|im_start|>", 151_645: "<|im_end|>"}
SPECIAL |= {151_671: "<tts_pad>", 151_672: "<tts_text_bos>", 151_673: "<tts_text_eod>"}
ROLE, ROLE_ID = "assistant", 77_091  # one token, as in the released tokenizer


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(model="", device="cpu", dtype="float32", threads=1)
    parser.add_argument("--shapes", default="small", help="small, or a released name such as 0.6b-customvoice")
    parser.add_argument("--layers", type=int, help="of the talker, to make a released shape lighter")
    parser.add_argument("-c", "--concurrency", type=rig.numbers, default=[1, 4])
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache" / "omnitts-peers")
    for name in PACKAGES:
        parser.add_argument(f"--{name}-python", help="an environment that is there already")
        parser.add_argument(f"--{name}-packages", metavar="DIRS", help="this Python, with these folders in front")
    parser.add_argument("--nari-python", help="a Python that imports nari_qwen3_tts (see servers.py)")
    parser.add_argument("--nari-packages", metavar="DIRS", help="folders to import it from")
    parser.add_argument("--nari-rates", default="1,10,20", help="requests a second over HTTP")
    parser.add_argument("--nari-duration", default="60", help="seconds for each rate")
    return parser.parse_args()


# ---- environments and the checkpoint


def python_of(name: str, options: argparse.Namespace) -> str:
    """The interpreter of a peer; its environment is made the first time."""
    given = getattr(options, f"{name}_python")
    if given or name == "omnitts" or packages_of(name, options):
        return given or sys.executable
    folder = options.work / f"env-{name}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (folder / "done").exists():
        tell(f"making an environment for {name}: pip install {' '.join(PACKAGES[name])}")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[name]], check=True)
        (folder / "done").touch()
    return str(python)


def packages_of(name: str, options: argparse.Namespace) -> str | None:
    """Folders that a peer's packages lie in, as PYTHONPATH writes them."""
    return getattr(options, f"{name}_packages")


def worker(name: str, options: argparse.Namespace, *what: str) -> tuple[list[str], dict[str, str]]:
    """A command of peer.py in the environment of a peer, and its variables."""
    folders = [packages_of(name, options), os.environ.get("PYTHONPATH")]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(folder for folder in folders if folder)}
    return [python_of(name, options), str(rig.HERE / "peer.py"), *what], variables


def checkpoint(options: argparse.Namespace) -> Path:
    """The folder with the weights that everybody speaks from."""
    if options.model:
        return Path(options.model)
    if options.shapes == "small":
        sys.path.insert(0, str(GOLDEN))
        from recipe import build_checkpoint

        folder = options.work / "small"
        if not (folder / "model.safetensors").exists():
            shutil.rmtree(folder, ignore_errors=True)
            options.work.mkdir(parents=True, exist_ok=True)
            build_checkpoint(GOLDEN / "checkpoints" / "custom_voice", folder)
        return folder
    return released(options)


def released(options: argparse.Namespace) -> Path:
    """A released shape with random weights; the official package itself says what its tensors are called."""
    layers = f"-{options.layers}-layers" if options.layers else ""
    folder = options.work / f"{options.shapes}{layers}-{options.dtype}"
    if not (folder / "speech_tokenizer" / "model.safetensors").exists():
        shutil.rmtree(folder, ignore_errors=True)
        write_config(folder, options)
        command, variables = worker("official", options, "make", str(folder), "--dtype", options.dtype)
        subprocess.run(command, env=variables, check=True)
    return folder


def write_config(folder: Path, options: argparse.Namespace) -> None:
    from omnitts_cli.families.qwen3_tts import released

    config = released.model_config(options.shapes) | {"architectures": ["Qwen3TTSForConditionalGeneration"]}
    if options.layers:
        config["talker_config"]["num_hidden_layers"] = options.layers
    codec = folder / "speech_tokenizer"
    codec.mkdir(parents=True)
    sound = {"feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "sampling_rate": 24_000}
    files = {
        folder / "config.json": config,
        folder / "generation_config.json": json.loads(
            (GOLDEN / "checkpoints" / "custom_voice" / "generation_config.json").read_text("utf-8")
        ),
        folder / "preprocessor_config.json": {"processor_class": "Qwen3TTSProcessor", "padding_side": "left"},
        codec / "config.json": released.codec_config(),
        codec / "preprocessor_config.json": sound | {"padding_side": "right", "padding_value": 0.0},
        **tokenizer_files(folder),
    }
    for path, content in files.items():
        path.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    merges = [f"{ROLE[:end]} {ROLE[end]}" for end in range(1, len(ROLE))]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), "utf-8")


def tokenizer_files(folder: Path) -> dict[Path, Any]:
    """Bytes as text, padded with words that never occur, so that the special tokens have their released numbers."""
    from omnitts_cli.families.common.tokenizer import byte_vocabulary

    vocabulary = dict(byte_vocabulary())
    vocabulary |= {ROLE[:end]: ROLE_ID - len(ROLE) + end for end in range(2, len(ROLE) + 1)}
    taken = set(vocabulary.values())
    free = (number for number in range(FIRST_SPECIAL) if number not in taken)
    vocabulary |= {f"<unused {number}>": number for number in free}
    special = {number: f"<special {number}>" for number in range(FIRST_SPECIAL, 151_676)} | SPECIAL
    added = {
        str(number): {"content": content, "special": True, "normalized": False, "lstrip": False, "rstrip": False}
        for number, content in special.items()
    }
    settings = {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": added, "eos_token": "<|im_end|>"}
    return {
        folder / "vocab.json": vocabulary,
        folder / "tokenizer_config.json": settings | {"pad_token": "<|endoftext|>", "unk_token": None},
    }


# ---- measuring


@dataclass
class Peer:
    """A worker process and what it has answered, by level."""

    name: str
    process: subprocess.Popen[str]
    hello: dict[str, Any] = field(default_factory=dict)
    answers: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def ask(self, **fields: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        return self.reply()

    def reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended with {self.process.wait()}"}


def hired(folder: Path, options: argparse.Namespace) -> list[Peer]:
    """Workers that have loaded the checkpoint, or say why they could not. They load side by side."""
    tried = options.device != "cpu" or options.faster_python or options.faster_packages
    peers = [started(name, folder, options) for name in PACKAGES if name != "faster" or tried]
    for peer in peers:
        peer.hello = peer.reply()
        tell(f"{peer.name}: {peer.hello.get('error') or 'loaded'}")
    return peers


def started(name: str, folder: Path, options: argparse.Namespace) -> Peer:
    how = ["--device", options.device, "--dtype", options.dtype]
    how += ["--threads", str(options.threads), "--slots", str(max(options.concurrency))]
    command, variables = worker(name, options, name, str(folder), *how)
    process = subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return Peer(name, process)


def tell(words: str) -> None:
    """Progress."""
    print(words, file=sys.stderr, flush=True)


def measure(peers: list[Peer], options: argparse.Namespace) -> None:
    """Every level: one turn each that is thrown away, then turn by turn."""
    for level in options.concurrency:
        texts = [TEXTS[index % len(TEXTS)] for index in range(level)]
        for turn in range(options.rounds + 1):
            for peer in peers:
                answer = peer.ask(texts=texts, speaker=SPEAKER, frames=options.frames, seed=turn)
                tell(f"{peer.name}, {level} together, turn {turn}: {answer.get('error') or answer['wall_s']}")
                if "error" in answer:
                    peer.hello["error"] = answer["error"]
                elif turn:
                    peer.answers.setdefault(level, []).append(answer)


def figures(answers: list[dict[str, Any]]) -> dict[str, float]:
    """Of one peer at one level: medians over the turns."""

    def middle(values: list[float]) -> float:
        return statistics.median(values)

    return {
        "rtf": middle([t / a for one in answers for t, a in zip(one["each_s"], one["audio_s"], strict=True)]),
        "audio_s_per_s": middle([sum(one["audio_s"]) / one["wall_s"] for one in answers]),
        "first_ms": middle([1000 * first for one in answers for first in one["first_s"]]),
        "frames": middle([round(audio * 12.5, 2) for one in answers for audio in one["audio_s"]]),
    }


def results(peers: list[Peer], options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for level in options.concurrency:
        ours = next((figures(p.answers[level]) for p in peers if p.name == "omnitts" and level in p.answers), None)
        for peer in peers:
            if level not in peer.answers:
                continue
            found = figures(peer.answers[level])
            times = (
                {"slower_x": found["rtf"] / ours["rtf"], "later_x": found["first_ms"] / ours["first_ms"]}
                if ours
                else {}
            )
            rows.append({"engine": peer.name, "concurrency": level, **found, **times})
    return rows


def main() -> None:
    from omnitts_cli.devices.system import processor

    options = arguments()
    folder = checkpoint(options)
    peers = hired(folder, options)
    able = [peer for peer in peers if "error" not in peer.hello]
    try:
        measure(able, options)
    finally:
        for peer in peers:
            if peer.process.stdin is not None:
                peer.process.stdin.close()
            peer.process.wait(timeout=60)
    rows = results(able, options)
    head = ["engine", "together", "RTF", "audio-s/s", "first ms", "frames", "RTF / ours", "first / ours"]
    keys = ["engine", "concurrency", "rtf", "audio_s_per_s", "first_ms", "frames", "slower_x", "later_x"]
    rig.table(head, [[row.get(key) for key in keys] for row in rows])
    errors = {peer.name: peer.hello["error"] for peer in peers if "error" in peer.hello}
    if "faster" not in (peer.name for peer in peers):
        errors["faster"] = "not tried: faster-qwen3-tts needs a CUDA device"
    if not (options.nari_python or options.nari_packages):
        errors["nari"] = "not tried: no --nari-packages"
    for name, error in errors.items():
        print(f"{name}: {error}")
    card = next((peer.hello["card"] for peer in able if "card" in peer.hello), None)
    words = f"{options.device}, {processor() if options.device == 'cpu' else card}, {options.threads} threads"
    row = {
        "bench": "peers",
        "shapes": options.model or options.shapes,
        "layers": options.layers,
        "frames_per_request": options.frames,
        "rounds": options.rounds,
        "threads": options.threads,
        "rows": rows,
        "not_measured": errors,
        "peers": {peer.name: peer.hello.get("versions") for peer in peers},
        "load_s": {peer.name: peer.hello.get("load_s") for peer in able},
        "note": options.note,
    }
    rig.keep("peers", [row | rig.machine(options) | {"device": words, "dtype": options.dtype}], options)
    if "nari" not in errors:
        over_http(folder, options)


def over_http(folder: Path, options: argparse.Namespace) -> None:
    """nari-qwen3-tts and our server, in turn; its rows are kept by `servers.py`."""
    command = [sys.executable, str(rig.HERE / "servers.py"), "-m", str(folder), "-d", options.device]
    command += [
        "--dtype",
        options.dtype,
        "-c",
        ",".join(map(str, options.concurrency)),
        "--frames",
        str(options.frames),
    ]
    command += ["--slots", str(max(options.concurrency)), "--note", options.note]
    command += ["--rates", options.nari_rates, "--duration", options.nari_duration]
    for name in ("nari_python", "nari_packages"):
        if given := getattr(options, name):
            command += [f"--{name.replace('_', '-')}", given]
    subprocess.run([*command, *(["--no-keep"] if options.no_keep else [])], check=True)


if __name__ == "__main__":
    main()
