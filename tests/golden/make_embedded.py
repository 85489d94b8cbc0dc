"""Makes again what belongs to the folder of the embedded voice, after its files were replaced:

    python tests/golden/make_embedded.py [codes] [limits] [card] [samples]

codes: the sums of its codes in 8 bits, in embedded.json. card: the SHA-256 lines of its README.md. samples: every file
of samples/audio, by its own command in manifest.json; a language that has none gets one of the first man and the first
woman. Without a name, these three. limits, only by name: how far 8 bits may be from float32, in embedded.json; each is
raised to 1.25 of what is measured if that is more than it is now.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOUSE = HERE.parents[1]
sys.path[:0] = [str(place) for place in (HOUSE, HERE.parent / "support", HERE.parent / "speech")]

import torch  # noqa: E402
from embedded_pins import PATH, PINS, clips_of, digest, distances, each_voice, model_with, spoken  # noqa: E402

from omnitts_cli.cli.app import run  # noqa: E402
from omnitts_cli.devices.cpu import CPUDevice  # noqa: E402
from omnitts_cli.engine.engine import Engine  # noqa: E402
from omnitts_cli.settings.engine import EngineSettings  # noqa: E402
from omnitts_cli.speech.load import load_model, plan_for  # noqa: E402
from omnitts_cli.text.language import LANGUAGES  # noqa: E402
from omnitts_cli.weights import eight_files  # noqa: E402
from omnitts_cli.weights.find import TINY  # noqa: E402

SAMPLES = HOUSE / "samples" / "audio"
ROOM = 1.25
SPOKEN = {
    "es": "El arco iris es una división de la luz blanca en muchos colores hermosos.",
    "fr": "L'arc-en-ciel est une division de la lumière blanche en de nombreuses belles couleurs.",
    "it": "L'arcobaleno è una divisione della luce bianca in molti bei colori.",
    "pt": "O arco-íris é uma divisão da luz branca em muitas cores bonitas.",
}
SPEAKERS = ("henry", "clara")


def codes() -> None:
    """The sums of embedded.json."""
    model, device = model_with(None, 1)
    for frames in PINS["codes_in_eight_bits"]:
        PINS["codes_in_eight_bits"][frames] = digest(spoken(model, device, 4, int(frames)))
    _write(PATH, PINS)


def limits() -> None:
    """The limits of embedded.json."""
    from test_load_eight_card import measured as on_a_card

    device = CPUDevice(1)
    full = load_model(str(TINY), device)
    eight = load_model(str(TINY), device, settings=EngineSettings(dtype="q8"))
    requests = each_voice(24)
    said = clips_of(Engine(full, device, plan_for(full, device).with_slots(4)), requests)
    talker, predictor = distances(full, eight, requests, [clip.codes for clip in said], 60)
    found = {"talker": talker[0], "predictor": predictor[0]}
    for name, rows in (("predictor_on_a_card", torch.float32), ("predictor_on_a_card_bf16", torch.bfloat16)):
        found[name] = on_a_card(rows)[1][0]
    for name, value in found.items():
        limit = PINS["divergence_of_eight_bits"][name]
        sys.stdout.write(f"{name}: {value:.5f}, limit {limit}\n")
        if value > limit:
            digits = 1 - math.floor(math.log10(value))
            PINS["divergence_of_eight_bits"][name] = round(value * ROOM, digits)
    _write(PATH, PINS)


def card() -> None:
    """The sums in the folder's README.md."""
    path = TINY / "README.md"
    text = path.read_text("utf-8")
    for name in ("model.safetensors", "speech_tokenizer/model.safetensors"):
        line = f"SHA-256 of {name}: "
        text, changed = re.subn(rf"^{re.escape(line)}[0-9a-f]{{64}}$", line + _sha256(TINY / name), text, flags=re.M)
        assert changed == 1, f"{path} has no line '{line}'"
    path.write_text(text, "utf-8")


def samples() -> None:
    """The sounds of samples/audio, each by the command that made it."""
    manifest = json.loads((SAMPLES / "manifest.json").read_text("utf-8"))
    config = json.loads((TINY / "config.json").read_text("utf-8"))["omnitts"]
    there = {sample["file"] for sample in manifest["files"]}
    for code, text in SPOKEN.items():
        for voice in SPEAKERS:
            if LANGUAGES[code] in config["languages"] and (name := f"{voice}-{code}.ogg") not in there:
                said = shlex.join(["omnitts", "say", "-v", voice, "-l", code, "--seed", "7", text])
                manifest["files"].append({"file": name, "command": f"{said} -o samples/audio/{name}"})
    for sample in manifest["files"]:
        arguments = shlex.split(sample["command"])[1:]
        assert run([*arguments, "-q"]) == 0, sample["command"]
        sample["sha256"] = _sha256(SAMPLES / sample["file"])
    manifest["model_sha256"] = _sha256(TINY / "model.safetensors")
    _write(SAMPLES / "manifest.json", manifest)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    os.chdir(HOUSE)
    steps = {"codes": codes, "limits": limits, "card": card, "samples": samples}
    with tempfile.TemporaryDirectory() as place:
        eight_files.folder = lambda: Path(place)
        for name in sys.argv[1:] or ("codes", "card", "samples"):
            steps[name]()


if __name__ == "__main__":
    main()
