"""Adapters in files: what is written comes back, PEFT's spellings are read, and hostile files are refused."""

import contextlib
import json
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from trap import Trap

from omnitts_cli.errors import InputError
from omnitts_cli.speech import adapters, voice_files
from omnitts_cli.speech.voice_files import SavedVoice
from omnitts_cli.voices import Adapter, Cloned, Pair

MOST_BYTES = 16 << 20  # for headers; the hostile sizes are larger
NAMES = ("talker.model.layers.0.self_attn.q_proj", "talker.code_predictor.model.layers.1.mlp.down_proj")


def an_adapter(scale: float = 2.0, ranks: tuple[int, int] = (4, 4)) -> Adapter:
    rng = np.random.default_rng(0)
    shapes = zip(NAMES, ranks, strict=True)
    return Adapter({
        name: Pair(*(rng.standard_normal(shape).astype(np.float32) for shape in ((rank, 6), (8, rank))), scale)
        for name, rank in shapes
    })  # fmt: skip


def product(pair: Pair) -> np.ndarray:
    return pair.scale * pair.b @ pair.a


def tuned(tmp_path: Path, adapter: Adapter | None = None) -> Path:
    path = tmp_path / "anna.voice"
    voice = Cloned(np.arange(8, dtype=np.float32))
    about = {"model": "tiny", "consent": "Anna, today", "licence": "CC0", "losses": "4.5 -> 4.1"}
    voice_files.write(SavedVoice("anna", voice, about, None, adapter or an_adapter()), path)
    return path


@pytest.mark.parametrize(("scale", "ranks"), [(2.0, (4, 4)), (3 / 2**0.5, (4, 4)), (0.3, (2, 5))])
def test_a_tuned_voice_comes_back(tmp_path: Path, scale: float, ranks: tuple[int, int]) -> None:
    given = an_adapter(scale, ranks)
    found = voice_files.read(tuned(tmp_path, given))
    assert found.name == "anna" and found.about["consent"] == "Anna, today" and found.about["licence"] == "CC0"
    assert found.about["rank"] == str(max(ranks)) and found.adapter is not None
    assert found.adapter.sha256 == adapters.rounded(given).sha256 == found.about["adapter_sha256"]
    for name in NAMES:
        difference = np.abs(product(found.adapter.pairs[name]) - product(given.pairs[name])).max()
        assert difference < 0.02 * np.abs(product(given.pairs[name])).max()
    again = tmp_path / "again.voice"
    voice_files.write(found, again)
    assert again.read_bytes() == (tmp_path / "anna.voice").read_bytes()
    assert voice_files.about(again)["embedding_dim"] == "8"


def test_rounding_to_bfloat16_is_that_of_torch() -> None:
    import torch

    values = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    wanted = torch.from_numpy(values).bfloat16().float().numpy()
    assert np.array_equal(adapters.from_bf16(adapters.to_bf16(values)), wanted)


@pytest.mark.parametrize("ranks", [(4, 4), (2, 5)])
def test_what_is_exported_for_peft_comes_back(tmp_path: Path, ranks: tuple[int, int]) -> None:
    given, vector = an_adapter(2.0, ranks), np.arange(8, dtype=np.float32)
    adapters.write_peft(tmp_path / "out", given, vector, "# A card\n")
    found, speaker = adapters.read_peft(tmp_path / "out")
    assert found.sha256 == given.sha256 and np.array_equal(speaker, vector)
    assert (tmp_path / "out" / "README.md").read_text() == "# A card\n"


def respelled(folder: Path, spell: Callable[[str], str], **config: Any) -> None:
    weights = folder / adapters.PEFT_WEIGHTS
    save_file({spell(name): one for name, one in load_file(weights).items()}, weights)
    path = folder / adapters.PEFT_CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | config))


@pytest.fixture
def peft(tmp_path: Path) -> Path:
    adapters.write_peft(tmp_path / "peft", an_adapter(), np.arange(8, dtype=np.float32), "")
    return tmp_path / "peft"


@pytest.mark.parametrize("spell", [
    lambda name: name.replace("base_model.model.talker.", "base_model.model."),  # the talker alone was wrapped
    lambda name: name.replace(".weight", ".default.weight"),
    lambda name: name.replace("base_model.model.", "base_model.model.module."),
])  # fmt: skip
def test_other_spellings_of_peft_are_read(peft: Path, spell: Callable[[str], str]) -> None:
    respelled(peft, spell)
    assert adapters.read_peft(peft)[0].sha256 == an_adapter().sha256


def test_scales_follow_the_patterns_and_rslora(peft: Path) -> None:
    respelled(peft, str, lora_alpha=6, use_rslora=True, alpha_pattern={"mlp.down_proj": 10})
    scales = [pair.scale for pair in adapters.read_peft(peft)[0].pairs.values()]
    assert sorted(scales) == [3.0, 5.0]


@pytest.mark.parametrize("config", [
    {"use_dora": True}, {"bias": "all"}, {"peft_type": "LOHA"}, {"modules_to_save": ["codec_head"]},
    {"fan_in_fan_out": True}, {"lora_alpha": "16"}, {"lora_alpha": float("nan")}, {"lora_alpha": 1e300},
    {"alpha_pattern": [1]}, {"lora_bias": True},
])  # fmt: skip
def test_what_is_not_plain_lora_is_refused(peft: Path, config: dict[str, Any]) -> None:
    respelled(peft, str, **config)
    with pytest.raises(InputError) as caught:
        adapters.read_peft(peft)
    assert caught.value.cause and caught.value.hint


@pytest.mark.parametrize("name", [adapters.PEFT_WEIGHTS, adapters.PEFT_CONFIG, adapters.PEFT_VECTOR])
def test_pickles_and_missing_files_are_refused(peft: Path, tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    (peft / name).write_bytes(pickle.dumps(Trap(marker)))
    with pytest.raises(InputError):
        adapters.read_peft(peft)
    (peft / name).unlink()
    with pytest.raises(InputError):
        adapters.read_peft(peft)
    assert not marker.exists()


def header(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def rewritten(path: Path, change: Callable[[dict[str, Any]], None], data: bytes | None = None) -> None:
    head, rest = header(path)
    change(head)
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + (rest if data is None else data))


A, B = (f"lora.{NAMES[0]}.lora_{part}" for part in "AB")


def about_changed(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def change(head: dict[str, Any]) -> None:
        about = json.loads(head["__metadata__"]["voice"]) | fields
        head["__metadata__"]["voice"] = json.dumps({key: value for key, value in about.items() if value is not None})

    return change


HOSTILE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "half a pair": lambda head: head.update({B.replace("q_proj", "k_proj"): head.pop(B)}),
    "another layer": lambda head: head.update({"lora.thinker.x.lora_A": head.pop(A)}),
    "a path": lambda head: head.update({"lora.talker/../../x.lora_A": head.pop(A)}),
    "an unknown tensor": lambda head: head.update({"weights": head.pop(A)}),
    "a huge shape": lambda head: head[A].update(shape=[2**39, 2**39]),
    "a wide shape": lambda head: head[A].update(shape=[1, 24]) or head[B].update(shape=[2, 16]),
    "a high rank": lambda head: head[A].update(dtype="U8", shape=[24, 2]),
    "one axis": lambda head: head[A].update(shape=[24]),
    "integers": lambda head: head[A].update(dtype="I16"),
    "overlapping": lambda head: head[A].update(data_offsets=[0, 48]),
    "beyond the end": lambda head: head[A].update(data_offsets=[2**40, 2**40 + 48]),
    "no adapter": lambda head: [head.pop(name) for name in [*head] if name.startswith("lora.")],
    "no embedding": lambda head: head.update({f"{A}x": head.pop("embedding")}),
    "rank 0": about_changed(rank="0"),
    "rank of words": about_changed(rank="four"),
    "no rank": about_changed(rank=None),
    "alpha nan": about_changed(alpha="nan"),
    "alpha huge": about_changed(alpha="1e30"),
    "another sum": about_changed(adapter_sha256="0" * 64),
    "no sum": about_changed(adapter_sha256=None),
    "an unknown field": about_changed(evil="yes"),
    "a field that is no text": about_changed(rank=4),
    "format 1": about_changed(format=1),
    "format 3": about_changed(format=3),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_voice_files_are_refused(tmp_path: Path, what: str) -> None:
    path = tuned(tmp_path)
    rewritten(path, HOSTILE[what])
    with pytest.raises(InputError) as caught, little_memory():
        voice_files.read(path)
    assert caught.value.cause


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Nothing inside takes much memory, whatever sizes a file names."""
    tracemalloc.start()
    try:
        yield
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MOST_BYTES


def half(head: dict[str, Any]) -> None:
    head.pop(next(name for name in head if name.endswith("lora_B.weight")))


def first_is(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda head: head[next(name for name in head if name.endswith("lora_A.weight"))].update(fields)


HOSTILE_PEFT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "half a pair": half,
    "a huge shape": first_is(shape=[2**39, 2**39]),
    "a high rank": lambda head: [
        one.update(shape=[257, 65_536] if "lora_A" in name else [65_536, 257], data_offsets=[0, 4 * 257 * 65_536])
        for name, one in head.items() if name != "__metadata__"
    ],
    "a wide shape": first_is(shape=[1, 65_537]),
    "no axes": first_is(shape=[]),
    "a negative shape": first_is(shape=[-4, -6]),
    "integers": first_is(dtype="I64"),
    "beyond the end": first_is(data_offsets=[2**40, 2**40 + 96]),
    "overlapping": lambda head: [one.update(data_offsets=[0, 96]) for name, one in head.items() if name[0] != "_"],
    "a path": lambda head: head.update({"base_model.model.talker/../../x.lora_A.weight": head.pop(next(iter(head)))}),
    "many tensors": lambda head: head.update({f"x.{n}.lora_A.weight": dict(head) for n in range(3000)}),
    "nothing": lambda head: head.clear(),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE_PEFT)
def test_hostile_adapters_are_refused(peft: Path, what: str) -> None:
    rewritten(peft / adapters.PEFT_WEIGHTS, HOSTILE_PEFT[what])
    with pytest.raises(InputError) as caught, little_memory():
        adapters.read_peft(peft)
    assert caught.value.cause


def test_damaged_voice_files_are_refused(tmp_path: Path) -> None:
    path = tuned(tmp_path)
    whole = path.read_bytes()
    head, data = header(path)
    for bad in (whole[:-1], whole + b"x", whole[:100], whole.replace(b'"F32"', b'"F16"')):
        path.write_bytes(bad)
        with pytest.raises(InputError):
            voice_files.read(path)
    path.write_bytes(whole)
    begin, end = head[A]["data_offsets"]
    rewritten(path, lambda head: None, data[:begin] + b"\xff\x7f" * ((end - begin) // 2) + data[end:])  # NaN
    with pytest.raises(InputError):
        voice_files.read(path)


def test_an_upload_cannot_be_a_tuned_voice(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        voice_files.of_bytes(tuned(tmp_path).read_bytes())


def test_a_tuned_voice_cannot_be_blended(tmp_path: Path) -> None:
    voice = voice_files.read(tuned(tmp_path))
    with pytest.raises(InputError):
        voice_files.blend([(voice, 1.0), (voice, 1.0)], "both")
