"""What the compiled library calculates speaks without PyTorch, and says what it says with it."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from golden_set import checkpoint

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.devices.host import HostDevice
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import State
from omnitts_cli.families.known import family_of
from omnitts_cli.families.qwen3_tts.modules import parts
from omnitts_cli.kernels.cpu import library, networks, quantised
from omnitts_cli.models import compiled as compiled_models
from omnitts_cli.models.compiled import Compiled
from omnitts_cli.models.networks import Networks
from omnitts_cli.request import Request, Sampling
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech import load
from omnitts_cli.speech.memory import slot_bytes
from omnitts_cli.voices import Named
from omnitts_cli.weights import arrays, eight, eight_files
from omnitts_cli.weights.arrays import read
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.find import TINY

SPEAKS = """
import sys
from omnitts_cli.cli.app import main
from omnitts_cli.speech.tts import load
folder = sys.argv.pop()
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
with load(folder, device="cpu", dtype="q8") as released:
    assert released.engine.model.precision == "q8"
    assert released.speak("hello", max_frames=4).seconds > 0
print("torch" in sys.modules)
"""


@pytest.fixture(autouse=True)
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not library.usable():
        pytest.skip("the library of the CPU was not compiled")
    monkeypatch.setattr(eight_files, "folder", lambda: tmp_path / "q8")


def test_speaking_imports_no_torch(tmp_path: Path) -> None:
    """`say` with the embedded voice in float32, then the layout of a released model in 8 bits."""
    home, sound = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}, tmp_path / "a.wav"
    say = ["say", "Hello there friend.", "-d", "cpu", "-o", str(sound), "-q"]
    command = [sys.executable, "-c", SPEAKS, *say, str(checkpoint("custom_voice_small"))]
    done = subprocess.run(command, env=os.environ | home, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["False"], done.stderr
    assert sound.stat().st_size > 20_000


def engines(folder: Path, dtype: str, exact: bool = False) -> tuple[Engine, Engine]:
    """Without PyTorch and with it."""
    made = []
    for device in (HostDevice(1), CPUDevice(1)):
        settings = EngineSettings(device="cpu", dtype=dtype, exact=exact)
        if exact:
            device.make_exact()
        model = load.load_model(str(folder), device, settings=settings)
        made.append(load.start(model, device, load.plan_for(model, device, settings)))
    lean, full = made
    assert isinstance(lean.model, Compiled) and isinstance(full.model, Networks)
    assert lean.model.precision == full.model.precision == ("q8" if dtype == "q8" else "float32")
    return lean, full


@pytest.mark.parametrize("dtype", ["fp32", "q8"])
@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small"])
def test_codes_and_sound_are_those_of_the_same_model_in_pytorch(name: str, dtype: str) -> None:
    """In 8 bits all that decides about codes is in the library, on both ways."""
    lean, full = engines(checkpoint(name), dtype)
    asked = [Request(text, Named("ryan"), "english", seed=n, max_frames=12) for n, text in enumerate(("a b", "hello"))]
    asked.append(replace(asked[0], sampling=Sampling(temperature=0.0, predictor_temperature=0.0)))
    asked.append(replace(asked[1], text_mode="streamed"))
    for request in asked:
        one, other = lean.clip(request), full.clip(request)
        assert np.array_equal(one.codes, other.codes)
        assert one.pcm.dtype == np.float32 and np.abs(one.pcm - other.pcm).max() < 2e-6


def test_the_embedded_voice_says_the_same() -> None:
    lean, full = engines(TINY, "fp32")
    request = Request("Hello there.", Named("clara"), "english", seed=5, max_frames=20)
    one, other = lean.clip(request), full.clip(request)
    assert np.array_equal(one.codes, other.codes) and np.array_equal(one.pcm, other.pcm)
    assert slot_bytes(lean.model, lean.plan) == slot_bytes(full.model, full.plan)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs the /proc of Linux")
def test_the_cache_takes_memory_for_what_is_written() -> None:
    """One position of every head of every slot: a small page each."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    lean, _ = engines(TINY, "fp32")
    cache, before = lean.model.cache(4, 2048), resident()
    cache.keys[:, :, :, 0] = cache.values[:, :, :, 0] = 1
    assert cache.keys.nbytes > 30 << 20 and resident() - before < cache.keys.nbytes // 8


def test_a_frame_writes_the_prompts_that_wait() -> None:
    """A paused request makes no frame, so its prompt goes with that of another, or is cleared with its slot."""
    lean, _ = engines(checkpoint("custom_voice_small"), "fp32")
    asked = [Request(text, Named("ryan"), seed=n, max_frames=6) for n, text in enumerate(("hello", "a b c", "tea"))]
    alone = [lean.clip(one).codes for one in asked]
    before = lean.frames_launched
    paused = lean.submit(replace(asked[0], id="paused"))
    gone = lean.submit(replace(asked[1], id="gone"))
    for name in (paused, gone):
        lean.pause(name)
    while lean.snapshot().by_state(State.WAITING):
        lean.step()
    assert lean.snapshot().by_state(State.RUNNING) == [paused, gone] and lean.frames_launched == before
    lean.cancel(gone)
    assert np.array_equal(lean.clip(asked[2]).codes, alone[2])
    assert np.array_equal(lean.clip(asked[1]).codes, alone[1])
    lean.resume(paused)
    codes = [news.codes for news in lean.speak([]) if news.request == paused]
    assert np.array_equal(np.concatenate(codes), alone[0])


def test_a_prompt_of_a_new_voice_goes_with_its_first_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prefix is kept afterwards."""
    lean, _ = engines(checkpoint("custom_voice_small"), "fp32")
    apart = list[object]()
    monkeypatch.setattr(networks.NativeStack, "__call__", lambda *given: apart.append(given))
    request = Request("hello", Named("ryan"), seed=1, max_frames=6)
    new, known = lean.clip(request), lean.clip(request)
    assert apart == [] and lean.snapshot().prefixes == 1
    assert np.array_equal(new.codes, known.codes)


def test_keys_and_values_of_prompts_that_wait() -> None:
    """A reader finds keys and values written, and they are the same whether written alone or with others."""
    lean, _ = engines(checkpoint("custom_voice_small"), "fp32")
    rows = np.random.default_rng(0).standard_normal((2, 5, lean.model.facts.hidden)).astype(np.float32)
    starts, slots = np.array([0, 3]), np.array([1, 2])
    together, apart = lean.model.cache(3, 16), lean.model.cache(3, 16)
    lean.model.prefill(rows, starts, slots, together, 16)
    for n in range(2):
        lean.model.prefill(rows[n : n + 1], starts[n : n + 1], slots[n : n + 1], apart, 16)
    kept, _ = apart.prefix(4, 1)
    assert apart.taken() is None
    assert np.array_equal(together.keys, apart.keys) and np.array_equal(together.values, apart.values)
    assert kept.any() and np.array_equal(kept[:, 0], apart.keys[:, 1, :, :4])
    together.clear(2)
    assert together.keys[:, 1].any() and not together.keys[:, 2].any()


def test_several_requests_share_the_engine() -> None:
    lean, _ = engines(checkpoint("custom_voice_small"), "q8", exact=True)
    asked = [Request("hello", Named("ryan"), seed=n, max_frames=6, id=str(n)) for n in range(6)]
    alone = [lean.clip(one).codes for one in asked]
    found: dict[str, list[np.ndarray]] = {}
    for news in lean.speak(asked):
        found.setdefault(news.request, []).append(news.codes)
    assert all(np.array_equal(np.concatenate(found[str(n)]), codes) for n, codes in enumerate(alone))


@pytest.mark.parametrize("name", ["custom_voice", "custom_voice_small"])
def test_a_later_start_calculates_nothing_and_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory, as at a first start without room; then kept; then mapped, without what reads and rearranges."""
    request = Request("hello", Named("ryan"), "english", seed=3, max_frames=9)

    def spoken() -> np.ndarray:
        model = load.load_model(str(checkpoint(name)), HostDevice(1), settings=EngineSettings(dtype="q8"))
        return load.start(model, HostDevice(1), load.plan_for(model, HostDevice(1))).clip(request).pcm

    def fails(*given: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(eight, "_write", fails)
        in_memory = spoken()
    assert not eight_files.folder().exists()
    assert np.array_equal(spoken(), in_memory)
    for place, part in ((networks, "pack"), (quantised, "multiply"), (arrays, "read"), (eight, "read")):
        monkeypatch.setattr(place, part, fails)
    assert np.array_equal(spoken(), in_memory)


@pytest.mark.parametrize("large", [False, True])
def test_the_shapes_of_a_packed_codec_are_those_that_are_made(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "halves_fit", lambda size_bytes: large)
    family = family_of(TINY)
    assert family.stored is not None
    stored, files = family.stored(family.read_config(TINY)), Checkpoint.open(TINY / "speech_tokenizer")
    packed = compiled_models.PackedCodec(stored.shape)
    made = list(packed.made(lambda part: read(stored.decoder[0][part], files)))
    expected = packed.shapes()
    assert len(made) == len(expected)
    for part, array in made:
        kinds, size = expected[part]
        assert array.dtype.name in kinds and array.shape == size
    odd = [array.nbytes % 64 != 0 for _, array in made]
    assert odd == sorted(odd)  # what ends between two lines of a cache is last


@pytest.mark.parametrize("folder", [TINY, checkpoint("custom_voice"), checkpoint("base")], ids=lambda path: path.name)
def test_names_and_shapes_are_those_of_the_modules(folder: Path) -> None:
    family = family_of(folder)
    config = family.read_config(folder)
    assert family.stored is not None
    stored, modules = family.stored(config), parts(config, cloning=False)
    for (names, sizes, place, leftover), part in zip(
        (stored.language, stored.decoder), (modules.language, modules.decoder), strict=True
    ):
        assert sizes == {name: tuple(weight.shape) for name, weight in part.module.named_parameters()}
        assert (names.keys(), place, leftover) == (part.names.keys(), part.folder, part.leftover)


@pytest.mark.parametrize(
    ("device", "dtype", "native", "lean"),
    [("cpu", "auto", "1", True), ("cpu", "bf16", "1", False), ("cpu", "auto", "0", False), ("auto", "fp32", "1", True)],
)
def test_what_opens_without_pytorch(
    device: str, dtype: str, native: str, lean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnitts_cli.devices.choose.driver_of_cuda", lambda: False)
    monkeypatch.setenv("OMNITTS_NATIVE", native)
    engine = load.open_engine(str(checkpoint("custom_voice_small")), device=device, dtype=dtype)
    assert isinstance(engine.model, Compiled) == lean and isinstance(engine.device, CPUDevice) != lean
