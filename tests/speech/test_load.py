"""Build: names and settings become models and engines, or one error that says what to do."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from golden_cases import CASES, asked
from golden_set import case, checkpoint
from safetensors.torch import load_file, save_file
from tiny_models import near

from omnitts_cli.audio.chunk import Chunk, Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.engine import Engine
from omnitts_cli.errors import DeviceError, InputError, ModelError, Notice, SettingsError, UsageError
from omnitts_cli.request import Request, Sampling
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech import load as build
from omnitts_cli.speech.load import load_model, open_engine, plan_for
from omnitts_cli.voices import Named


@pytest.fixture(scope="module")
def cpu() -> CPUDevice:
    return CPUDevice(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder of one's own, to be damaged."""
    return shutil.copytree(checkpoint("custom_voice_small"), tmp_path / "model")


def change(file: Path, **keys: object) -> None:
    """Set keys of a JSON file; "talker_config.vocab_size" becomes talker_config__vocab_size."""
    whole = json.loads(file.read_text(encoding="utf-8"))
    for path, value in keys.items():
        *parents, key = path.split("__")
        place = whole
        for parent in parents:
            place = place[parent]
        place[key] = value
    file.write_text(json.dumps(whole), encoding="utf-8")


@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small", "voice_design", "base", "base_large"])
def test_golden_folders_load(name: str, cpu: CPUDevice) -> None:
    model = load_model(str(checkpoint(name)), cpu)
    assert model.dtype == torch.float32 and model.facts.samples_per_frame == 1920
    assert (model.cloner is not None) == name.startswith("base")
    weights = (checkpoint(name) / "model.safetensors").read_bytes()
    assert model.sha256 == hashlib.sha256(weights).hexdigest()
    assert not any(weight.requires_grad for weight in model.talker.parameters())


def test_what_is_stored_in_bfloat16_is_spoken_in_float32_on_a_cpu(folder: Path, cpu: CPUDevice) -> None:
    file = folder / "model.safetensors"
    save_file({name: tensor.bfloat16() for name, tensor in load_file(file).items()}, file)
    assert load_model(str(folder), cpu).dtype == torch.float32
    model = load_model(str(folder), cpu, settings=EngineSettings(dtype="bf16"))
    assert model.dtype == torch.bfloat16
    assert {weight.dtype for weight in model.codec.parameters()} == {torch.float32}
    prompt = model.prompter.prompt(Request("hello", Named("ryan")))
    assert prompt.rows.dtype == torch.bfloat16


def test_a_fine_tuned_folder(tmp_path: Path, cpu: CPUDevice) -> None:
    """As the official training script leaves it: a Base folder with one speaker, whose name may have capitals."""
    folder = shutil.copytree(checkpoint("base"), tmp_path / "tuned")
    file = folder / "model.safetensors"
    kept = {name: t for name, t in load_file(file).items() if not name.startswith("speaker_encoder.")}
    save_file(kept, file)
    change(
        folder / "config.json",
        tts_model_type="custom_voice",
        talker_config__spk_id={"MyVoice": 1000},
        talker_config__spk_is_dialect={"MyVoice": False},
    )
    model = load_model(str(folder), cpu)
    assert model.kinds == {"named"} and list(model.speakers) == ["myvoice"] and model.cloner is None
    rows = [model.prompter.prompt(Request("hi", Named(name))).rows for name in ("MyVoice", "myvoice", "MYVOICE")]
    assert torch.equal(rows[0], rows[1]) and torch.equal(rows[0], rows[2])
    with pytest.raises(UsageError, match="cannot follow a style"):
        model.prompter.prompt(Request("hi", Named("myvoice"), style="softly"))


def test_a_folder_of_our_own_can_do_everything(tmp_path: Path, cpu: CPUDevice) -> None:
    folder = shutil.copytree(checkpoint("base"), tmp_path / "ours")
    ours = {
        "kinds": ["named", "cloned", "designed"], "languages": ["english"], "voices": {"Ann": "calm"}, "style": True,
        "longest_piece": 90, "plain_letters": True,
    }  # fmt: skip
    change(folder / "config.json", omnitts=ours, talker_config__spk_id={"Ann": 1000})
    model = load_model(str(folder), cpu)
    assert model.kinds == {"named", "cloned", "designed"} and model.cloner is not None
    assert model.speakers == {"ann": "calm"} and model.languages == ("english",)
    assert model.longest_piece == 90 and model.plain_letters
    assert len(model.prompter.prompt(Request("hi", Named("ann"), "english", style="softly")).rows)
    with pytest.raises(UsageError) as raised:
        model.prompter.prompt(Request("hi", Named("ann"), "german"))
    assert "-m 0.6b" in raised.value.hint


def test_a_config_that_does_not_describe_the_weights(folder: Path, cpu: CPUDevice) -> None:
    change(folder / "config.json", talker_config__intermediate_size=128)
    with pytest.raises(ModelError, match=r"do not match its config\.json"):
        load_model(str(folder), cpu)


@pytest.mark.parametrize("file", ["config.json", "vocab.json", "merges.txt", "speech_tokenizer/config.json"])
def test_a_missing_file_is_named(file: str, folder: Path, cpu: CPUDevice) -> None:
    (folder / file).unlink()
    with pytest.raises(ModelError) as raised:
        load_model(str(folder), cpu)
    assert Path(file).name in f"{raised.value.message} {raised.value.cause}"


def test_a_made_up_model_of_a_released_size_reads_no_file(cpu: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The released sizes with everything that costs time made small."""
    from omnitts_cli.families.qwen3_tts import released

    def small(name: str) -> dict[str, object]:
        config = config_of(name)
        for stack in (config["talker_config"], config["talker_config"]["code_predictor_config"]):
            stack |= {"num_hidden_layers": 1, "intermediate_size": 8, "hidden_size": 16, "head_dim": 4}
        config["talker_config"] |= {"text_vocab_size": 151_936, "text_hidden_size": 4}
        return config

    config_of = released.model_config
    monkeypatch.setattr(released, "model_config", small)
    codec = tiny_codec(released.codec_config())
    monkeypatch.setattr(released, "codec_config", lambda: codec)
    for reader in ("find", "family_of", "read_tokenizer", "Checkpoint"):
        monkeypatch.setattr(build, reader, None)
    for name, variant, kind in [
        ("random:0.6b-base", None, "cloned"),
        ("random:0.6b", "custom_voice", "named"),
        ("random:1.7b-customvoice", None, "named"),
        ("random:1.7b-custom_voice", None, "named"),
        ("random:1.7b", "voice_design", "designed"),
    ]:
        model = load_model(name, cpu, variant=variant)
        assert model.kinds == {kind} and model.facts.end_code == 2150
    assert len(load_model("random:0.6b", cpu).prompter.prompt(Request("hi", Named("ryan"))).rows) == 8 + 1 + 2


def tiny_codec(codec: dict) -> dict:
    narrow = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    decoder = codec["decoder_config"] | narrow | {"decoder_dim": 16, "latent_dim": 4, "codebook_dim": 4}
    encoder = codec["encoder_config"] | narrow | {"num_filters": 2, "codebook_dim": 2}
    return codec | {"decoder_config": decoder, "encoder_config": encoder}


@pytest.mark.parametrize("name", ["random:", "random:2b", "random:0.6b-voicedesign", "random:../x"])
def test_unknown_made_up_models(name: str, cpu: CPUDevice) -> None:
    with pytest.raises(ModelError) as raised:
        load_model(name, cpu)
    assert "random:toy" in raised.value.hint


def test_options_are_strict() -> None:
    with pytest.raises(SettingsError, match="slot"):
        open_engine("random:toy", slot=3)
    with pytest.raises(SettingsError, match="'tpu' is not one of auto"):
        open_engine("random:toy", device="tpu")
    with pytest.raises(DeviceError, match="cuda:77"):
        open_engine("random:toy", device="GPU:77")
    with pytest.raises(DeviceError, match="npu"):
        open_engine("random:toy", device="npu:0")


@pytest.mark.parametrize(
    ("first", "chunk", "chunks"),
    [(1, 16, (1, 2, 4, 8, 16)), (4, 12, (1, 2, 4, 8, 12)), (25, 25, (1, 2, 4, 8, 16, 25)), (3, 1, (1,))],
)
def test_chunk_sizes(first: int, chunk: int, chunks: tuple[int, ...], cpu: CPUDevice) -> None:
    model = load_model("random:toy", cpu)
    plan = plan_for(model, cpu, EngineSettings(first_chunk=first, chunk=chunk, slots=1))
    assert plan.chunks == chunks and plan.first_chunk == min(first, chunk)
    assert not plan.capture  # there is nothing to record on a CPU


QUICK = [
    "custom_voice/english_nonstream", "custom_voice/batch_stream", "custom_voice_small/english_nonstream",
    "voice_design/batch_nonstream", "base/batch_mixed_stream", "base/icl_nonstream",
    "base_large/icl_stream_codec_longer",
]  # fmt: skip
GREEDY = Sampling(temperature=0.0, predictor_temperature=0.0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in CASES
        if not name.endswith("sampled")
    ],
)
def test_the_engine_speaks_as_the_official_package(name: str) -> None:
    """Rows of a batch side by side in the engine: their frames, their sound, and why they stopped."""
    golden = case(name)
    most = golden.meta["arguments"]["max_new_tokens"] - 1  # the official package never speaks its last token
    engine = open_engine(str(checkpoint(name.split("/")[0])), device="cpu", threads=1, slots=3, seconds=10)
    asked_for = [
        replace(request, id=str(index), sampling=GREEDY, max_frames=most) for index, request in enumerate(asked(golden))
    ]
    chunks: dict[str, list[Chunk]] = {request.id: [] for request in asked_for}
    for news in engine.speak(asked_for):
        assert isinstance(news, Chunk), news.error
        chunks[news.request].append(news)
    for index, parts in enumerate(chunks.values()):
        clip, frames = Clip.join(parts), golden.meta["frame_lengths"][index]
        assert clip.stopped == ("end" if golden.meta["stopped_by_eos"][index] else "limit")
        assert np.array_equal(clip.codes, golden.tensors["talker.frames"][index, :frames].numpy())
        assert len(clip.pcm) == golden.meta["wav_lengths"][index]
        sound, key = torch.from_numpy(clip.pcm), f"wav.{index}"
        assert near(golden.same(key, sound), golden.tensors[key])


def test_the_embedded_voice_needs_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert build.threads_for("tiny") == build.threads_for(str(build.TINY)) == 1
    assert build.threads_for("random:toy") is None and build.threads_for("x" * 5000) is None
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert build.threads_for("tiny") is None


def test_no_slot_is_longer_than_the_models_positions(cpu: CPUDevice) -> None:
    model = load_model("random:toy", cpu)
    usual = plan_for(model, cpu)
    assert (usual.positions, usual.frames) == (2013, 1501)
    longest = plan_for(model, cpu, EngineSettings(seconds=2400))
    assert (longest.positions, longest.frames) == (4096, 4096) == (model.facts.max_positions,) * 2
    engine = Engine(model, cpu, longest)
    with pytest.raises(InputError, match=r"5,000 frames .* room for 4,0\d\d, as many as the model has") as raised:
        engine.clip(Request("Hello.", max_frames=5000, ignore_end=True))
    assert "longer slots" not in str(raised.value.hint)
    with pytest.raises(InputError) as raised:
        Engine(model, cpu, usual).clip(Request("Hello.", max_frames=5000, ignore_end=True))
    assert "longer slots" in str(raised.value.hint)


def test_a_request_may_use_every_position_of_a_small_model(cpu: CPUDevice) -> None:
    model = load_model("random:toy", cpu)
    rows = len(model.prompter.prompt(Request("Hello.")).rows)
    model = replace(model, facts=replace(model.facts, max_positions=rows + 30))
    engine = Engine(model, cpu, plan_for(model, cpu))
    assert len(engine.clip(Request("Hello.", max_frames=30, ignore_end=True)).codes) == 30
    with pytest.raises(InputError, match=r"31 frames .* room for 30"):
        engine.clip(Request("Hello.", max_frames=31, ignore_end=True))
    assert len(engine.clip(Request("Hello.", max_frames=31)).codes) <= 30, "a limit is a maximum"


def test_a_file_gets_more_slots_where_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    model, device = load_model("random:toy", CPUDevice()), CPUDevice()
    patient = EngineSettings(patient=True)
    assert plan_for(model, device).slots == 4
    assert plan_for(model, device, patient).slots == 16
    assert plan_for(model, device, EngineSettings(patient=True, slots=3)).slots == 3
    monkeypatch.setattr(type(device), "free_bytes", lambda self: 1000)
    assert plan_for(model, device, patient).slots == 4


def test_with_weights_in_8_bits_the_instruction_set_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnitts_cli.weights.eight_files.folder", lambda: tmp_path)
    device, name = CPUDevice(1), str(checkpoint("custom_voice_small"))
    if device.ops().eight is None:
        pytest.skip("the library of the CPU was not compiled")
    for few, many in ((4, 8), (2, 4), (1, 4)):
        device._ops = replace(device.ops(), eight=replace(device.ops().eight, together=(few, many)))
        model = load_model(name, device, settings=EngineSettings(dtype="q8"))
        listened, waited_for = plan_for(model, device), plan_for(model, device, EngineSettings(patient=True))
        assert (listened.slots, waited_for.slots) == (few, many)
        assert listened.first_alone and listened.admissions == 1
        assert waited_for.admissions == many
        assert (listened.bulk_chunk, waited_for.bulk_chunk) == (1, 8)


def test_exact_on_a_cpu_is_float32() -> None:
    settings = EngineSettings(device="cpu", exact=True, slots=2)
    device = build.device_for("random:toy", settings)
    model = load_model("random:toy", device, settings=settings)
    assert not plan_for(model, device, settings).fixed_chunks  # the sound does not depend on the chunks
    with pytest.raises(DeviceError, match="not bfloat16"):
        load_model("random:toy", device, settings=replace(settings, dtype="bf16"))


def test_a_library_that_cannot_be_loaded_is_said_once(cpu: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Notice] = []
    load_model("random:toy", cpu, tell=said.append)
    assert said == []
    monkeypatch.setattr(cpu, "unloadable", "wrong ELF class")
    load_model("random:toy", cpu, tell=said.append)
    assert [notice.cause for notice in said] == ["wrong ELF class"] and said[0].hint
