"""A model with a merged adapter speaks as the official modules with the same adapter; a wrong one is refused."""

from typing import Any

import pytest
import torch
import tune_kit
from greedy import greedy_frames
from tiny_models import near
from tune_kit import Golden
from tune_recipe import PLANS, SIZES, TEXTS

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import VoiceError
from omnitts_cli.request import Request
from omnitts_cli.speech.load import load_model
from omnitts_cli.tuning.learned import LearnedAdapter, places_in
from omnitts_cli.tuning.loss import losses
from omnitts_cli.voices import Adapter, Cloned, Pair
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill
from omnitts_cli.weights.merged import MergedCheckpoint


def frames(size: str, adapter: Adapter | None, count: int) -> torch.Tensor:
    model: Any = load_model(str(tune_kit.folder(size)), CPUDevice(1), adapter=adapter)
    assert model.adapter == (adapter.sha256 if adapter else None)
    voice = Cloned(Golden.of(size).tensors["speaker"].numpy())
    return greedy_frames(model, Request(TEXTS[1], voice, text_mode="whole"), count)


@pytest.mark.parametrize("which", [None, *PLANS])
@pytest.mark.parametrize("size", SIZES)
def test_merged_weights_speak_the_official_frames(size: str, which: str | None) -> None:
    wanted = Golden.of(size).tensors[f"{which}.frames" if which else "frames"].long()
    adapter = tune_kit.golden_adapter(size, which) if which else None
    assert torch.equal(frames(size, adapter, len(wanted)), wanted)


@pytest.mark.parametrize("which", PLANS)
def test_merged_is_what_was_learned(which: str) -> None:
    adapter = tune_kit.golden_adapter("small", which)
    case, merged = tune_kit.case("small"), tune_kit.case("small")
    LearnedAdapter(case.language, places_in(case.language, case.names), adapter)
    files = MergedCheckpoint.of(Checkpoint.open(case.folder), adapter)
    fill(merged.language, case.names, files, "cpu", torch.float32, unused=("speaker_encoder.*",))
    applied, plain = losses(case.language, case.batch()), losses(merged.language, case.batch())
    assert near(applied.hidden, plain.hidden) and near(applied.logits, plain.logits)


def test_an_adapter_of_another_model_is_refused() -> None:
    files = Checkpoint.open(tune_kit.folder("small"))
    good = tune_kit.golden_adapter("small", "two").pairs
    name, pair = next(iter(good.items()))
    for wrong in ({**good, "talker.model.layers.99.mlp.up_proj": pair}, {name: Pair(pair.a[:, 1:], pair.b, 1.0)}):
        with pytest.raises(VoiceError) as caught:
            MergedCheckpoint.of(files, Adapter(wrong))
        assert caught.value.cause and caught.value.hint
