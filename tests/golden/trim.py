"""Boil a full reference set down to the small committed one, and swell it again when tests run.

    python tests/golden/trim.py --source REF --seed 0

Checkpoints become recipes (`recipe.py`). Of each case the long tensors keep one window or are dropped; the
case's JSON says which: `kept` {key: [axis, start, stop]}, `dropped` [key], `same_as` {key: "folder/case:key"}
and `formula` {key: how `make_audio` makes it}. The last two are filled in again by `expand`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from recipe import CHECKPOINTS, make_audio, write_recipe
from safetensors.torch import load_file, save_file
from torch import Tensor

FRAME = 1920
HERE = Path(__file__).parent
WHOLE_WAVES = {"custom_voice/english_nonstream", "base/icl_stream_text_longer"}
SCORES = {"custom_voice/sampled", "custom_voice/english_nonstream"}
SECOND_FRAMES = {"custom_voice/english_nonstream", "custom_voice_small/english_nonstream", "base_large/xvector_stream"}
AUDIO_HOMES = {"base/icl_stream_text_longer", "base/icl_stream_codec_longer", "base/icl_16k_reference"}
Windows = dict[str, tuple[int, int, int]]


def windows_of(case: str, tensors: dict[str, Tensor]) -> Windows:
    """Of a generation case the first steps of the logits and the first frames of the sound; of the codec's own case the
    seam of the chunked decode.
    """
    if case == "codec/decode_340_chunked":
        return {key: (0, 298 * FRAME, 306 * FRAME) for key in ("wav", "wav_single_pass")}
    windows: Windows = {}
    for key, value in tensors.items():
        if key in ("talker.logits", "talker.scores"):
            windows[key] = (0, 0, 8 if case.endswith("sampled") else 2 if "batch" in case else 3)
        elif key.startswith("wav.") and case not in WHOLE_WAVES:
            windows[key] = (0, 0, FRAME if "batch" in case else 2 * FRAME)
        elif key == "talker.prefill_last_hidden" and "batch" in case:
            windows[key] = (1, value.shape[1] - 1, value.shape[1])
    return windows


def same_audio(case: str, tensors: dict[str, Tensor], homes: dict[str, Tensor]) -> dict[str, str]:
    """Clips that another case already holds: {key here: place there}."""
    if case in AUDIO_HOMES:
        return {}
    audio = {key: value.flatten() for key, value in tensors.items() if key.endswith("audio")}
    return {key: place for key, value in audio.items() for place, home in homes.items() if torch.equal(value, home)}


def trim_case(case: str, source: Path, target: Path, homes: dict[str, Tensor], seed: int) -> None:
    tensors = load_file(source.with_suffix(".safetensors"))
    meta: dict[str, Any] = json.loads(source.with_suffix(".json").read_text(encoding="utf-8"))
    windows = windows_of(case, tensors)
    dropped = [] if case in SCORES else [key for key in tensors if key.endswith(".scores")]
    if case not in SECOND_FRAMES:
        dropped += [key for key in tensors if key.startswith("predictor.1.") and key not in dropped]
    same = same_audio(case, tensors, homes)
    formula = {"audio": {"seconds": 14.0, "seed": seed + 8, "rate": 24000}} if case == "codec/encode_14s" else {}
    for key in (*dropped, *same, *formula):
        del tensors[key]
        windows.pop(key, None)
    for key, (axis, start, stop) in windows.items():
        tensors[key] = tensors[key].narrow(axis, start, min(stop, tensors[key].shape[axis]) - start).contiguous()
    meta |= {"kept": windows, "dropped": dropped, "same_as": same, "formula": formula}
    target.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, target.with_suffix(".safetensors"))
    target.with_suffix(".json").write_text(
        json.dumps(meta, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
    )


def expand(source: Path, target: Path) -> None:
    """Copy the committed cases to `target`, with the clips filled in that were stored once or as a formula."""
    for path in sorted(source.rglob("*.json")):
        meta = json.loads(path.read_text(encoding="utf-8"))
        tensors = load_file(path.with_suffix(".safetensors"))
        for key, how in meta["formula"].items():
            tensors[key] = torch.from_numpy(make_audio(**how))
        for key, place in meta["same_as"].items():
            case, other = place.split(":")
            clip = load_file(source / f"{case}.safetensors")[other]
            tensors[key] = clip.reshape(meta["tensors"][key][1]).clone()
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, copy.with_suffix(".safetensors"))
        copy.write_bytes(path.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="what make_golden.py wrote")
    parser.add_argument("--seed", type=int, required=True, help="the seed it was given")
    args = parser.parse_args()
    golden = args.source / "golden"
    homes = {
        f"{case}:ref.0.audio": load_file(golden / f"{case}.safetensors")["ref.0.audio"] for case in sorted(AUDIO_HOMES)
    }
    for name in CHECKPOINTS:
        write_recipe(args.source / "checkpoints" / name, HERE / "checkpoints" / name, args.seed)
    for path in sorted(golden.rglob("*.json")):
        case = path.relative_to(golden).with_suffix("")
        trim_case(str(case), path.with_suffix(""), HERE / "cases" / case, homes, args.seed)


if __name__ == "__main__":
    main()
