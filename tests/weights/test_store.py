"""The models on this machine: list, pull, path, verify, rm, against a hub on the loopback."""

from pathlib import Path
from typing import Any

import pytest

from omnitts_cli.errors import ModelError, UsageError
from omnitts_cli.weights import store
from omnitts_cli.weights.released import RELEASED

Hub = Any  # tests/weights/conftest.py

NAME = "hf:someone/a-voice"


@pytest.fixture(autouse=True)
def no_tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(store, "TINY", tmp_path / "no tiny")


@pytest.fixture
def ours(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> str:
    """A released model that this hub serves."""
    monkeypatch.setitem(RELEASED, "1.7b-base", hub.released("1.7b-base"))
    return "1.7b-base"


def test_pull_list_path_verify_rm(hub: Hub, ours: str) -> None:
    assert store.local_models() == [] and hub.asked == []
    found = store.pull("1.7b", variant="base")
    assert store.path("1.7b", variant="base") == found.folder
    [model] = store.local_models()
    assert (model.name, model.folder, model.revision, model.whole) == (ours, found.folder, hub.commit, True)
    assert 400_000 < model.size_bytes < 410_000
    assert {file.state for file in store.verify(ours) if file.path.endswith(".safetensors")} == {"ok"}
    assert store.rm(ours, dry_run=True) == store.rm(ours) == model.size_bytes
    assert store.local_models() == []
    for ask in (store.path, store.rm):
        with pytest.raises(ModelError, match="not on this machine"):
            ask(ours)


def test_pulling_twice_asks_once(hub: Hub, ours: str) -> None:
    store.pull(ours)
    hub.asked.clear()
    store.pull(ours)
    assert hub.asked == []


def test_pulling_a_branch_again_brings_what_is_new(hub: Hub) -> None:
    store.pull(NAME)
    hub.commit, hub.files["config.json"] = "a" * 40, b'{"new": 1}'
    hub.asked.clear()
    found = store.pull(NAME)
    assert found.folder is not None and (found.folder / "config.json").read_bytes() == b'{"new": 1}'
    assert hub.asked_for("model.safetensors") == [], "what is the same is not fetched again"
    assert store.path(NAME) == found.folder


def test_a_model_of_no_table_is_listed_and_verified(hub: Hub) -> None:
    store.pull(NAME)
    [model] = store.local_models()
    assert model.name == NAME and model.whole
    checked = {file.path: file.state for file in store.verify(NAME)}
    assert checked["model.safetensors"] == checked["config.json"] == "ok"
    weights = store.path(NAME) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[1000] ^= 64
    weights.write_bytes(content)
    assert {file.path for file in store.verify(NAME) if file.state == "damaged"} == {"model.safetensors"}


def test_a_broken_off_download_is_listed_and_removed(hub: Hub, ours: str) -> None:
    hub.fails("GET", "/model.safetensors", send=102_400)
    hub.fails("GET", "/model.safetensors", status=403, times=9)
    with pytest.raises(ModelError):
        store.pull(ours)
    [model] = store.local_models()
    assert (model.name, model.whole, model.revision) == (ours, False, None)
    assert model.size_bytes == 102_400
    assert store.rm(ours) == 102_400
    assert store.local_models() == []


def test_a_mirror(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants, file_download

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    template = "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}"
    for module in (constants, file_download):
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
    assert store.pull(NAME, mirror=hub.url).revision == hub.commit


def test_another_revision_of_a_released_model(hub: Hub, ours: str) -> None:
    found = store.pull(ours, revision="main")
    assert found.revision == hub.commit
    assert "GET /api/models/someone/a-voice/revision/main" in hub.asked


@pytest.mark.parametrize("name", ["tiny", "random:0.6b", "/some/folder"])
def test_what_is_not_of_the_hub_is_not_removed(hub: Hub, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be removed"):
        store.rm(name)
    with pytest.raises(UsageError, match="cannot be downloaded"):
        store.pull(name)


def test_a_random_model_has_no_path() -> None:
    with pytest.raises(UsageError, match="has no folder"):
        store.path("random:0.6b")
