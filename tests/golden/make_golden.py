"""Make the full reference set: tiny random checkpoints, and what the official package does with them.

Configs and tokenizers are those of the committed folders; the numbers follow from the seed. Writes, under --out:

  checkpoints/<name>/                          folders in the released layout
  golden/<checkpoint>/<case>.{json,safetensors}
  golden/codec/<case>.{json,safetensors}
  manifest.json

It needs an environment of its own with `qwen-tts` 0.1.1 and transformers 4.57.3, and runs on the CPU in
float32. Modules that the package only needs for the 25 Hz codec are replaced by empty stand-ins when they
do not import. `trim.py` makes the committed set of what this writes.

    python tests/golden/make_golden.py --out REF --seed 0
    python tests/golden/make_golden.py --out REF --only base --max-new-tokens 16
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from official import STUBBED, Recorder, greedy, load, run_case, save_case, set_eos_direction, tokens
from recipe import CHECKPOINTS, build_checkpoint, checkpoint_seed, dump_json, make_audio

RECIPES = Path(__file__).parent / "checkpoints"
CODEBOOK, GROUPS = 64, 16
LONG_EN = "the quick brown fox jumps over the lazy dog. hello world, this is a tiny test."
SHORT_EN = "hello world"
ZH = "你好，世界。"
INSTRUCT = "speak slowly, with a warm smile."


ENGLISH = {"text": LONG_EN, "speaker": "ryan", "language": "English"}
STREAMED, WHOLE = {"non_streaming_mode": False}, {"non_streaming_mode": True}
CUSTOM_VOICE = {
    "auto_nonstream": {"text": LONG_EN, "speaker": "Serena"},
    "english_nonstream": ENGLISH,
    "english_instruct_nonstream": ENGLISH | {"instruct": INSTRUCT},
    "english_instruct_stream": ENGLISH | {"instruct": INSTRUCT} | STREAMED,
}
BATCH = {
    "text": [LONG_EN, SHORT_EN, ZH],
    "speaker": ["ryan", "eric", "vivian"],
    "language": ["English", "Auto", "Chinese"],
    "instruct": [INSTRUCT, "", INSTRUCT],
}
CUSTOM_VOICE_OF_THE_LARGE_MODEL = {
    "short_stream": {"text": "hello", "speaker": "aiden"} | STREAMED,
    "dialect_auto": {"text": ZH, "speaker": "eric"},
    "dialect_chinese": {"text": ZH, "speaker": "Dylan", "language": "Chinese"},
    "dialect_speaker_english": {"text": SHORT_EN, "speaker": "eric", "language": "english"},
    "batch_nonstream": BATCH,
    "batch_stream": BATCH | STREAMED,
}
SAMPLED = {
    "do_sample": True, "subtalker_dosample": True, "top_p": 0.8, "top_k": 20, "temperature": 0.7,
    "subtalker_top_p": 0.9, "subtalker_top_k": 10, "subtalker_temperature": 1.3, "repetition_penalty": 1.3,
}  # fmt: skip
VOICE_DESIGN = {
    "instruct_nonstream": {"text": LONG_EN, "instruct": INSTRUCT, "language": "English"},
    "instruct_stream": {"text": LONG_EN, "instruct": INSTRUCT} | STREAMED,
    "empty_instruct": {"text": SHORT_EN, "instruct": ""},
    "batch_nonstream": {
        "text": [SHORT_EN, LONG_EN], "instruct": [INSTRUCT, "a deep voice."], "language": ["Auto", "English"],
    },
}  # fmt: skip
NOTES = {"english_instruct_nonstream": {"note": "instruct is dropped for 0b6 checkpoints"}}
REFERENCE = "she sells sea shells."


def suite_custom_voice(w, gdir: Path, n: int, small: bool) -> None:
    for name, given in (CUSTOM_VOICE if small else CUSTOM_VOICE | CUSTOM_VOICE_OF_THE_LARGE_MODEL).items():
        run_case(w, gdir, name, "generate_custom_voice", given | greedy(n), NOTES.get(name))
    if not small:
        note = "compare talker.scores with talker.logits + history; token draws depend on the RNG"
        given = ENGLISH | {"max_new_tokens": n} | SAMPLED
        run_case(w, gdir, "sampled", "generate_custom_voice", given, {"note": note})


def suite_voice_design(w, gdir: Path, n: int) -> None:
    for name, given in VOICE_DESIGN.items():
        run_case(w, gdir, name, "generate_voice_design", given | greedy(n))


def suite_base(w, gdir: Path, n: int, seed: int, small: bool) -> None:
    clip, clip16, long = ((make_audio(s, seed + k, rate), rate) for s, k, rate in
                          ((1.23, 3, 24000), (0.9, 4, 16000), (3.0, 5, 24000)))  # fmt: skip

    def prompt(audio, text):
        return w.create_voice_clone_prompt(ref_audio=audio, ref_text=text, x_vector_only_mode=text is None)

    def go(name, audios, items, **given):
        extra, about = {}, []
        for i, (it, (sound, rate)) in enumerate(zip(items, audios, strict=True)):
            extra[f"ref.{i}.speaker_embedding"] = it.ref_spk_embedding
            if it.ref_code is not None:
                extra[f"ref.{i}.codes"] = it.ref_code
            extra[f"ref.{i}.audio"] = torch.from_numpy(sound)
            ids = tokens(w, w._build_ref_text(it.ref_text)) if it.ref_text else None
            about.append({"text": it.ref_text, "icl": it.icl_mode, "sample_rate": rate, "ref_ids": ids})
        given = {"voice_clone_prompt": items} | given | greedy(n)
        run_case(w, gdir, name, "generate_voice_clone", given, {"reference": about}, extra)

    xv, icl, icl_long = prompt(clip, None), prompt(clip, REFERENCE), prompt(long, REFERENCE)
    go("xvector_stream", [clip], xv, text=LONG_EN, language="English")
    go("icl_stream_text_longer", [clip], icl, text=LONG_EN, language="English")
    go("icl_stream_codec_longer", [long], icl_long, text="hello", language="English")
    go("icl_nonstream", [clip], icl, text=LONG_EN, language="English", **WHOLE)
    if small:
        return
    go("xvector_nonstream", [clip], xv, text=LONG_EN, **WHOLE)
    go("icl_16k_reference", [clip16], prompt(clip16, REFERENCE), text=SHORT_EN)
    mixed, three = [icl[0], xv[0], icl_long[0]], [clip, clip, long]
    texts = {"text": [LONG_EN, SHORT_EN, "hello"], "language": ["English", "Auto", "Auto"]}
    go("batch_mixed_stream", three, mixed, **texts)
    go("batch_mixed_nonstream", three, mixed, **texts, **WHOLE)


@torch.no_grad()
def suite_codec(w, gdir: Path, seed: int) -> None:
    st = w.model.speech_tokenizer
    # longer than one 300-frame chunk: official chunked result vs one pass
    c = torch.randint(0, CODEBOOK, (380, GROUPS), generator=torch.Generator().manual_seed(seed + 99))[40:]
    wav, _ = st.decode([{"audio_codes": c}])
    made = {"codes": c, "wav": torch.from_numpy(wav[0]), "wav_single_pass": st.model.decoder(c.t()[None])[0, 0]}
    save_case(gdir, "decode_340_chunked", {"chunk": 300, "left_context": 25}, made)
    # > 250 transformer steps: shows whether the encoder window is applied
    a = make_audio(14.0, seed + 8, 24000)
    enc = st.encode(a, sr=24000)
    x, e = torch.from_numpy(a), st.model.encoder
    tr = e.encoder_transformer(e.encoder(x[None, None]).transpose(1, 2), return_dict=True).last_hidden_state
    made = {"audio": x, "transformer": tr, "codes": enc.audio_codes[0]}
    save_case(gdir, "encode_14s", {"samples": int(a.size)}, made)


def first_run(w, kind: str, seed: int) -> None:
    """Greedy, without an end code yet."""
    if kind == "custom_voice":
        w.generate_custom_voice(**ENGLISH, **greedy(14))
    elif kind == "voice_design":
        w.generate_voice_design(**VOICE_DESIGN["instruct_nonstream"], **greedy(14))
    else:
        given = {"text": LONG_EN, "language": "English", "ref_text": REFERENCE}
        w.generate_voice_clone(**given, ref_audio=(make_audio(1.23, seed + 3, 24000), 24000), **greedy(14))


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", type=Path, required=True)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--max-new-tokens", type=int, default=24)
    ap.add_argument("--only", choices=[*CHECKPOINTS, "codec"], action="append")
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.set_num_threads(1)  # bit-stable reductions
    transformers.utils.logging.set_verbosity_error()
    wanted = args.only or [*CHECKPOINTS, "codec"]
    gold = args.out / "golden"
    for name in CHECKPOINTS:
        if name not in wanted and not (name == "base" and "codec" in wanted):
            continue
        folder = args.out / "checkpoints" / name
        build_checkpoint(RECIPES / name, folder, checkpoint_seed(name, args.seed))
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind, size = config["tts_model_type"], config["tts_model_size"]
        # find a hidden state to attach EOS to, using one plain greedy run without it
        w = load(folder)
        rec = Recorder(w)
        with rec:
            first_run(w, kind, args.seed)
        set_eos_direction(folder, rec.tensors()["talker.step_hidden"][0, 10])
        w = load(folder)
        n = args.max_new_tokens
        if kind == "custom_voice":
            suite_custom_voice(w, gold / name, n, small=size == "0b6")
        elif kind == "voice_design":
            suite_voice_design(w, gold / name, n)
        elif name in wanted:
            suite_base(w, gold / name, n, args.seed, small=size == "1b7")
        if name == "base" and "codec" in wanted:
            suite_codec(w, gold / "codec", args.seed)
        logging.info("done %s", name)
    dump_json(
        args.out / "manifest.json",
        {
            "seed": args.seed,
            "max_new_tokens": args.max_new_tokens,
            "dtype": "float32",
            "stubbed_modules": STUBBED,
            "versions": {
                "python": sys.version.split()[0],
                "torch": torch.__version__,
                "transformers": transformers.__version__,
                "qwen_tts": "0.1.1",
                "numpy": np.__version__,
                **{m: importlib.import_module(m).__version__ for m in ("librosa", "tokenizers", "soundfile")},
            },
            "cases": sorted(str(p.relative_to(args.out)) for p in gold.rglob("*.json")),
        },
    )


if __name__ == "__main__":
    main()
