"""Make a reference set of Qwen3-Omni's talker: a tiny random folder, and what transformers does with it.

Config and tokenizer are those of the committed recipe. Writes, under --out, `folder/` in the released layout
(without the thinker, which speaking does not need) and `cases/<case>.{json,safetensors}`. It needs transformers
5.23, and runs on the CPU in float32, greedily. The thinker is there with numbers of its own: it writes one token,
which nobody listens to.

    python tests/golden/make_omni.py --out REF --seed 3                 a whole set, of any seed
    python tests/golden/make_omni.py --out tests/golden/omni --seed 3 --trim    the committed one
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from official_omni import OMNI, Run, arguments, load, save, stop_row
from omni_recipe import FRAME, HEAD, build, read, write
from torch import Tensor

CODES, MOST = 64, 26
FRAMES_BEFORE_THE_END = (18, 17, 16, 19, 15, 14)
LONG = "the quick brown fox jumps over the lazy dog."
CASES: dict[str, dict[str, Any]] = {
    "say": {"text": LONG, "speaker": "ethan", "user_turn": ""},
    "say_short": {"text": "hello", "speaker": "Aiden", "user_turn": ""},
    "say_after_words": {"text": "你好，世界。", "speaker": "chelsie", "user_turn": "please read this"},
}


def asked(tokenizer: Any, ids: dict[str, int], case: dict[str, Any]) -> dict[str, Tensor]:
    """The prompt of a case, up to the words that are to be spoken."""
    start, stop, line = ids["<|im_start|>"], ids["<|im_end|>"], tokenizer("\n")
    prompt = [start, *tokenizer("user\n" + case["user_turn"]), stop, *line]
    prompt += [start, *tokenizer("assistant\n"), *tokenizer(case["text"])]
    return {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, len(prompt), dtype=torch.int64)}


def tensors_of(run: Run) -> dict[str, Tensor]:
    return {
        **run.tensors(),
        "pad": run.inputs["tts_pad_embed"][0, 0],
        "states": run.states(),
        "logits": run.logits(),
        "first_rest": run.first_rest[0],
    }


def keep(name: str, tensors: dict[str, Tensor]) -> dict[str, list[int]]:
    """What the committed set keeps of the long tensors: {key: [first, behind the last]}."""
    kept = {"sound": [0, FRAME if name.startswith("say_") else 2 * FRAME]}
    kept["logits"] = [0, 2 if name == "say" else 0]
    for key, (first, last) in kept.items():
        tensors[key] = tensors[key][first:last]
    return kept


@torch.no_grad()
def main() -> None:
    args = arguments(__doc__)
    from transformers import Qwen2TokenizerFast

    recipe = args.out / "recipe"
    if recipe.resolve() != OMNI:
        shutil.copytree(OMNI, recipe, dirs_exist_ok=True)
    tokenizer = Qwen2TokenizerFast.from_pretrained(recipe)
    ids = tokenizer.get_added_vocab()

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    def run_of(model: Any, case: dict[str, Any]) -> Run:
        return Run(model, asked(encode, ids, case), case["speaker"], 1, MOST, None)

    def kept(name: str, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
        save(args.out / "cases", name, tensors, {**meta, "kept": keep(name, tensors) if args.trim else {}})

    with tempfile.TemporaryDirectory() as scratch:
        made = read(recipe) | {"seed": args.seed, "rows": {HEAD: []}}
        write(recipe, made)
        first = run_of(load(build(recipe, Path(scratch) / "first")), CASES["say"])
        row = stop_row(first.states(), first.logits()[:, :CODES], FRAMES_BEFORE_THE_END)
        write(recipe, made | {"rows": {HEAD: row}})
        model = load(build(recipe, Path(scratch) / "second"))
        for name, case in CASES.items():
            run = run_of(model, case)
            kept(name, tensors_of(run), {**case, "frames": run.codes.shape[-1], "samples": run.sound.shape[-1]})
        x = torch.randn(9, 48, generator=torch.Generator().manual_seed(args.seed + 2))
        made = model.talker.model.layers[1].mlp(x[None])[0]
        save(args.out / "cases", "experts", {"rows": x, "made": made}, {"kept": {}})


if __name__ == "__main__":
    main()
