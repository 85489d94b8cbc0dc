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
from eight_recipe import MATRIX, by_groups, rounded
from official import Recorder, greedy, load
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


def round_rows(model: torch.nn.Module) -> None:
    """Every product with a rounded matrix rounds its rows; keys and values are kept in float16."""
    for name, module in model.named_modules():
        if MATRIX.fullmatch(f"{name}.weight"):
            module.register_forward_pre_hook(lambda _, given: (by_groups(given[0], half=False), *given[1:]))
    kept = transformers.cache_utils.DynamicCache.update

    def update(self: Any, keys: torch.Tensor, values: torch.Tensor, *more: Any, **others: Any) -> Any:
        return kept(self, keys.half().float(), values.half().float(), *more, **others)

    transformers.cache_utils.DynamicCache.update = update


def spoken(folder: Path, name: str, rows: str) -> list[dict[str, Any]]:
    """The codes of every text."""
    wrapper = load(folder)
    if rows == "eight":
        round_rows(wrapper.model)
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
        made += [case for folder, name in cases for case in spoken(folder, name, "eight")]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    options.out.write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main()
