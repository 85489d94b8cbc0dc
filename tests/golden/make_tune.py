"""Make the golden data of tuning: what the official package's modules compute for the loss of `tune_recipe.py`'s data.

The loss is computed here from the package's modules, position by position, as generation uses them: its own training
step shifts the labels twice. Everything is float32 on the CPU. It needs the environment of `make_golden.py`. Writes,
for each size, `SIZE.{json,safetensors}`: with --trim the abridged tensors that are committed, otherwise whole ones.

    python tests/golden/make_tune.py --out tests/golden/tune --seed 0 --trim    the committed one
    python tests/golden/make_tune.py --out REF --seed 7                         whole, of another seed
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from official import Recorder, greedy, load
from qwen_tts.core.models.modeling_qwen3_tts import mel_spectrogram
from recipe import dump_json, make_audio
from safetensors.torch import save_file
from torch import Tensor
from tune_recipe import (
    ADAM,
    CLIP,
    PLANS,
    REFERENCE_SECONDS,
    SECONDS,
    SIZES,
    STEPS,
    TEXTS,
    abridged,
    adapter,
    build,
    scale_of,
)

IGNORE, REST_WEIGHT, FRAMES = -100, 0.3, 12
SPEAKER_ROW = 3000 - 2048 + 64  # released: row 3000 of the codec table


@torch.no_grad()
def prepare(model: Any, seed: int) -> tuple[list[dict[str, Any]], Tensor]:
    """The recordings with ids and codes, and the speaker's vector."""
    rows = []
    for number, (text, seconds) in enumerate(zip(TEXTS, SECONDS, strict=True)):
        wave = make_audio(seconds, seed + 40 + number, 24000)
        codes = model.model.speech_tokenizer.encode(wave, sr=24000).audio_codes[0]
        ids = model._tokenize_texts([model._build_assistant_text(text)])[0][0]
        rows.append({"codes": codes.long().clone(), "ids": ids.clone()})
    clip = torch.from_numpy(make_audio(REFERENCE_SECONDS, seed + 50, 24000))[None]
    mel = mel_spectrogram(
        clip, n_fft=1024, num_mels=128, sampling_rate=24000, hop_size=256, win_size=1024, fmin=0, fmax=12000
    )
    return rows, model.model.speaker_encoder(mel.transpose(1, 2))[0].clone()


def layout(config: Any, row: dict[str, Any]) -> dict[str, Any]:
    """Ids of one example: role, tag without a language, speaker, text, its end, begin, frames, end code."""
    at = config.talker_config
    role, body, codes = row["ids"][:3], row["ids"][3:-5], row["codes"]
    words = len(body)
    start = 3 + 3 + 1 + 1 + words + 1 + 1
    length = start + len(codes) + 1
    text, codec = torch.full((length,), config.tts_pad_token_id), torch.full((length,), at.codec_pad_id)
    text[:3], text[7], text[8 : 8 + words], text[8 + words] = (
        role, config.tts_bos_token_id, body, config.tts_eos_token_id,
    )  # fmt: skip
    codec[3:6] = torch.tensor([at.codec_nothink_id, at.codec_think_bos_id, at.codec_think_eos_id])
    codec[start - 1], codec[start:-1], codec[-1] = at.codec_bos_id, codes[:, 0], at.codec_eos_token_id
    return {"text": text, "codec": codec, "codes": codes, "start": start, "length": length}


def rows_of(talker: Any, at: dict[str, Any], speaker: Tensor) -> Tensor:
    """Input rows [L, H]."""
    text = talker.text_projection(talker.get_text_embeddings()(at["text"]))
    tables, codec = talker.code_predictor.get_input_embeddings(), talker.get_input_embeddings()(at["codec"])
    rest = sum(tables[g](at["codes"][:, g + 1]) for g in range(len(tables)))
    rows = []
    for place in range(at["length"]):
        row = text[place]
        if place == 6:
            row = row + speaker
        elif place >= 3:
            row = row + codec[place]
        if at["start"] <= place < at["length"] - 1:
            row = row + rest[place - at["start"]]
        rows.append(row)
    return torch.stack(rows)


def loss_of(talker: Any, config: Any, data: list[dict[str, Any]], speaker: Tensor) -> dict[str, Tensor]:
    """Position p predicts group 0 at p + 1; a frame is completed from the hidden state before it."""
    places = [layout(config, row) for row in data]
    longest = max(at["length"] for at in places)
    rows = torch.stack([F.pad(rows_of(talker, at, speaker), (0, 0, 0, longest - at["length"])) for at in places])
    mask = torch.stack([(torch.arange(longest) < at["length"]).long() for at in places])
    out = talker(inputs_embeds=rows, attention_mask=mask, output_hidden_states=True, use_cache=False)
    hidden = out.hidden_states[0][-1]  # after the final norm
    labels, before, codes = torch.full(mask.shape, IGNORE), [], []
    for number, at in enumerate(places):
        start, end = at["start"], at["length"] - 1
        labels[number, start - 1 : end] = at["codec"][start:]
        before.append(hidden[number, start - 1 : end - 1])
        codes.append(at["codes"])
    all_codes = torch.cat(codes)
    first = F.cross_entropy(out.logits.flatten(0, 1).float(), labels.flatten(), ignore_index=IGNORE)
    tables = talker.code_predictor.get_input_embeddings()
    given = [torch.cat(before)[:, None], talker.get_input_embeddings()(all_codes[:, :1])]
    given += [tables[g - 1](all_codes[:, g : g + 1]) for g in range(1, all_codes.shape[1] - 1)]
    scores = talker.code_predictor.forward_finetune(inputs_embeds=torch.cat(given, 1)).logits  # without its own loss
    each = F.cross_entropy(scores.flatten(0, 1).float(), all_codes[:, 1:].flatten(), reduction="none")
    each = each.view(all_codes[:, 1:].shape)
    return {
        "loss": first + REST_WEIGHT * each.mean(), "first": first, "rest": each.mean(0),
        **{f"hidden.{n}": hidden[n, : at["length"] - 1] for n, at in enumerate(places)},
    }  # fmt: skip


def gradients(loss: Tensor, named: dict[str, Tensor]) -> dict[str, Tensor]:
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    return {
        f"grad.{n}": torch.zeros_like(p) if g is None else g for (n, p), g in zip(named.items(), found, strict=True)
    }


def stepped(
    talker: Any, config: Any, data: list[Any], speaker: Tensor, learned: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The losses of a few steps of AdamW with clipped gradients, and what was learned."""
    optimiser = torch.optim.AdamW(list(learned.values()), **ADAM)
    losses = []
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = loss_of(talker, config, data, speaker)["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(learned.values()), CLIP)
        optimiser.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), **{f"after.{n}": p.detach().clone() for n, p in learned.items()}}


class Adapted:
    """Adds scale * B(A x) to the output of every adapted module while it is entered."""

    def __init__(self, talker: Any, tensors: dict[str, Tensor], scale: float) -> None:
        self.talker, self.tensors, self.scale, self.hooks = talker, tensors, scale, []

    def __enter__(self) -> None:
        for name in {n.rsplit(".lora_", 1)[0] for n in self.tensors}:
            a, b = self.tensors[f"{name}.lora_A"], self.tensors[f"{name}.lora_B"]

            def added(module: Any, given: Any, out: Tensor, a: Tensor = a, b: Tensor = b) -> Tensor:
                return out + self.scale * F.linear(F.linear(given[0], a), b)

            self.hooks.append(self.talker.get_submodule(name.removeprefix("talker.")).register_forward_hook(added))

    def __exit__(self, *error: object) -> None:
        for hook in self.hooks:
            hook.remove()


@torch.no_grad()
def spoken(model: Any, speaker: Tensor) -> Tensor:
    """Greedy frames of the second text, whole, in a named voice whose row is `speaker`."""
    model.model.tts_model_type = model.model.config.tts_model_type = "custom_voice"
    model.model.config.talker_config.spk_id = {"tuned": SPEAKER_ROW}
    model.model.config.talker_config.spk_is_dialect = {"tuned": False}
    model.model.supported_speakers = {"tuned": SPEAKER_ROW}.keys()
    model.model.talker.model.codec_embedding.weight[SPEAKER_ROW] = speaker
    recorder = Recorder(model)
    with recorder:
        model.generate_custom_voice(text=TEXTS[1], speaker="tuned", **greedy(FRAMES + 1))
    return recorder.tensors()["talker.frames"][0, :FRAMES].short()


def suite(folder: Path, seed: int) -> dict[str, Tensor]:
    """Everything about one checkpoint."""
    model = load(folder)
    config, talker = model.model.config, model.model.talker
    data, speaker = prepare(model, seed)
    found = {"speaker": speaker, **{f"codes.{n}": row["codes"].short() for n, row in enumerate(data)}}
    learned = {f"talker.{n}": p.requires_grad_(True) for n, p in talker.named_parameters()}
    start = {n: p.detach().clone() for n, p in learned.items()}
    talker.train()
    made = loss_of(talker, config, data, speaker)
    found |= made | gradients(made["loss"], learned) | stepped(talker, config, data, speaker, learned)
    for name, weight in learned.items():
        weight.requires_grad_(False).copy_(start[name])
    for which, plan in PLANS.items():
        shapes = {name: tuple(p.shape) for name, p in learned.items() if p.ndim == 2}
        tensors = adapter(shapes, plan, seed + len(which))
        for one in tensors.values():
            one.requires_grad_(True)
        initial = {name: one.detach().clone() for name, one in tensors.items()}
        with Adapted(talker, tensors, scale_of(plan)):
            made = loss_of(talker, config, data, speaker)
            made |= gradients(made["loss"], tensors) | stepped(talker, config, data, speaker, tensors)
        talker.eval()
        with Adapted(talker, initial, scale_of(plan)):
            made["frames"] = spoken(model, speaker)
        talker.train()
        found |= {f"{which}.{name}": one for name, one in made.items()}
        with torch.no_grad():
            for name, weight in learned.items():
                weight.copy_(start[name])
    talker.eval()
    return found | {"frames": spoken(model, speaker)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trim", action="store_true", help="abridge hidden states, gradients and weights")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        with tempfile.TemporaryDirectory() as work:
            found = suite(build(size, given.seed, Path(work) / size), given.seed)
        names = [name for name in found if any(f"{kind}." in name for kind in ("grad", "after", "hidden"))]
        short = {"abridged": torch.stack([abridged(name, found[name]) for name in names])} if given.trim else {}
        kept = {name: one for name, one in found.items() if not (given.trim and name in names)} | short
        save_file({name: one.detach().contiguous().clone() for name, one in kept.items()},
                  given.out / f"{size}.safetensors")  # fmt: skip
        dump_json(given.out / f"{size}.json", {"seed": given.seed, "abridged": names if given.trim else []})


if __name__ == "__main__":
    main()
