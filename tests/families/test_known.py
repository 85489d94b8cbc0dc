"""Which families there are, and what another one with layers of its own costs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_kit import engine_of, join, same, turns
from safetensors.torch import save_file

from omnitts_cli import families
from omnitts_cli.errors import ModelError
from omnitts_cli.families import known
from omnitts_cli.families.common.parts import Parts, stored
from omnitts_cli.families.common.tokenizer import TextTokenizer, byte_vocabulary
from omnitts_cli.kernels import plain
from omnitts_cli.request import Request
from omnitts_cli.speech.load import open_engine
from omnitts_cli.weights.random_fill import random_fill

HERE = Path(__file__).parent
TEXTS = {"a": "hello", "b": "one two three", "c": "Good morning!"}
SAYINGS = [Request(text, id=name, seed=7, max_frames=12) for name, text in TEXTS.items()]


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The family of the folder beside this file, as if it were in the package."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(HERE)])
    monkeypatch.setitem(known.FOLDERS, "third", "third")


def test_every_line_has_its_folder() -> None:
    assert [one.model_type for one in known.families()] == list(known.FOLDERS)


def test_a_folder_of_no_family_is_refused_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "fourth"}')
    with pytest.raises(ModelError, match=r"'fourth' is not supported; supported: qwen3_tts, qwen3_omni_moe"):
        known.family_of(tmp_path)


def test_a_family_with_layers_of_its_own_is_short() -> None:
    source = (HERE / "third" / "family.py").read_text("utf-8")
    assert len(source.splitlines()) <= 350 and "families.qwen3" not in source


def test_its_requests_are_the_same_alone_together_and_live(third: None) -> None:
    engine = open_engine("random:third", device="cpu", slots=4)
    alone = {request.id: engine.clip(request) for request in SAYINGS}
    for request in SAYINGS[:2]:
        engine.submit(request)
    engine.submit(replace(SAYINGS[2], text=""), live=True)
    news = []
    for piece in ("Good mor", "ning!"):
        news += engine.step()
        engine.feed("c", piece)
    engine.finish("c")
    over = join([*news, *turns(engine, 100)])
    for name, clip in alone.items():
        same(clip, over[name])
    assert len({clip.codes.tobytes() for clip in alone.values()}) == 3 and 0 < np.abs(alone["a"].pcm).max() <= 1


def test_its_folder_is_read_by_its_own_names(third: None, tmp_path: Path) -> None:
    made_up = known.family("third").made_up_config(Path("random:third"), "third")
    pieces: Parts = known.family("third").parts(made_up, plain.OPS)
    tensors: dict[str, torch.Tensor] = {}
    for seed, part in enumerate(pieces.all()):
        random_fill(part.module, seed, "cpu", torch.float32)
        tensors |= stored(part.module, part.names)
    module = __import__("omnitts_cli.families.third.family", fromlist=["MADE_UP"])
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "third"} | module.MADE_UP))
    (tmp_path / "vocab.json").write_text(json.dumps(byte_vocabulary()))
    (tmp_path / "merges.txt").write_text("")
    save_file(tensors, tmp_path / "model.safetensors")
    tokenizer = TextTokenizer(byte_vocabulary(), [])
    wanted = engine_of(
        of=known.family("third").assemble("third", made_up, pieces, tokenizer, torch.from_numpy, plain.OPS)
    )
    read = open_engine(str(tmp_path), device="cpu", slots=2)
    assert np.array_equal(read.clip(SAYINGS[1]).codes, wanted.clip(SAYINGS[1]).codes)
    del tensors["lm.talker.blocks.1.out.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ModelError) as refused:
        open_engine(str(tmp_path), device="cpu", slots=2)
    assert "lm.talker.blocks.1.out.weight" in f"{refused.value.message} {refused.value.cause}"
