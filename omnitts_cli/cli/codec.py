"""omnitts codec: sound to codec codes and back."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from omnitts_cli.audio.encode import SUFFIXES
from omnitts_cli.audio.magic import is_recording
from omnitts_cli.audio.read import read_sound
from omnitts_cli.audio.resample import resample
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.cli.sound_out import SideFile, open_stage, packed, refuse_overwriting, refuse_same, require_rate
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.setting import TARGET
from omnitts_cli.settings.table import Model, Output
from omnitts_cli.speech.loop import SpeechEngine
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.signals import held
from omnitts_cli.weights.find import sample_rate

LARGEST_BYTES = 2**30
CHUNK = 32  # frames decoded at once


def encode(sound: str, model: Model, opener: ModelOpener, file: str | None = None, output: str | None = None) -> None:
    """Encode sound to codec codes."""
    if (file is None) == (output is None):
        hint = f"omnitts codec encode {sound} -o {file or 'codes.safetensors'}"
        raise UsageError("name the file for the codes once", hint=hint)
    file = TARGET.read(file or output or "")
    refuse_same(file, [sound])
    if Path(file).suffix.lower() in SUFFIXES:
        hint = f"omnitts codec encode {sound} {Path(file).with_suffix('.safetensors')}"
        raise UsageError(f"{file} has the suffix of a sound file, but codes are written as safetensors", hint=hint)
    recording = read_sound(sound, shortest_s=0.0, longest_s=3600.0, stdin=stdin_of(sound))
    for notice in recording.notices:
        console.warning(notice)
    target = SideFile(file)
    try:
        with opener.model(model.model, "base") as tts:
            engine = tts.engine
            if engine.model.cloner is None:
                raise UsageError(f"{engine.model.name} has no encoder", hint="-m 0.6b   or   -m 1.7b")
            made = engine.model.cloner.codes(resample(recording.sound, recording.rate, engine.model.facts.sample_rate))
        target.write(packed(made))
    finally:
        target.discard()
    console.detail(f"{len(made)} frames in {file}")
    console.record(status="ok", output=file, frames=int(made.shape[0]), groups=int(made.shape[1]))


def decode(file: str, model: Model, output: Output, opener: ModelOpener, sound: str | None = None) -> None:
    """Decode codec codes to sound."""
    if sound is not None:
        if output.output is not None:
            raise UsageError("use either -o or a second name, not both", hint=f"omnitts codec decode {file} -o {sound}")
        output = replace(output, output=TARGET.read(sound))
    refuse_overwriting(output, [file])
    frames = read_codes(file)
    with ExitStack() as closing:
        stage = open_stage(output, sample_rate(model.model or EMBEDDED, "base"))
        closing.callback(stage.sink.discard)
        tts = closing.enter_context(opener.model(model.model, "base"))
        require_rate(stage.rate, tts.sample_rate)
        engine, facts = tts.engine, tts.engine.model.facts
        if frames.shape[1] != facts.groups or frames.max() >= facts.codes:
            raise InputError(
                f"the codes in {file} do not fit {engine.model.name}",
                cause=f"{frames.shape[1]} groups with codes up to {frames.max()}",
                hint=f"use codes with {facts.groups} groups below {facts.codes}, or another model: -m",
            )
        samples = 0
        for block in decoded(engine, frames):
            with held():
                stage.sink.write(block)
            samples += block.size
        stage.sink.finish()
    if stage.named:
        console.result(str(stage.path))
    console.record(status="ok", output=stage.shown, frames=len(frames), audio_s=round(samples / facts.sample_rate, 3))


def stdin_of(name: str) -> BinaryIO | None:
    return sys.stdin.buffer if name == "-" and sys.stdin else None


def read_codes(name: str) -> np.ndarray:
    """Reads codes [frames, groups] int64."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    shown = "on standard input" if name == "-" else name
    try:
        codes = load(bytes_of(name))["codes"]
    except KeyError:
        raise unusable(shown, "it has no integer tensor `codes`") from None
    except (SafetensorError, ValueError, OSError) as error:
        raise unusable(shown, str(error)) from None
    if codes.ndim != 2 or codes.dtype.kind != "i" or not codes.size or codes.min() < 0:
        raise unusable(shown, f"`codes` is {codes.dtype} of shape {codes.shape}")
    return codes


def bytes_of(name: str) -> bytes:
    """The bytes of the file, up to a limit that no speech reaches."""
    path, stdin = Path(name), stdin_of(name)
    if stdin is None and not path.is_file():
        raise InputError(
            f"code file {name} not found, or not a regular file", hint=f"ls {shlex.quote(str(path.parent))}"
        )
    if stdin is None and is_recording(path):
        raise InputError(f"{name} is a recording, not a code file", hint=f"omnitts codec encode {name} OUT.safetensors")
    with nullcontext(stdin) if stdin is not None else path.open("rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise ValueError("the file is too large")
    return data


def unusable(shown: str, why: str) -> InputError:
    hint = "code files are made by omnitts codec encode, or by --codes"
    return InputError(f"cannot use code file {shown}", cause=why[:200], hint=hint)


def decoded(engine: SpeechEngine, codes: np.ndarray) -> Iterator[np.ndarray]:
    """Yields sound chunk by chunk, carrying the codec's state along."""
    import torch

    codec: Any = engine.model.codec  # a module in the role of Codec
    codec.to(engine.model.device)  # an engine with a copy of its own may have moved it to the host
    parameter = next(codec.parameters())
    with torch.inference_mode():
        state = codec.initial_state(1, parameter.device, parameter.dtype)
        for start in range(0, len(codes), CHUNK):
            part = torch.from_numpy(codes[start : start + CHUNK]).to(parameter.device)[None]  # [1, T, G]
            sound, state = codec.step(part, state)
            missing = 0 if start else engine.model.facts.missing_samples
            yield sound[0, missing:].float().cpu().numpy()
