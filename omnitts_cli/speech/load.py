"""Build a SpeechModel or an Engine from a model name and settings. The only file that imports every package."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from omnitts_cli.devices import choose
from omnitts_cli.devices.cpu import CPUDevice, omp_threads
from omnitts_cli.devices.device import Device
from omnitts_cli.devices.system import physical_cores
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import Plan
from omnitts_cli.errors import DeviceError, ModelError, Notice, OmniError
from omnitts_cli.families.common.parts import HEAD, Part
from omnitts_cli.families.common.tokenizer import PieceTokenizer, read_tokenizer
from omnitts_cli.families.known import families, family_of
from omnitts_cli.families.toy import toy
from omnitts_cli.kernels.ops import EIGHT, Ops
from omnitts_cli.models.roles import Codec, SpeechModel, Talker, precision_name
from omnitts_cli.models.slot_decoder import call_bytes, keep_operands_only
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED, variable
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.speech.memory import refuse_what_cannot_fit, shortage
from omnitts_cli.voices import Adapter
from omnitts_cli.weights import eight
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.fetch import Report
from omnitts_cli.weights.find import TINY, find
from omnitts_cli.weights.load import fill
from omnitts_cli.weights.merged import MergedCheckpoint
from omnitts_cli.weights.random_fill import random_fill
from omnitts_cli.weights.sums import model_sha256

RANDOM = "random:"
SMALL = 64 << 20  # bytes of weights
SOUND_FRAMES = 20
"""Frames that a CPU decodes together. More frames do not lower the time per frame; from 32 MiB of buffers on (32 frames
of the embedded voice), malloc maps fresh memory at every call, and a frame takes 25 % longer.
"""
CPU_SLOTS, PATIENT_SLOTS = 4, 16
"""Slots on a CPU, and when nothing waits for the first sound. Measured on two cores with the embedded voice: 16 slots
take a sixth less processor time than 4 (a quarter less without the compiled library) and 150 MB more memory; the sound
is the same. For weights in 8 bits, the instruction set decides."""
PATIENT_SHARE = 0.1  # of the free memory that these slots may take; otherwise the usual number is used
KEPT_FREE = 0.15
"""Share of the free memory that slots leave to captured steps and the codec's chunks."""
KEPT_BESIDE_CALLS = 0.05  # the same, beside the largest captured call of the codec
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "q8": EIGHT}
DEFAULT = EngineSettings()


def open_engine(
    name: str,
    *,
    variant: str | None = None,
    report: Report | None = None,
    tell: Callable[[Notice], None] = lambda notice: None,
    adapter: Adapter | None = None,
    **options: Any,
) -> Engine:
    """Returns an engine for the model called `name`. `options` are those of EngineSettings. `adapter` is merged into
    the weights.

    `tell` is called with what differs from the request or takes longer than it should.
    """
    settings = EngineSettings.of(options, "load()")
    device = device_for(name, settings)
    model = load_model(name, device, variant=variant, settings=settings, report=report, tell=tell, adapter=adapter)
    return start(model, device, plan_for(model, device, settings), lambda line: tell(Notice(line)))


def known_before(
    name: str, *, variant: str | None = None, report: Report | None = None, **options: Any
) -> tuple[Path | None, str, str]:
    """The folder of a model, if it has one; the precision and the device that it will run in. Loads no weights."""
    settings = EngineSettings.of(options, "load()")
    device = device_for(name, settings)
    if name.startswith(RANDOM):
        return None, precision_name(language_dtype(settings, device, made_up_facts(name, variant, device))), device.name
    folder = find(name, variant=variant, offline=settings.offline, report=report).folder
    assert folder is not None
    return folder, precision_name(language_dtype(settings, device, facts_of(Checkpoint.open(folder)))), device.name


def passed_over(device: Device) -> DeviceError | None:
    """Why an accelerator is present but not used; None if there is none, or it is used."""
    return (choose.broken_cuda() or choose.broken_npu()) if device.name == "cpu" else None


def device_for(name: str, settings: EngineSettings) -> Device:
    """The device of the settings, with threads that suit the model called `name`."""
    cores = settings.threads or omp_threads() or physical_cores()
    device = choose.choose(settings.device, settings.threads or threads_for(name), cores)
    if settings.exact:
        device.make_exact()
    return device


def threads_for(name: str) -> int | None:
    """One thread for a small model, such as the embedded voice: its matrix products are too small to split. On two busy
    cores, two threads took 2 to 5 times as long as one. None leaves the choice to the device.
    """
    folder = TINY if name == EMBEDDED else Path(name)
    try:
        small = (folder.expanduser() / "model.safetensors").stat().st_size < SMALL
    except (OSError, RuntimeError, ValueError):  # not a folder, or an invalid path
        return None
    return 1 if small and variable("OMP_NUM_THREADS") is None else None


def load_model(
    name: str,
    device: Device,
    *,
    variant: str | None = None,
    settings: EngineSettings = DEFAULT,
    report: Report | None = None,
    tell: Callable[[Notice], None] = lambda notice: None,
    adapter: Adapter | None = None,
) -> SpeechModel:
    """The model called `name`, ready to speak on `device`. `variant` completes a bare size such as "0.6b".

    `tell` is called with what takes longer at the first start, or at every one.
    """
    if isinstance(device, CPUDevice) and (reason := device.unloadable):
        slower = "the CPU library cannot be loaded, so speech takes four to five times as long"
        tell(Notice(slower, cause=reason, hint="omnitts doctor --offline"))
    try:
        if name.startswith(RANDOM):
            if adapter is not None:
                raise ModelError(f"{name} has random weights, so it cannot speak a tuned voice", hint="leave out -m")
            model = _random(name.removeprefix(RANDOM).lower(), variant, device, settings)
        else:
            found = find(name, variant=variant, offline=settings.offline, report=report)
            assert found.folder is not None
            model, _ = stored_model(found.folder, found.name, device, settings, tell, adapter)
        if isinstance(device, CPUDevice):
            device.eight = model.precision == precision_name(EIGHT)
        return model
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
        free = f"{readable_size(device.free_bytes())} are free"
        hint = "end other programs on the device   or   -m 0.6b   or   -d cpu"
        raise DeviceError(f"{name} does not fit into the memory of {device.name}", cause=free, hint=hint) from None


def stored_model(
    folder: Path,
    name: str,
    device: Device,
    settings: EngineSettings,
    tell: Callable[[Notice], None],
    adapter: Adapter | None = None,
    ops: Ops | None = None,
) -> tuple[SpeechModel, Any]:
    """The model in a folder, and its parts. `ops`: other operations than the device's, as for training."""
    ops = device.ops() if ops is None else ops
    family = family_of(folder)
    config = family.read_config(folder)
    tokenizer = read_tokenizer(folder, config.text_vocabulary, settings.mistral_pattern)
    pieces = family.parts(config, ops)
    files = {part.folder: Checkpoint.open(folder / part.folder) for part in pieces.all()}
    known = facts_of(files[""])
    if adapter is not None:
        files[""] = MergedCheckpoint.of(files[""], adapter)
    language = language_dtype(settings, device, known)
    _tell_shortage(name, pieces, language, device, known, tell)

    def filled(part: Part) -> nn.Module:
        if not part.float32 and language == EIGHT:
            return _filled_with_eight(part, files[part.folder], folder, name, device, tell, adapter)
        dtype = torch.float32 if part.float32 else language
        fill(part.module, part.names, files[part.folder], device.torch_device, dtype, unused=part.leftover)
        return part.module

    for part in pieces.all():
        filled(part)
    model = family.assemble(name, config, pieces, tokenizer, device.to_device, ops)
    cloner = family.cloner(config, filled, device.to_device)
    total = None if adapter is None else adapter.sha256
    return replace(model, sha256=model_sha256(folder), cloner=cloner, adapter=total), pieces


def _tell_shortage(
    name: str, pieces: Any, language: torch.dtype, device: Device, known: Facts, tell: Callable[[Notice], None]
) -> None:
    """On a CPU, weights that do not fit are swapped out or end the process; on a card they are refused."""
    if not isinstance(device, CPUDevice):
        refuse_what_cannot_fit(name, pieces, language, device)
    else:
        found = shortage(name, pieces, language, device, why_not_eight(device, known) is None)
        if found is not None:
            tell(found)


def _filled_with_eight(
    part: Part,
    files: Checkpoint,
    folder: Path,
    name: str,
    device: Device,
    tell: Callable[[Notice], None],
    adapter: Adapter | None,
) -> nn.Module:
    """The language side with matrices in 8 bits, and the rest in float32."""
    bits = device.ops().eight
    assert bits is not None
    total = model_sha256(folder, read=True)
    if adapter is not None and total is not None:  # what is kept of a tuned voice is its own
        total = hashlib.sha256(f"{total} {adapter.sha256}".encode()).hexdigest()
    origin = eight.Origin(part.module, part.names, files, name, total)
    ready = eight.matrices(origin, bits, tell) | eight.table(origin)
    fill(part.module, part.names, files, device.torch_device, torch.float32, unused=part.leftover, ready=ready)
    return part.module


def _random(name: str, variant: str | None, device: Device, settings: EngineSettings) -> SpeechModel:
    """Random weights of a released size, for measurements without a download; reads no file."""
    language = language_dtype(settings, device, made_up_facts(f"{RANDOM}{name}", variant, device))
    if name == "toy":
        return toy(device=device.torch_device, dtype=language, place=device.to_device, ops=device.ops())
    family, config, pieces = made_up(name, variant, device)
    here = Path(f"{RANDOM}{name}")

    def filled(part: Part) -> nn.Module:
        bits = device.ops().eight
        if not part.float32 and language == EIGHT and bits is not None:
            random_fill(part.module, 0, "cpu", torch.float32, changed=partial(eight.packed, bits))
        else:
            random_fill(part.module, 0, device.torch_device, torch.float32 if part.float32 else language)
        return part.module

    for part in pieces.all():
        filled(part)
    tokenizer = PieceTokenizer(config.text_vocabulary)
    model = family.assemble(str(here), config, pieces, tokenizer, device.to_device, device.ops())
    return replace(model, cloner=family.cloner(config, filled, device.to_device))


def made_up(name: str, variant: str | None, device: Device) -> tuple[Any, Any, Any]:
    """The family, the config and the parts of a model with random weights, its name without "random:"."""
    here = Path(f"{RANDOM}{name}")
    family = next((one for one in families() if one.complete(name, variant) in one.made_up), None)
    if family is None:
        names = ("toy", *(name for one in families() for name in one.made_up))
        hint = f"random models: {', '.join(f'{RANDOM}{name}' for name in names)}"
        raise ModelError(f"no model '{here}'", hint=hint)
    config = family.made_up_config(here, family.complete(name, variant))
    return family, config, family.parts(config, device.ops())


@dataclass(frozen=True)
class Facts:
    """What the precision of a model depends on besides the settings."""

    stored: torch.dtype | None = None  # None: random weights
    size_bytes: int = 0  # as stored, or in float32
    experts: bool = False  # the talker is a mixture of experts


def facts_of(files: Checkpoint) -> Facts:
    """Of stored weights, from their headers."""
    names = files.names()
    head = names.get(HEAD)
    experts = any(".experts." in name for name in names if name.startswith("talker."))
    return Facts(head[0] if head else None, sum(header.file_bytes for header in files.headers), experts)


def made_up_facts(name: str, variant: str | None, device: Device) -> Facts:
    """Of a model with random weights."""
    plain = name.removeprefix(RANDOM).lower()
    if plain == "toy" or device.name != "cpu":
        return Facts()
    module = made_up(plain, variant, device)[2].language.module
    size = 4 * sum(weight.numel() for weight in module.parameters())
    return Facts(None, size, module.talker.stack.shape.experts is not None)


def dtype_for(wanted: str, device: Device, stored: torch.dtype | None = None) -> torch.dtype:
    """The precision of talker and predictor; the codec and the encoders always run in float32."""
    if wanted in DTYPES:
        return DTYPES[wanted]
    # float16 overflows in the predictor, so float16 checkpoints run in the device's preferred precision
    return torch.float32 if stored == torch.float32 else device.dtype


def language_dtype(settings: EngineSettings, device: Device, model: Facts) -> torch.dtype:
    """`dtype_for` the settings. On a CPU, `auto` means 8 bits for a large model; these and float32 are exact there."""
    dtype = dtype_for(settings.dtype, device, model.stored)
    if settings.dtype == "auto" and model.size_bytes >= SMALL and why_not_eight(device, model) is None:
        dtype = EIGHT
    if dtype == EIGHT and (error := why_not_eight(device, model)) is not None:
        raise error
    if settings.exact and device.name == "cpu" and dtype not in (torch.float32, EIGHT):
        raise DeviceError(
            f"--exact on a CPU needs float32 or q8, not {precision_name(dtype)}", hint="--dtype fp32   or   --dtype q8"
        )
    return dtype


def why_not_eight(device: Device, model: Facts) -> OmniError | None:
    """Why the weights cannot be used in 8 bits: on other devices, without the library, with experts."""
    if device.name != "cpu":
        return DeviceError("--dtype q8 is for a CPU", hint="-d cpu --dtype q8   or   leave out --dtype")
    if device.ops().eight is None:
        return DeviceError(
            "--dtype q8 needs the compiled library, which is not in use",
            hint="python -m omnitts_cli.kernels.cpu   or   omnitts doctor --offline",
        )
    if model.experts:
        return ModelError("--dtype q8 is not possible with a mixture of experts", hint="leave out --dtype")
    return None


def plan_for(model: SpeechModel, device: Device, settings: EngineSettings = DEFAULT) -> Plan:
    """The engine's fixed sizes on this device. A slot is never longer than the model's positions."""
    few, many = slots_for(model, device)
    if settings.slots is None and settings.patient and many > few:
        plan = plan_for(model, device, replace(settings, slots=many))
        if many * slot_bytes(model, plan) < PATIENT_SHARE * device.free_bytes():
            return plan
    slots = settings.slots or few
    sizes = {min(2**n, settings.chunk) for n in range(settings.chunk.bit_length() + 1)}
    plan = Plan.of(
        slots,
        settings.seconds,
        model.facts.frame_rate,
        pads=device.pads,
        chunks=tuple(sorted({*sizes, min(settings.first_chunk, settings.chunk)})),
        first_chunk=min(settings.first_chunk, settings.chunk),
        capture=settings.capture and device.captures,
        fixed_chunks=settings.fixed_chunks,
        sound_frames=None if device.captures else SOUND_FRAMES,
        first_alone=not device.captures,
    )
    if plan.first_alone and not settings.patient:
        plan = replace(plan, admissions=1)  # a listener waits for one prompt between two frames, not for all
    most = model.facts.max_positions
    plan = replace(plan, positions=min(plan.positions, most), frames=min(plan.frames, most))
    return plan.with_few_graphs() if device.few_graphs else plan


def slots_for(model: SpeechModel, device: Device) -> tuple[int, int]:
    """How many requests are made together: while someone listens, and when nothing waits for the first sound."""
    if device.captures:
        return 32, 32
    eight = model.ops.eight
    if eight is not None and model.precision == precision_name(EIGHT):
        return eight.together
    return CPU_SLOTS, PATIENT_SLOTS


# ---- how many slots fit into memory: the engine allocates everything when it starts


def slot_bytes(model: SpeechModel, plan: Plan) -> int:
    """Device memory of one slot: keys and values, text ring, codes, the codec's state."""
    talker, codec = cast(Talker, model.talker), cast(Codec, model.codec)
    keys, state = talker.cache(1, 1).keys, codec.initial_state(1, "meta", torch.float32)
    element = keys.element_size()
    return (
        2 * keys.numel() * element * plan.positions
        + plan.text_rows * model.facts.hidden * element
        + plan.frames * model.facts.groups * 8
        + sum(held.numel() * held.element_size() for held in state.values())
    )


def fitting_slots(model: SpeechModel, device: Device, plan: Plan) -> int:
    """How many of the plan's slots fit beside the largest call of the codec, which grows with them; one is spare."""
    free, each, codec = device.free_bytes(), slot_bytes(model, plan), cast(Codec, model.codec)
    for slots in range(plan.slots, 1, -1):
        rows = min(slots, max(plan.with_slots(slots).sound_rows))
        call = call_bytes(codec, plan.chunks[-1], rows) if device.captures else 0
        kept = max(KEPT_FREE * free, call + KEPT_BESIDE_CALLS * free)
        if (slots + 1) * each + kept <= free:
            return slots
    return 1


def start(model: SpeechModel, device: Device, plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Engine:
    """An engine with the plan's slots, or with fewer if memory is short; `tell` is then called with a line."""
    asked, each = plan.slots, slot_bytes(model, plan)
    slots = fitting_slots(model, device, plan)
    while True:
        try:
            engine = Engine(model, device, plan.with_slots(slots))
        except Exception as error:
            if not device.is_out_of_memory(error):
                raise
            if slots == 1:
                left = readable_size(device.free_bytes())
                raise DeviceError(
                    f"{device.name} does not have enough memory for one request",
                    cause=f"it needs {readable_size(each)} besides the model; {left} are free",
                    hint="-m 0.6b   or   -d cpu",
                ) from None
        else:
            keep_operands_only(cast(Codec, model.codec))
            if slots < asked:
                tell(f"only {slots} of {asked} slots of {readable_size(each)} each fit into {device.name}")
            return engine
        slots //= 2
        gc.collect()  # the failed engine's tensors
