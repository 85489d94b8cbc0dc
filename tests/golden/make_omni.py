"""Make a reference set of Qwen3-Omni's talker: a tiny random folder, and what transformers does with it.

Config and tokenizer are those of the committed recipe. Writes, under --out, `folder/` in the released layout
(without the thinker, which speaking does not need) and `cases/<case>.{json,safetensors}`. It needs transformers
5.23, and runs on the CPU in float32, greedily. The thinker is there with numbers of its own: it writes one token,
which nobody listens to.

    python tests/golden/make_omni.py --out REF --seed 3                 a whole set, of any seed
    python tests/golden/make_omni.py --out tests/golden/omni --seed 3 --trim    the committed one
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from omni_recipe import FRAME, RECIPE, build, own_codes
from recipe import dump_json
from safetensors.torch import save_file
from torch import Tensor

GROUPS, CODES, MOST = 16, 64, 26
FRAMES_BEFORE_THE_END = (18, 17, 16, 19, 15, 14)
LONG = "the quick brown fox jumps over the lazy dog."
CASES: dict[str, dict[str, Any]] = {
    "say": {"text": LONG, "speaker": "ethan", "user_turn": ""},
    "say_short": {"text": "hello", "speaker": "Aiden", "user_turn": ""},
    "say_after_words": {"text": "你好，世界。", "speaker": "chelsie", "user_turn": "please read this"},
}
OMNI = Path(__file__).parent / "omni" / "recipe"


class Run:
    """One greedy run of the official library, with what went into and came out of each stage."""

    def __init__(self, model: Any, tokenizer: Any, ids: dict[str, int], case: dict[str, Any]) -> None:
        talker, wave, predictor = model.talker.generate, model.code2wav.chunked_decode, model.talker.code_predictor
        residual, self.first_rest = predictor.generate, None

        def recorded(*args: Any, **more: Any) -> Any:
            self.inputs, self.made = more, talker(*args, output_logits=True, **more)
            return self.made

        def sounded(codes: Tensor, **more: Any) -> Tensor:
            self.codes, self.sound = codes, wave(codes, **more)
            return self.sound

        def rest(*args: Any, **more: Any) -> Any:
            if self.first_rest is not None:
                return residual(*args, **more)
            out = residual(*args, output_logits=True, **more)
            self.first_rest = torch.stack(out.logits, 1)
            return out

        model.talker.generate, model.code2wav.chunked_decode, predictor.generate = recorded, sounded, rest
        start, stop, line = ids["<|im_start|>"], ids["<|im_end|>"], tokenizer("\n")
        prompt = [start, *tokenizer("user\n" + case["user_turn"]), stop, *line]
        prompt += [start, *tokenizer("assistant\n"), *tokenizer(case["text"])]
        model.generate(
            input_ids=torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
            speaker=case["speaker"],
            return_audio=True,
            thinker_max_new_tokens=1,
            thinker_eos_token_id=None,
            thinker_do_sample=False,
            talker_do_sample=False,
            talker_max_new_tokens=MOST,
        )
        for module, name in ((model.talker, "generate"), (model.code2wav, "chunked_decode"), (predictor, "generate")):
            module.__dict__.pop(name)

    def states(self) -> Tensor:
        return torch.stack([hidden[0][-1][0, -1] for hidden in self.made.hidden_states])  # [steps, H]

    def tensors(self) -> dict[str, Tensor]:
        return {
            "rows": self.inputs["inputs_embeds"][0],
            "feed": self.inputs["trailing_text_hidden"][0],
            "pad": self.inputs["tts_pad_embed"][0, 0],
            "states": self.states(),
            "logits": torch.stack(self.made.logits, 1)[0],
            "first_rest": self.first_rest[0],
            "frames": self.codes[0].T.short(),
            "sound": self.sound.flatten(),
        }


def end_row(run: Run) -> list[float]:
    """A row of the head that wins at one step and not before, so that the speech ends by itself."""
    states, logits = run.states(), torch.stack(run.made.logits, 1)[0, :, :CODES]
    for at in FRAMES_BEFORE_THE_END:
        row = states[at] / states[at].square().sum() * (logits[at].max() + 1)
        if all(states[i] @ row < logits[i].max() - 0.25 for i in range(at)):
            return row.tolist()
    return []


def keep(name: str, tensors: dict[str, Tensor]) -> dict[str, list[int]]:
    """What the committed set keeps of the long tensors: {key: [first, behind the last]}."""
    kept = {"sound": [0, FRAME if name.startswith("say_") else 2 * FRAME]}
    if name == "codec":
        end = len(tensors["sound"])
        tensors["sound_end"], kept["sound_end"] = tensors["sound"], [end - FRAME, end]
    if name.startswith("say"):
        kept["logits"] = [0, 2 if name == "say" else 0]
    for key, (first, last) in kept.items():
        tensors[key] = tensors[key][first:last]
    return kept


def save(folder: Path, name: str, tensors: dict[str, Tensor], meta: dict[str, Any], trim: bool) -> None:
    meta["kept"] = keep(name, tensors) if trim else {}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {key: value.detach().clone().contiguous() for key, value in tensors.items()}, folder / f"{name}.safetensors"
    )
    dump_json(folder / f"{name}.json", meta)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--trim", action="store_true", help="keep recipe and windows only")
    args = parser.parse_args()
    from transformers import Qwen2TokenizerFast, Qwen3OmniMoeForConditionalGeneration

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    recipe = args.out / "recipe"
    if recipe.resolve() != OMNI:
        shutil.copytree(OMNI, recipe, dirs_exist_ok=True)
    tokenizer = Qwen2TokenizerFast.from_pretrained(recipe)
    ids = tokenizer.get_added_vocab()

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    def load(folder: Path) -> Any:
        return Qwen3OmniMoeForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()

    with tempfile.TemporaryDirectory() as scratch:
        (recipe / RECIPE).write_text(json.dumps({"seed": args.seed, "end_row": []}) + "\n")
        first = build(recipe, Path(scratch) / "first")
        row = end_row(Run(load(first), encode, ids, CASES["say"]))
        (recipe / RECIPE).write_text(json.dumps({"seed": args.seed, "end_row": row}) + "\n")
        model = load(build(recipe, Path(scratch) / "second"))
        for name, case in CASES.items():
            run = Run(model, encode, ids, case)
            meta = {**case, "frames": run.codes.shape[-1], "samples": run.sound.shape[-1]}
            save(args.out / "cases", name, run.tensors(), meta, args.trim)
        codes = own_codes(args.seed, GROUPS, CODES)
        sound = model.code2wav(codes.T[None]).flatten()
        save(args.out / "cases", "codec", {"sound": sound}, {"samples": len(sound)}, args.trim)
        x = torch.randn(9, 48, generator=torch.Generator().manual_seed(args.seed + 2))
        made = model.talker.model.layers[1].mlp(x[None])[0]
        save(args.out / "cases", "experts", {"rows": x, "made": made}, {}, False)


if __name__ == "__main__":
    main()
