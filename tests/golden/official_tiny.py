"""The embedded voice through the official package, in an environment that has it: greedy codes and sound.

    PYTHON tests/golden/official_tiny.py MODEL_FOLDER OUT.npz '[["henry", "English", "həlˈoʊ."]]'

The last argument has voices, languages and texts as the tokenizer reads them (`omnitts say --dry-run --json`).

`tests/test_embedded.py` calls it when OMNITTS_OFFICIAL_PYTHON names such a Python (qwen-tts 0.1.1).
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from official import Qwen3TTSModel


def main(folder: str, out: str, texts: str) -> None:
    model = Qwen3TTSModel.from_pretrained(folder, dtype=torch.float32, device_map="cpu")
    decode, kept, found = model.model.speech_tokenizer.decode, [], {}

    def watched(items: object, *args: object, **options: object) -> object:
        kept.append((items if isinstance(items, list) else [items])[0]["audio_codes"])
        return decode(items, *args, **options)

    model.model.speech_tokenizer.decode = watched
    for number, (voice, language, text) in enumerate(json.loads(texts)):
        greedy = {"do_sample": False, "subtalker_dosample": False, "max_new_tokens": 60}
        sounds, _ = model.generate_custom_voice(text=text, speaker=voice, language=language, **greedy)
        found |= {f"{number}.pcm": sounds[0], f"{number}.codes": kept[-1].numpy()}
    np.savez(out, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
