"""The official Qwen3-Omni of transformers, as a reference: runs that note what each stage does, and what is kept."""

import argparse
from pathlib import Path
from typing import Any

import torch
from recipe import dump_json
from safetensors.torch import save_file
from torch import Tensor

OMNI = Path(__file__).parent / "omni" / "recipe"


class Run:
    """One greedy run of the official library, with what went into and came out of each stage."""

    def __init__(
        self, model: Any, inputs: dict[str, Tensor], speaker: str, tokens: int, frames: int, end: int | None
    ) -> None:
        """`tokens` and `frames`: the most of the answer and of its speech. `end`: the token that ends the answer."""
        predictor = model.talker.code_predictor
        thinker, talker, wave = model.thinker.generate, model.talker.generate, model.code2wav.chunked_decode
        residual, self.first_rest = predictor.generate, None

        def thought(*args: Any, **given: Any) -> Any:
            self.thought = thinker(*args, output_logits=True, **given)
            return self.thought

        def recorded(*args: Any, **given: Any) -> Any:
            self.inputs, self.made = given, talker(*args, output_logits=True, **given)
            return self.made

        def rest(*args: Any, **given: Any) -> Any:
            if self.first_rest is not None:
                return residual(*args, **given)
            out = residual(*args, output_logits=True, **given)
            self.first_rest = torch.stack(out.logits, 1)
            return out

        def sounded(codes: Tensor, **given: Any) -> Tensor:
            self.codes, self.sound = codes, wave(codes, **given)
            return self.sound

        stages = (
            (model.thinker, "generate", thought),
            (model.talker, "generate", recorded),
            (predictor, "generate", rest),
            (model.code2wav, "chunked_decode", sounded),
        )
        for module, name, noted in stages:
            setattr(module, name, noted)
        model.generate(
            **inputs, speaker=speaker, return_audio=True, thinker_max_new_tokens=tokens, thinker_eos_token_id=end,
            thinker_do_sample=False, talker_do_sample=False, talker_max_new_tokens=frames,
        )  # fmt: skip
        for module, name, _ in stages:
            module.__dict__.pop(name)
        self.prompt = inputs["input_ids"].shape[1]

    def answer(self) -> list[int]:
        return self.thought.sequences[0, self.prompt :].tolist()

    def states(self) -> Tensor:
        """The talker's hidden state before each frame: [steps, H]."""
        return torch.stack([hidden[0][-1][0, -1] for hidden in self.made.hidden_states])

    def logits(self) -> Tensor:
        """The talker's logits for each frame."""
        return torch.stack(self.made.logits, 1)[0]

    def tensors(self) -> dict[str, Tensor]:
        return {
            "rows": self.inputs["inputs_embeds"][0],
            "feed": self.inputs["trailing_text_hidden"][0],
            "frames": self.codes[0].T.short(),
            "sound": self.sound.flatten(),
        }


def stop_row(states: Tensor, logits: Tensor, steps: tuple[int, ...]) -> list[float]:
    """A row of a head that wins at one of the steps and not before, so that the speech or answer ends by itself."""
    for at in steps:
        row = states[at] / states[at].square().sum() * (logits[at].max() + 1)
        if all(states[i] @ row < logits[i].max() - 0.25 for i in range(at)):
            return row.tolist()
    return []


def load(folder: Path) -> Any:
    from transformers import Qwen3OmniMoeForConditionalGeneration

    return Qwen3OmniMoeForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()


def save(folder: Path, name: str, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    whole = {key: value.detach().clone().contiguous() for key, value in tensors.items()}
    save_file(whole, folder / f"{name}.safetensors")
    dump_json(folder / f"{name}.json", meta)


def arguments(about: str | None) -> argparse.Namespace:
    """What a script was asked for; torch computes as it does for the committed set."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--trim", action="store_true", help="keep recipe and windows only")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    return args
