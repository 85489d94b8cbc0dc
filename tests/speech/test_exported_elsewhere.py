"""What is exported works elsewhere, and the other way round: PEFT on the official modules has our losses with an
adapter, and the official package speaks an exported folder as we do.

It needs the environment of `golden/make_golden.py` with peft:

    pip install qwen-tts==0.1.1 peft==0.18.1 && pytest -n 0 tests/speech/test_exported_elsewhere.py
"""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tune_kit
from greedy import greedy_frames
from safetensors.torch import load_file, save_file
from tune_recipe import PLANS, SIZES, TEXTS

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.request import Request
from omnitts_cli.speech import adapters
from omnitts_cli.speech.exported import write_model
from omnitts_cli.speech.load import load_model
from omnitts_cli.tuning.learned import LearnedAdapter, places_in
from omnitts_cli.tuning.loss import REST_WEIGHT, losses
from omnitts_cli.voices import Adapter, Named

peft = pytest.importorskip("peft")
if find_spec("qwen_tts") is None:
    pytest.skip("the official package is not installed", allow_module_level=True)

import make_tune  # noqa: E402
import official  # noqa: E402

CLOSE = 1e-5
FRAMES = 12


def official_loss(model: Any, size: str) -> float:
    """With whatever PEFT has put into the talker."""
    golden, config = tune_kit.Golden.of(size), model.model.config
    ids = [model._tokenize_texts([model._build_assistant_text(text)])[0][0] for text in TEXTS]
    data = [{"ids": one, "codes": golden.tensors[f"codes.{n}"].long()} for n, one in enumerate(ids)]
    talker = model.model.talker
    talker.train()  # as the golden data were made; an adapter without dropout is the same in both modes
    with torch.no_grad():
        return float(make_tune.loss_of(talker, config, data, golden.tensors["speaker"])["loss"])


def our_loss(size: str, adapter: Adapter) -> float:
    case = tune_kit.case(size)
    LearnedAdapter(case.language, places_in(case.language, case.names), adapter)
    batch = case.batch()
    made = losses(case.language, batch)
    return (made.first / batch.count + REST_WEIGHT * (made.rest / made.predicted).mean()).item()


@pytest.mark.parametrize("which", PLANS)
@pytest.mark.parametrize("size", SIZES)
def test_peft_reads_what_is_exported(size: str, which: str, tmp_path: Path) -> None:
    adapter, vector = tune_kit.golden_adapter(size, which), tune_kit.Golden.of(size).tensors["speaker"].numpy()
    adapters.write_peft(tmp_path / "out", adapter, vector, "")
    model = official.load(tune_kit.folder(size))
    plain = official_loss(model, size)
    peft.PeftModel.from_pretrained(model.model, str(tmp_path / "out"))
    found, ours = official_loss(model, size), our_loss(size, adapter)
    print(f"\n{size} {which}: {plain:.7f} plain, {found:.7f} by PEFT, {ours:.7f} ours")  # noqa: T201
    assert found == pytest.approx(ours, rel=CLOSE) and abs(found - plain) > 1e-3


@pytest.mark.parametrize("stabilised", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_we_read_what_peft_writes(size: str, stabilised: bool, tmp_path: Path) -> None:
    """With other ranks and scales for some layers."""
    model = official.load(tune_kit.folder(size))
    config = peft.LoraConfig(
        r=4, lora_alpha=6, target_modules=["q_proj", "o_proj", "gate_proj", "down_proj"], use_rslora=stabilised,
        init_lora_weights=False, rank_pattern={"mlp.down_proj": 2}, alpha_pattern={"self_attn.o_proj": 10},
    )  # fmt: skip
    torch.manual_seed(5)
    model.model.speech_tokenizer, kept = None, model.model.speech_tokenizer  # its layers have the same names
    wrapped = peft.get_peft_model(model.model, config)
    wrapped.save_pretrained(str(tmp_path / "made"))
    model.model.speech_tokenizer = kept
    vector = tune_kit.Golden.of(size).tensors["speaker"]
    save_file({adapters.VECTOR: vector}, tmp_path / "made" / adapters.PEFT_VECTOR)
    adapter, speaker = adapters.read_peft(tmp_path / "made")
    assert np.array_equal(speaker, vector.numpy()) and any("code_predictor" in name for name in adapter.pairs)
    assert our_loss(size, adapter) == pytest.approx(official_loss(model, size), rel=CLOSE)


@pytest.mark.parametrize("which", PLANS)
@pytest.mark.parametrize("size", SIZES)
def test_the_official_package_speaks_an_exported_folder(size: str, which: str, tmp_path: Path) -> None:
    """The frames that it says with the adapter beside the model, and that we say from the folder."""
    base, golden = tmp_path / "base", tune_kit.Golden.of(size)
    shutil.copytree(tune_kit.folder(size), base)
    weights = {name: one.float() for name, one in load_file(base / "model.safetensors").items()}
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    write_model(base, tmp_path / "made", "Ann", golden.tensors["speaker"].numpy(), "",
                tune_kit.golden_adapter(size, which))  # fmt: skip
    model = official.load(tmp_path / "made")
    recorder = official.Recorder(model)
    with recorder:
        wavs, rate = model.generate_custom_voice(text=TEXTS[1], speaker="ann", **official.greedy(FRAMES + 1))
    theirs = recorder.tensors()["talker.frames"][0, :FRAMES]
    assert rate == 24_000 and np.isfinite(wavs[0]).all() and np.abs(wavs[0]).max() > 0
    assert torch.equal(theirs.long(), golden.tensors[f"{which}.frames"].long())
    ours = greedy_frames(
        load_model(str(tmp_path / "made"), CPUDevice(1)), Request(TEXTS[1], Named("ann"), text_mode="whole"), FRAMES
    )
    assert torch.equal(theirs.long(), ours)
