"""Make a reference set of Qwen3-Omni whole: questions, typed and spoken, and what transformers does with them.

Shapes, config and tokenizer are those of the committed recipe. Writes, under --out, `recipe/` (see omni_recipe.py) and
`cases/<case>.{json,safetensors}`. It needs transformers 5.23, and runs on the CPU in float32, greedily.

    python tests/golden/make_thinker.py --out REF --seed 7                      a whole set, of any seed
    python tests/golden/make_thinker.py --out tests/golden/thinker --seed 7 --trim   the committed one
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from official_omni import Run, arguments, load, save, stop_row
from omni_recipe import FRAME, HEAD, THINKER_HEAD, build, clip, read, write
from torch import Tensor

THINKER = Path(__file__).parent / "thinker" / "recipe"
FRAMES = 22
EXTRACTOR = {
    "dither": 0.0, "feature_size": 128, "hop_length": 160, "n_fft": 400, "n_samples": 4_800_000,
    "nb_max_frames": 30_000, "padding_side": "right", "padding_value": 0.0, "return_attention_mask": True,
    "sampling_rate": 16_000,
}  # fmt: skip
SYSTEM = ("system", ["you are a tiny test."])
QUESTION = ("user", ["hello world, what do you think?"])
CASES: dict[str, tuple[list[tuple[str, list[str]]], str, int]] = {
    "text": ([SYSTEM, QUESTION], "Ethan", 14),
    "text_no_system": ([("user", ["你好，世界。"])], "chelsie", 6),
    "text_history": ([SYSTEM, ("user", ["hello"]), ("assistant", ["hello world"]), ("user", ["\nagain "])], "aiden", 8),
    "text_cut": ([SYSTEM, QUESTION], "Ethan", 5),
    "text_cut_and_one": ([SYSTEM, QUESTION], "Ethan", 6),
    "audio": ([SYSTEM, ("user", ["@mid"])], "ethan", 8),
    "audio_short": ([("user", ["@short"])], "chelsie", 6),
    "audio_text": ([SYSTEM, ("user", ["@long", "what is it?"])], "ethan", 8),
    "audio_history": (
        [SYSTEM, ("user", ["@mid", "hello"]), ("assistant", ["hello world"]), ("user", ["@short"])],
        "ethan",
        6,
    ),
    "audio_beyond30": ([("user", ["@beyond30"])], "ethan", 4),
}
"""Turns (a part is text, or a clip after @), the speaker, and the most tokens of the answer."""


def scores_of(model: Any, inputs: dict[str, Tensor], ids: Tensor) -> Tensor:
    """The logits of one pass over question and answer."""
    given = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return model.thinker(**given, use_cache=False).logits[0]


class Prepared:
    """Turns -> what the model takes, with the official tokenizer and feature extractor."""

    def __init__(self, recipe: Path) -> None:
        from transformers import Qwen2TokenizerFast, WhisperFeatureExtractor

        self.tokenizer = Qwen2TokenizerFast.from_pretrained(recipe)
        self.extractor = WhisperFeatureExtractor(**EXTRACTOR)

    def __call__(self, turns: list[tuple[str, list[str]]]) -> dict[str, Tensor]:
        from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import _get_feat_extract_output_lengths

        names = [part[1:] for _, parts in turns for part in parts if part.startswith("@")]
        sounds = [clip(name).astype(np.float32) / 32768 for name in names]
        # each clip by itself: beside a longer one its end would be padded
        mels = [self.extractor(s, sampling_rate=16_000, padding="longest", truncation=False) for s in sounds]
        mels = [torch.tensor(np.asarray(mel["input_features"][0])) for mel in mels]
        counts = iter(int(_get_feat_extract_output_lengths(torch.tensor(mel.shape[1]))) for mel in mels)
        text = ""
        for role, parts in turns:
            body = "".join(
                f"<|audio_start|>{'<|audio_pad|>' * next(counts)}<|audio_end|>" if part.startswith("@") else part
                for part in parts
            )
            text += f"<|im_start|>{role}\n{body}<|im_end|>\n"
        ids = self.tokenizer(text + "<|im_start|>assistant\n", return_tensors="pt")["input_ids"]
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if mels:
            longest = max(mel.shape[1] for mel in mels)
            inputs["input_features"] = torch.stack(
                [torch.nn.functional.pad(mel, (0, longest - mel.shape[1])) for mel in mels]
            )
            inputs["feature_attention_mask"] = torch.stack(
                [(torch.arange(longest) < mel.shape[1]).long() for mel in mels]
            )
        return inputs


def case_of(model: Any, prepare: Prepared, name: str, stop: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    turns, speaker, most = CASES[name]
    inputs = prepare(turns)
    run = Run(model, inputs, speaker, most, FRAMES, stop)
    tensors, answer = run.tensors(), run.answer()
    tensors["scores"] = scores_of(model, inputs, run.thought.sequences)
    meta = {
        "turns": turns, "speaker": speaker, "most": most, "prompt": inputs["input_ids"][0].tolist(), "answer": answer,
        "text": prepare.tokenizer.decode(answer, skip_special_tokens=True), "frames": run.codes.shape[-1],
        "samples": run.sound.shape[-1],
    }  # fmt: skip
    return tensors, meta


def trimmed(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What the committed set keeps: what tests compare."""
    out = dict(tensors)
    out["sound"] = out["sound"][: FRAME if name in ("text", "audio") else 0]
    out["scores"] = out["scores"][-4 if name == "text" else -1 :]
    if name == "audio_beyond30":
        out["rows"] = out["rows"][-20:]
    return out


@torch.no_grad()
def main() -> None:
    args = arguments(__doc__)
    recipe = args.out / "recipe"
    if recipe.resolve() != THINKER:
        shutil.copytree(THINKER, recipe, dirs_exist_ok=True)
    rows: dict[str, list[float]] = {THINKER_HEAD: [], HEAD: []}
    prepare = Prepared(recipe)

    def built(folder: Path) -> Any:
        write(recipe, read(recipe) | {"seed": args.seed, "rows": rows})
        return load(build(recipe, folder))

    with tempfile.TemporaryDirectory() as scratch:
        base, stop = prepare(CASES["text"][0]), json.loads((recipe / "config.json").read_text())["im_end_token_id"]
        run = Run(built(Path(scratch) / "1"), base, "ethan", 16, FRAMES, None)
        states = torch.cat([hidden[-1][:, -1] for hidden in run.thought.hidden_states])
        rows[THINKER_HEAD] = stop_row(states, torch.cat(run.thought.logits), (9, 8, 10, 7, 11, 6))
        run = Run(built(Path(scratch) / "2"), base, "ethan", 14, FRAMES, stop)
        rows[HEAD] = stop_row(run.states(), run.logits()[:, :64], (15, 14, 16, 13, 17, 12))
        model = built(Path(scratch) / "3")
        cases = args.out / "cases"
        shutil.rmtree(cases, ignore_errors=True)
        for name in CASES:
            tensors, meta = case_of(model, prepare, name, stop)
            tensors = trimmed(name, tensors) if args.trim else tensors
            save(cases, name, tensors, meta)


if __name__ == "__main__":
    main()
