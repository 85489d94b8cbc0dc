"""What the official package says with weights in 8 bits: codes of greedy speech, with rounded rows and with float rows.

It needs the environment of `make_golden.py`.

    python tests/golden/make_eight.py --out tests/golden/eight.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from eight_order import attend_in_order, in_order, sums_frames_in_order
from eight_recipe import rounded
from official import Recorder, greedy, load
from qwen_tts.core.models import modeling_qwen3_tts
from recipe import build_checkpoint
from safetensors.torch import load_file, save_file

HERE = Path(__file__).parent
TEXTS = ("hello", "hi there", "a b c", "good", "one two", "wait", "the end", "yes")
FRAMES = 8
ASKED = {
    "custom_voice": ("generate_custom_voice", {"speaker": "ryan"}),
    "custom_voice_small": ("generate_custom_voice", {"speaker": "ryan"}),
    "voice_design": ("generate_voice_design", {"instruct": "low"}),
}
"""Hidden widths of the predictor: 48, 64, 48; those inside its MLP: 80; of the talker: 64 and 96."""


def spoken(folder: Path, name: str, rows: str) -> list[dict[str, Any]]:
    """The codes of every text."""
    wrapper = load(folder)
    if rows == "eight":
        in_order(wrapper.model)
        assert sums_frames_in_order(wrapper.model.config.talker_config.hidden_size)
    method, voice = ASKED[name]
    found = []
    for text in TEXTS:
        recorder = Recorder(wrapper)
        with recorder:
            getattr(wrapper, method)(text=text, language="English", **voice, **greedy(FRAMES + 1))
        codes = recorder.tensors()["talker.frames"][0].tolist()
        found.append({"checkpoint": name, "rows": rows, "text": text, **voice, "codes": codes})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    cases = []
    with tempfile.TemporaryDirectory() as place:
        for name in ASKED:
            folder = build_checkpoint(HERE / "checkpoints" / name, Path(place, name))
            file = folder / "model.safetensors"
            save_file(rounded(load_file(file)), file, {"format": "pt"})
            cases += [(folder, name)]
        made = [case for folder, name in cases for case in spoken(folder, name, "float")]
        attend_in_order(modeling_qwen3_tts, transformers.cache_utils.DynamicCache)
        made += [case for folder, name in cases for case in spoken(folder, name, "eight")]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    options.out.write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
