"""In 8 bits, a request has the same codes on every processor, with any number of threads, alone and among others."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import tables
import torch
from embedded_pins import PINS, asked, digest, model_with, spoken
from torch import Tensor

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.admission import settled
from omnitts_cli.kernels.cpu import build, library
from omnitts_cli.models.layers import Stack
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Request
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model
from omnitts_cli.weights.find import TINY

FRAMES, EMULATED, LONGER = 3, 10, 40
DIGESTS = {int(frames): found for frames, found in PINS["codes_in_eight_bits"].items()}
"""SHA-256 of the codes of three sentences of `tiny`, by the most frames of each."""


@pytest.fixture(autouse=True)
def prepared(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache folder for all tests of this file, and as many threads as before."""
    tables.compiled()
    place = tmp_path_factory.getbasetemp() / "same-codes"
    monkeypatch.setattr("omnitts_cli.weights.eight_files.folder", lambda: place)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_every_instruction_set_here_says_the_same() -> None:
    variants, cases = library.quantised_usable(), ((1, 1), (4, 8), (2, 4))
    for number, variant in enumerate(variants):
        for threads, together in cases if number == 0 else (cases[number % 3],):
            found = spoken(*model_with(variant, threads), together, FRAMES)
            assert digest(found) == DIGESTS[FRAMES], (variant, threads, together)


def test_the_fingerprint_names_neither_processor_nor_threads() -> None:
    devices = [model_with(None, threads)[1] for threads in (1, 2)]
    plainly = CPUDevice(1)
    assert devices[0].versions() == devices[1].versions() and len(devices[0].versions()) == 1
    assert set(devices[0].versions()) < set(plainly.versions())
    plainly.make_exact()
    load_model(str(TINY), plainly, settings=EngineSettings(dtype="fp32", exact=True))
    assert plainly.card in plainly.versions()


@pytest.mark.slow
def test_every_instruction_set_here_says_the_same_for_longer() -> None:
    for variant in library.quantised_usable():
        for threads in range(1, 5):
            model, device = model_with(variant, threads)
            for together in (1, 4, 8):
                assert digest(spoken(model, device, together, LONGER)) == DIGESTS[LONGER], (variant, threads, together)


# ---- without Python, for processors that only an emulator has here


class Blobs:
    """Writes arrays for codes_driver.c, each after its number of bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def add(self, *arrays: Tensor | np.ndarray) -> None:
        for array in arrays:
            data = (array.detach().numpy() if isinstance(array, Tensor) else array).tobytes()
            self._file.write(len(data).to_bytes(8, "little") + data)

    def whole(self, *numbers: int) -> None:
        self.add(np.array(numbers, "<i8"))

    def real(self, *numbers: float) -> None:
        self.add(np.array(numbers, "<f4"))

    def stack(self, stack: Stack) -> None:
        at = stack.shape
        self.whole(at.hidden, at.inner, at.heads, at.kv_heads, at.head_dim, at.layers)
        self.real(at.eps)
        self.add(stack.norm)
        for block in stack.blocks():
            norms = torch.cat([block.q_norm.expand(at.heads, -1), block.k_norm.expand(at.kv_heads, -1)])
            self.add(block.input_norm, norms, block.mlp_norm, block.qkv, block.out, block.gate_up, block.down)


def write(path: Path, model: SpeechModel, requests: list[Request], frames: int) -> None:
    """What the driver needs to speak `requests`."""
    facts, talker, predictor, text = model.facts, model.talker, model.predictor, model.prompter._text
    drafts = [model.prompter.draft(request) for request in requests]
    pad = model.prompter._pad
    known = sorted({pad, *(one for draft in drafts for one in draft.text)})
    capacity = max(len(draft.text) for draft in drafts) + frames
    settings = settled(requests[0].sampling, model.sampling)
    assert not any(draft.feed or draft.speaker_at is not None for draft in drafts)
    project = predictor.project
    with path.open("wb") as file:
        to = Blobs(file)
        to.whole(
            frames, facts.groups, facts.codes, facts.vocabulary, facts.codes, facts.end_code, facts.least_frames, 50,
            capacity, known.index(pad), int(project is not None),
        )  # fmt: skip
        to.stack(talker.stack)
        to.stack(predictor.stack)
        to.add(*talker.stack.turns(capacity, "cpu"), *predictor.turns)
        to.add(talker.head, *predictor.heads)
        if project is not None:
            to.add(project.weight, project.bias)
        to.add(model.embedder.first, model.embedder.rest)
        to.whole(len(known), *reversed(text.inner.weight.shape))
        to.add(text.inner.weight, text.inner.bias, text.out.weight, text.out.bias)
        to.add(text.table[torch.tensor(known)].float())
        to.whole(*(request.seed for request in requests))
        to.whole(settings.top_k, settings.predictor_top_k)
        to.real(
            settings.temperature, settings.top_p, settings.repetition_penalty, settings.predictor_temperature,
            settings.predictor_top_p,
        )  # fmt: skip
        for draft in drafts:
            to.whole(len(draft.text))
            to.whole(*map(known.index, draft.text))
            to.whole(*[-1] * draft.bare, *draft.codec)


DRIVERS = {
    "avx2": ("gcc", build.QUANTISED_X86["avx2"]),
    "avx512vnni": ("gcc", build.QUANTISED_X86["avx512vnni"]),
    "aarch64-dotprod": ("aarch64-linux-gnu-gcc", ("-static", *build.QUANTISED_ARM["dotprod"])),
    "aarch64": ("aarch64-linux-gnu-gcc", ("-static",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIVERS)
def test_the_same_codes_without_python(name: str, tmp_path: Path) -> None:
    command, flags = DRIVERS[name]
    run = ["qemu-aarch64"] if "-linux-" in command else []
    if not all(map(shutil.which, [command, *run])):
        pytest.skip(f"needs {command} {' '.join(run)}")
    if name.startswith("avx") and name not in library.quantised_usable():
        pytest.skip("not of this processor")
    made, given = tmp_path / "driver", tmp_path / "model"
    fixed = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", *build.ONE_ORDER, "-DVARIANT=driven")
    source = [f"-I{build.FOLDER}", str(Path(__file__).with_name("codes_driver.c")), "-o", str(made), "-lm"]
    subprocess.run([command, *fixed, *flags, *source], check=True)
    model, _ = model_with(None, 1)
    frames = EMULATED if run else LONGER
    write(given, model, asked(8, frames), frames)
    done = subprocess.run([*run, str(made), str(given)], capture_output=True, text=True, check=True)
    codes = [np.array(line.split(), np.int64) for line in done.stdout.splitlines()]
    assert digest(codes) == DIGESTS[frames]
