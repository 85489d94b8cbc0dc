"""How much 8 bits change a model: little for its own codes, and what cannot be compared is refused."""

import json
from pathlib import Path

import pytest
import tables
from command import Omnitts
from golden_set import checkpoint

from omnitts_cli.bench.quality import measured, requests
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.errors import UsageError
from omnitts_cli.speech.load import load_model
from omnitts_cli.voices import Designed, Named


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.compiled()
    monkeypatch.setattr("omnitts_cli.weights.eight_files.folder", lambda: tmp_path / "q8")


def test_a_model_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.bench.quality.FRAMES", 6)
    said: list[str] = []
    found = measured("tiny", 2, 0, {"threads": 1}, lambda done, words: said.append(words))
    assert (found.model, found.sentences, found.frames) == ("tiny", 2, 12) and len(said) == 2
    assert 0 < found.talker.kl_nats < 0.002 and found.talker.same_top_percent > 90
    assert 0 < found.predictor.kl_nats < 0.012 and found.predictor.same_top_percent > 75
    assert len(found.lines()) == 3 and json.dumps(found.record())


def test_the_voice_is_one_that_needs_no_clip() -> None:
    device = CPUDevice(1)
    named, designed, base = (
        load_model(str(checkpoint(name)), device) for name in ("custom_voice_small", "voice_design", "base")
    )
    assert isinstance(requests(named, 3, 5)[2].voice, Named) and requests(named, 3, 5)[2].seed == 7
    assert isinstance(requests(designed, 1, 0)[0].voice, Designed)
    with pytest.raises(UsageError):
        requests(base, 1, 0)


@pytest.mark.parametrize(("given", "said"), [(("-c", "4"), "-c"), (("ask",), "ask"), (("--rate", "3"), "--rate")])
def test_options_without_effect_are_refused(given: tuple[str, ...], said: str, omnitts: Omnitts) -> None:
    found = omnitts("bench", "--quality", *given)
    assert found.code == 2 and said in found.err
