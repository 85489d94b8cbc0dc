"""The embedded voice through the official package, in an environment that has it: greedy codes and sound.

    PYTHON tests/golden/official_tiny.py MODEL_FOLDER OUT.npz

`tests/test_embedded.py` calls it when OMNITTS_OFFICIAL_PYTHON names such a Python (qwen-tts 0.1.1).
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from official import Qwen3TTSModel

SAID = {"henry": "Hello, world. This is a small voice.", "clara": "The boats came home at nine."}


def main(folder: str, out: str) -> None:
    model = Qwen3TTSModel.from_pretrained(folder, dtype=torch.float32, device_map="cpu")
    decode, kept, found = model.model.speech_tokenizer.decode, [], {}

    def watched(items: object, *args: object, **options: object) -> object:
        kept.append((items if isinstance(items, list) else [items])[0]["audio_codes"])
        return decode(items, *args, **options)

    model.model.speech_tokenizer.decode = watched
    for voice, text in SAID.items():
        greedy = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": 60}
        sounds, _ = model.generate_custom_voice(text=text, speaker=voice, language="English", **greedy)
        found |= {f"{voice}.text": text, f"{voice}.pcm": sounds[0], f"{voice}.codes": kept[-1].numpy()}
    np.savez(out, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
