"""One engine behind one protocol, for `peers.py`: reads a line of JSON per turn, answers with a line of JSON.

    python benchmarks/peer.py official|faster|omnitts FOLDER --device cpu --dtype float32
    python benchmarks/peer.py make FOLDER                       random weights for the config files there

It runs in the environment of the engine that it measures, so it imports nothing else of this folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.machinery
import json
import os
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

HERE = Path(__file__).resolve().parent
LANGUAGE = "english"
PACKAGES = ("qwen-tts", "qwen-tts-hf", "faster-qwen3-tts", "omnitts-cli", "torch", "transformers")


def stand_ins() -> None:
    """Empty modules for what the official package only needs for another codec, where they do not import."""
    for name in ("sox", "onnxruntime", "torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
        try:
            importlib.import_module(name)
        except Exception:
            module = types.ModuleType(name)
            module.__spec__ = importlib.machinery.ModuleSpec(name, None)
            module.__path__ = []
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, module)


class Official:
    """The `qwen-tts` package. It answers when everything is spoken, so its first sound is its last."""

    def __init__(self, options: argparse.Namespace) -> None:
        stand_ins()
        import torch
        from qwen_tts import Qwen3TTSModel

        torch.set_num_threads(options.threads)
        self._torch = torch
        self._model = Qwen3TTSModel.from_pretrained(
            options.folder, dtype=getattr(torch, options.dtype), device_map=options.device
        )
        self._model.model.eval()
        fix_length(self._model.model.talker)

    def speak(self, texts: list[str], speaker: str, frames: int, seed: int) -> dict[str, Any]:
        self._torch.manual_seed(seed)
        began = time.perf_counter()
        many = len(texts)
        sounds, rate = self._model.generate_custom_voice(
            text=texts,
            speaker=[speaker] * many,
            language=[LANGUAGE] * many,
            max_new_tokens=frames + 1,  # the last one is drawn, but never becomes a frame
        )
        wall_s = time.perf_counter() - began
        audio_s = [len(sound) / rate for sound in sounds]
        return {"wall_s": wall_s, "audio_s": audio_s, "each_s": [wall_s] * many, "first_s": [wall_s] * many}


def fix_length(talker: Any) -> None:
    """Make every generation as long as it may be: the end code is held back."""
    generate = talker.generate

    def to_the_end(**given: Any) -> Any:
        return generate(**(given | {"min_new_tokens": given["max_new_tokens"]}))

    talker.generate = to_the_end


class Faster:
    """The `faster-qwen3-tts` package: one request at a time, streamed in chunks. It needs a CUDA device."""

    def __init__(self, options: argparse.Namespace) -> None:
        stand_ins()
        import torch
        from faster_qwen3_tts import FasterQwen3TTS

        self._torch = torch
        self._model = FasterQwen3TTS.from_pretrained(options.folder, device=options.device, dtype=options.dtype)

    def speak(self, texts: list[str], speaker: str, frames: int, seed: int) -> dict[str, Any]:
        self._torch.manual_seed(seed)
        began = time.perf_counter()
        audio_s, each_s, first_s = [], [], []
        for text in texts:  # asked together, answered one after another
            spoken_s = 0.0
            chunks = self._model.generate_custom_voice_streaming(
                text, speaker, LANGUAGE, max_new_tokens=frames, min_new_tokens=frames, chunk_size=8
            )
            for index, (sound, rate, _) in enumerate(chunks):
                if index == 0:
                    first_s.append(time.perf_counter() - began)
                spoken_s += len(sound) / rate
            audio_s.append(spoken_s)
            each_s.append(time.perf_counter() - began)
        return {"wall_s": each_s[-1], "audio_s": audio_s, "each_s": each_s, "first_s": first_s}


class Omnitts:
    """This repository's engine: everything asked at once, streamed as it is made."""

    def __init__(self, options: argparse.Namespace) -> None:
        sys.path.insert(0, str(HERE.parent))
        from omnitts_cli.devices.choose import choose
        from omnitts_cli.engine.engine import Engine
        from omnitts_cli.settings.engine import EngineSettings
        from omnitts_cli.speech import load as build

        dtype = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[options.dtype]
        settings = EngineSettings(options.device, dtype, options.slots, 60.0, threads=options.threads, offline=True)
        device = choose(settings.device, settings.threads)
        self.card = device.card
        model = build.load_model(options.folder, device, settings=settings)
        self._engine = Engine(model, device, build.plan_for(model, device, settings))

    def speak(self, texts: list[str], speaker: str, frames: int, seed: int) -> dict[str, Any]:
        from omnitts_cli.request import Failed, Request
        from omnitts_cli.voices import Named

        rate = self._engine.model.facts.sample_rate
        requests = [
            Request(text, Named(speaker), LANGUAGE, seed=seed + n, max_frames=frames, ignore_end=True, id=str(n))
            for n, text in enumerate(texts)
        ]
        audio_s, each_s, first_s = ([0.0] * len(texts) for _ in range(3))
        began = time.perf_counter()
        for news in self._engine.speak(requests):
            if isinstance(news, Failed):
                raise news.error
            index, now = int(news.request), time.perf_counter() - began
            first_s[index] = first_s[index] or now
            audio_s[index] += news.pcm.size / rate
            each_s[index] = now
        return {"wall_s": max(each_s), "audio_s": audio_s, "each_s": each_s, "first_s": first_s}


ENGINES = {"official": Official, "faster": Faster, "omnitts": Omnitts}


def make(options: argparse.Namespace) -> None:
    """Random weights for the config files of a folder, with the names and shapes of the official package."""
    stand_ins()
    sys.path.insert(0, str(HERE.parent / "tests" / "golden"))
    import torch
    from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model
    from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration
    from recipe import randomize, tie_codebooks
    from safetensors.torch import save_file

    def shapes(module: Any) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}

    def config(path: Path) -> dict[str, Any]:
        return json.loads(path.read_text(encoding="utf-8"))

    folder, codec_folder = Path(options.folder), Path(options.folder) / "speech_tokenizer"
    top = Qwen3TTSConfig(**config(folder / "config.json"))
    with torch.device("meta"):
        model = Qwen3TTSForConditionalGeneration(top)
    dtype = getattr(torch, options.dtype)

    def drawn(named: tuple[str, tuple[int, ...]]) -> tuple[str, Any]:
        name, shape = named
        return name, randomize({name: shape}, 1)[name].to(dtype)

    with ThreadPoolExecutor() as pool:  # each tensor has a generator of its own
        weights = dict(pool.map(drawn, shapes(model).items()))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    codec = Qwen3TTSTokenizerV2Model(Qwen3TTSTokenizerV2Config(**config(codec_folder / "config.json")))
    weights = randomize(shapes(codec), 18)
    tie_codebooks(weights, top.talker_config.num_code_groups)
    save_file(weights, codec_folder / "model.safetensors")


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def serve(options: argparse.Namespace, out: TextIO) -> None:
    """Answer until stdin ends. What an engine prints goes to stderr."""

    def say(**fields: Any) -> None:
        out.write(json.dumps(fields) + "\n")
        out.flush()

    began = time.perf_counter()
    try:
        engine = ENGINES[options.engine](options)
    except Exception as error:
        return say(error=f"{type(error).__name__}: {error}"[:300])
    card = {"card": engine.card} if isinstance(engine, Omnitts) else {}
    say(load_s=time.perf_counter() - began, versions=versions(), **card)
    for line in sys.stdin:
        try:
            say(**engine.speak(**json.loads(line)))
        except Exception as error:
            say(error=f"{type(error).__name__}: {error}"[:300])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=[*ENGINES, "make"])
    parser.add_argument("folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--slots", type=int, default=4)
    options = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if options.engine == "make":
        return make(options)
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        serve(options, out)


if __name__ == "__main__":
    main()
