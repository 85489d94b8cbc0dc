"""The official package, made importable without the parts that only its 25 Hz codec needs, and a recorder for it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import io
import json
import os
import sys
import types
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _stand_in(name: str) -> types.ModuleType:
    mod = types.ModuleType(name)
    mod.__spec__ = importlib.machinery.ModuleSpec(name, None)
    mod.__path__ = []
    sys.modules[name] = mod
    if "." in name:
        parent, child = name.rsplit(".", 1)
        setattr(sys.modules[parent], child, mod)
    return mod


def install_stand_ins() -> list[str]:
    """Replace optional 25 Hz-tokenizer dependencies that cannot be imported here."""
    done = []
    for root, extra in (
        ("sox", []),
        ("onnxruntime", []),
        ("torchaudio", ["torchaudio.compliance", "torchaudio.compliance.kaldi"]),
    ):
        try:
            importlib.import_module(extra[-1] if extra else root)
        except Exception:
            for k in [k for k in sys.modules if k == root or k.startswith(root + ".")]:
                del sys.modules[k]
            for n in [root, *extra]:
                _stand_in(n)
            done.append(root)
    return done


STUBBED = install_stand_ins()

import numpy as np  # noqa: E402
import torch  # noqa: E402
from official_omni import save  # noqa: E402
from recipe import HEAD  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

with contextlib.redirect_stdout(io.StringIO()):
    from qwen_tts import Qwen3TTSModel


def set_eos_direction(folder: Path, hidden: torch.Tensor, margin: float = 1.05) -> None:
    """Make one recorded hidden state predict EOS, so that greedy runs can stop."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["talker_config"]
    sd = load_file(folder / "model.safetensors")
    logits = (hidden @ sd[HEAD].t())[: config["code_predictor_config"]["vocab_size"]]
    sd[HEAD][config["codec_eos_token_id"]] = hidden * (margin * logits.max() / hidden.square().sum())
    save_file(sd, folder / "model.safetensors", metadata={"format": "pt"})


class Recorder:
    """Wraps talker.generate / code_predictor.generate and keeps what goes in and out."""

    def __init__(self, wrapper: Qwen3TTSModel):
        self.model = wrapper.model
        self.talker = wrapper.model.talker
        self.reset()

    def reset(self):
        self.prefill, self.result, self.sub = {}, None, []

    def __enter__(self):
        self._tg, self._pg = self.talker.generate, self.talker.code_predictor.generate

        def talker_generate(**kw):
            for k in ("inputs_embeds", "attention_mask", "trailing_text_hidden", "tts_pad_embed"):
                self.prefill[k] = kw[k].detach().clone()
            self.prefill_kwargs = {k: v for k, v in kw.items() if not isinstance(v, torch.Tensor)}
            self.result = self._tg(**kw, output_logits=True, output_scores=True)
            return self.result

        def predictor_generate(**kw):
            res = self._pg(**kw, output_logits=True, output_scores=True)
            if len(self.sub) < 2:
                self.sub.append(
                    {
                        "inputs": kw["inputs_embeds"].detach().clone(),
                        "logits": torch.stack(res.logits, 0),
                        "scores": torch.stack(res.scores, 0),
                        "sequences": res.sequences.clone(),
                    }
                )
            return res

        self.talker.generate, self.talker.code_predictor.generate = talker_generate, predictor_generate
        return self

    def __exit__(self, *exc):
        # instance attributes shadow the class methods: drop them again
        for obj in (self.talker, self.talker.code_predictor):
            obj.__dict__.pop("generate", None)

    def tensors(self) -> dict[str, torch.Tensor]:
        r = self.result
        out = {f"prefill.{k}": v for k, v in self.prefill.items()}
        out["talker.logits"] = torch.stack(r.logits, 0)  # [steps, B, V] raw
        out["talker.scores"] = torch.stack(r.scores, 0)  # after the processors
        out["talker.tokens"] = r.sequences  # [B, steps]
        out["talker.prefill_last_hidden"] = r.hidden_states[0][0][-1]  # final-norm output [B, T, H]
        steps = [h for h in r.hidden_states if h[-1] is not None]
        if steps:
            out["talker.frames"] = torch.stack([h[-1] for h in steps], 1)  # [B, n, groups]
            out["talker.step_hidden"] = torch.cat([h[0][-1] for h in steps], 1)
            out["talker.step_input"] = torch.cat([h[0][0] for h in steps], 1)  # summed embeddings fed per step
        for i, s in enumerate(self.sub):
            for k, v in s.items():
                out[f"predictor.{i}.{k}"] = v
        return out


def save_case(folder: Path, name: str, meta: dict, tensors: dict[str, torch.Tensor]) -> None:
    kinds = {k: [str(v.dtype).replace("torch.", ""), list(v.shape)] for k, v in tensors.items()}
    save(folder, name, tensors, dict(meta, tensors=kinds))


def greedy(max_new: int) -> dict:
    return dict(do_sample=False, subtalker_dosample=False, max_new_tokens=max_new)


def load(folder: Path) -> Qwen3TTSModel:
    w = Qwen3TTSModel.from_pretrained(str(folder), dtype=torch.float32, device_map="cpu")
    w.model.eval()
    return w


def tokens(w: Qwen3TTSModel, text: str | None) -> list[int] | None:
    return None if text is None else w._tokenize_texts([text])[0][0].tolist()


def run_case(
    w: Qwen3TTSModel, folder: Path, name: str, method: str, kwargs: dict, meta_extra=None, extra=None
) -> list[int]:
    rec = Recorder(w)
    if kwargs.get("do_sample", False) or kwargs.get("subtalker_dosample", False):
        torch.manual_seed(1234)
    with rec:
        wavs, sr = getattr(w, method)(**kwargs)
    t = rec.tensors()
    for i, wav in enumerate(wavs):
        t[f"wav.{i}"] = torch.from_numpy(np.ascontiguousarray(wav))
    t.update(extra or {})
    aslist = lambda x: x if isinstance(x, list) else [x]  # noqa: E731
    eos = w.model.config.talker_config.codec_eos_token_id
    frames = t.get("talker.frames")
    lengths = []
    if frames is not None:
        for row in frames[:, :, 0].tolist():
            lengths.append(row.index(eos) if eos in row else len(row))
    plain = {
        k: v
        for k, v in kwargs.items()
        if isinstance(v, (str, int, float, bool, list, type(None)))
        and not (isinstance(v, list) and v and not isinstance(v[0], (str, bool, type(None))))
    }
    meta = {
        "method": method,
        "arguments": plain,
        "sample_rate": sr,
        "assistant_ids": [tokens(w, w._build_assistant_text(x)) for x in aslist(kwargs["text"])],
        "instruct_ids": [tokens(w, w._build_instruct_text(x)) if x else None for x in aslist(kwargs.get("instruct"))],
        "frame_lengths": lengths,
        "wav_lengths": [int(x.shape[0]) for x in wavs],
        "stopped_by_eos": [bool(eos in row) for row in t["talker.tokens"].tolist()],
    }
    meta.update(meta_extra or {})
    save_case(folder, name, meta, t)
    return lengths
