"""Build a SpeechModel or an Engine from a model name and settings. Models that the compiled library calculates open
without PyTorch; for others, `networks.py` is imported.
"""

import gc
import hashlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from omnitts_cli.devices import choose
from omnitts_cli.devices.device import Device
from omnitts_cli.devices.host import HostDevice, omp_threads
from omnitts_cli.devices.system import physical_cores
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import Plan
from omnitts_cli.errors import DeviceError, ModelError, Notice, OmniError
from omnitts_cli.families.common.family import Family, Stored
from omnitts_cli.families.common.names import HEAD
from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.families.known import family_of, made_up
from omnitts_cli.kernels.ops import EIGHT, EightBits, Ops, type_name
from omnitts_cli.models.compiled import Compute, InputRows, PackedCodec
from omnitts_cli.models.roles import SpeechModel, precision_name
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED, NATIVE, variable
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.speech.memory import (
    USUAL_SECONDS,
    Needs,
    check_memory,
    fitting_slots,
    of_free,
    refuse_what_cannot_fit,
    shortened,
    slot_bytes,
    with_prefixes,
    with_sound_frames,
)
from omnitts_cli.voices import Adapter
from omnitts_cli.weights import eight
from omnitts_cli.weights.arrays import refuse_others, sources_of, values_of
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.fetch import Report
from omnitts_cli.weights.find import TINY, find
from omnitts_cli.weights.merged import MergedCheckpoint
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
BULK_CHUNK = 8
"""Frames that are decoded together when nothing waits for the first sound and the codec is large: on two cores with
AVX-512, a frame of a released model then takes 0.71 of the time of one alone (in chunks of four 0.76)."""
PATIENT_SHARE = 0.1  # of the free memory that these slots may take; otherwise the usual number is used
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "q8": EIGHT}
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
    settings, source = EngineSettings.of(options, "load()"), None
    device: Device | None = None
    if not name.startswith(RANDOM) and choose.is_cpu(settings.device):
        source = source_of(name, variant, settings, report, adapter)
        device = host_for(name, source, settings)
    device = device or device_for(name, settings)
    model = load_model(
        name, device, variant=variant, settings=settings, report=report, tell=tell, adapter=adapter, source=source
    )
    return start(model, device, plan_for(model, device, settings), lambda line: tell(Notice(line)))


def known_before(
    name: str, *, variant: str | None = None, report: Report | None = None, **options: Any
) -> tuple[Path | None, str, str]:
    """The folder of a model, if it has one; the precision and the device that it will run in. Loads no weights."""
    settings = EngineSettings.of(options, "load()")
    device = device_for(name, settings)
    if name.startswith(RANDOM):
        return None, precision_name(language_dtype(settings, device, made_up_facts(name, variant, device))), device.name
    source = source_of(name, variant, settings, report)
    return source.folder, precision_name(language_dtype(settings, device, source.facts(device))), device.name


def passed_over(device: Device) -> DeviceError | None:
    """Why an accelerator is present but not used; None if there is none, or it is used."""
    return (choose.broken_cuda() or choose.broken_npu()) if device.name == "cpu" else None


def device_for(name: str, settings: EngineSettings) -> Device:
    """The device of the settings, with threads that suit the model called `name`."""
    cores = settings.threads or omp_threads() or physical_cores()
    device = choose.choose(settings.device, settings.threads or threads_for(name), cores)
    device.limit(settings.max_memory)
    if settings.exact:
        device.make_exact()
    return device


@dataclass(frozen=True)
class ModelSource:
    """The folder of a model. Its headers and its configuration are read once."""

    folder: Path
    name: str  # of the model
    adapter: Adapter | None = None  # of a tuned voice, which is merged into the weights

    @cached_property
    def family(self) -> Family:
        """Its family."""
        return family_of(self.folder)

    @cached_property
    def config(self) -> Any:
        """What its family has read."""
        return self.family.read_config(self.folder)

    @cached_property
    def stored(self) -> Stored | None:
        """The tensors of the networks that speak; None where only modules of PyTorch know them."""
        return None if self.family.stored is None else self.family.stored(self.config)

    @cached_property
    def _weights(self) -> Checkpoint:
        return Checkpoint.open(self.folder)

    def opened(self, place: str) -> Checkpoint:
        """The tensors of a folder inside that of the model."""
        if place:
            return Checkpoint.open(self.folder / place)
        return self._weights if self.adapter is None else MergedCheckpoint.of(self._weights, self.adapter)

    def facts(self, device: Device) -> "Facts":
        """What its precision depends on; on a card also what it takes."""
        found = facts_of(self._weights)
        return found if device.name == "cpu" else replace(found, needs=needs_of(self.stored, device))

    def sha256(self, read: bool = False) -> str | None:
        """The sum of all weights; `read` the files if it is not known. What is kept of a tuned voice is its own."""
        found = model_sha256(self.folder, read=read)
        if self.adapter is None or found is None:
            return found
        return hashlib.sha256(f"{found} {self.adapter.sha256}".encode()).hexdigest()


def source_of(
    name: str, variant: str | None, settings: EngineSettings, report: Report | None, adapter: Adapter | None = None
) -> ModelSource:
    """The folder of a model that is not random, which may have to be downloaded."""
    found = find(name, variant=variant, offline=settings.offline, report=report)
    assert found.folder is not None
    return ModelSource(found.folder, found.name, adapter)


def host_for(name: str, source: ModelSource, settings: EngineSettings) -> HostDevice | None:
    """The CPU without PyTorch, for a model that the compiled library calculates; None for others."""
    if variable(NATIVE) == "0" or not Compute.usable() or source.stored is None:
        return None
    device = HostDevice(settings.threads or threads_for(name), settings.threads or omp_threads() or physical_cores())
    device.limit(settings.max_memory)
    language, sizes = language_dtype(settings, device, source.facts(device)), source.stored.language[1]
    stacks = ([prod(size) for part, size in sizes.items() if part.startswith(f"{name}.stack.")]
              for name in ("talker", "predictor"))  # fmt: skip
    if language != EIGHT and (language != "float32" or any(4 * sum(stack) > SMALL for stack in stacks)):
        return None
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
    source: ModelSource | None = None,
) -> SpeechModel:
    """The model called `name`, ready to speak on `device`. `variant` completes a bare size such as "0.6b". `source`:
    where it is, if that is known.

    `tell` is called with what takes longer at the first start, or at every one.
    """
    if isinstance(device, HostDevice) and (reason := device.unloadable):
        slower = "the CPU library cannot be loaded, so speech takes four to five times as long"
        tell(Notice(slower, cause=reason, hint="omnitts doctor --offline"))
    try:
        if name.startswith(RANDOM):
            if adapter is not None:
                raise ModelError(f"{name} has random weights, so it cannot speak a tuned voice", hint="leave out -m")
            known = made_up_facts(name, variant, device)
            language = language_dtype(settings, device, known)
            if known.needs is not None:
                check_room(name, known, language, device, settings, tell)
            model = _networks().random(name, variant, device, language)
        else:
            source = source or source_of(name, variant, settings, report, adapter)
            model, _ = stored_model(source, device, settings, tell)
        if isinstance(device, HostDevice):
            device.eight = model.precision == "q8"
        return model
    except Exception as error:
        if not device.is_out_of_memory(error):
            raise
        free = of_free(device, device.free_bytes())
        hint = "end other programs on the device   or   -m 0.6b   or   -d cpu"
        raise DeviceError(f"{name} does not fit into the memory of {device.name}", cause=free, hint=hint) from None


def stored_model(
    source: ModelSource,
    device: Device,
    settings: EngineSettings,
    tell: Callable[[Notice], None],
    ops: Ops | None = None,
) -> tuple[SpeechModel, Any]:
    """The model in a folder, and its parts as modules of PyTorch, if it has them. `ops`: other operations than the
    device's, as for training."""
    known, pieces = source.facts(device), None
    language = language_dtype(settings, device, known)

    def check(sizes: Mapping[str, tuple[int, ...]], decoder_numbers: int) -> None:
        words = device.torch_device is None and known.stored == "bfloat16" and source.adapter is None
        needs = replace(needs_on(device), language=sizes, decoder_numbers=decoder_numbers, words=words)
        check_room(source.name, replace(known, needs=needs), language, device, settings, tell)

    if isinstance(device, HostDevice) and device.torch_device is None:
        model = _compiled(source, device, settings, language, check, tell)
    else:
        ops = device.ops() if ops is None else ops
        model, pieces = _networks().stored(source, device, settings, language, check, tell, ops)
    mine = None if source.adapter is None else source.adapter.sha256
    return replace(model, sha256=model_sha256(source.folder), adapter=mine), pieces


def _compiled(
    source: ModelSource,
    device: HostDevice,
    settings: EngineSettings,
    language: str,
    check: Callable[[Mapping[str, tuple[int, ...]], int], None],
    tell: Callable[[Notice], None],
) -> SpeechModel:
    """The model of a folder that `host_for` has found possible, without PyTorch."""
    family, config, stored = source.family, source.config, source.stored
    tokenizer = read_tokenizer(source.folder, config.text_vocabulary, settings.mistral_pattern)
    assert stored is not None and family.compiled is not None
    files = {one[2]: source.opened(one[2]) for one in (stored.language, stored.decoder)}
    for names, sizes, place, leftover in (stored.language, stored.decoder):
        shapes = {called: (None, size) for called, size in sizes.items()}
        refuse_others(shapes, names, files[place], leftover)
    check(stored.language[1], sum(map(prod, stored.decoder[1].values())))
    names, _, place, _ = stored.language
    ready: dict[str, np.ndarray] = {}
    if language == EIGHT:
        ready = eight.matrices(origin_of(source, files), Compute.eight_bits(), tell)
    compute = Compute.over(
        language == EIGHT,
        values_of(names, files[place], ready),
        files[place].rows(sources_of(names[eight.TABLE])[0]),
        values_of(stored.decoder[0], files[stored.decoder[2]]),
        packed=ready,
    )
    model = family.compiled(source.name, config, compute, tokenizer)
    return replace(model, cloner=family.cloner(config, partial(_encoder, source.folder, device), _tensor))


def origin_of(source: ModelSource, files: Mapping[str, Checkpoint]) -> eight.Origin:
    """Where everything that is kept with matrices in 8 bits comes from. `files`: by their folder."""
    stored = source.stored
    assert stored is not None
    (names, sizes, place, _), (parts, _, codec, _) = stored.language, stored.decoder
    packed, rows = PackedCodec(stored.shape), InputRows(sizes)

    def made() -> Iterator[tuple[str, np.ndarray]]:
        yield from rows.made(values_of(names, files[place]))
        yield from packed.made(values_of(parts, files[codec]))

    beside = eight.Beside(rows.shapes() | packed.shapes(), made)
    return eight.Origin(sizes, names, files[place], source.name, source.sha256(read=True), beside)


def _networks() -> Any:
    """What makes models of PyTorch, which is imported now."""
    return importlib.import_module("omnitts_cli.speech.networks")


def _encoder(folder: Path, device: HostDevice, part: Any) -> Any:
    import torch

    torch.set_num_threads(device.threads)
    return _networks().encoder(folder, part)


def _tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(array)


@dataclass(frozen=True)
class Facts:
    """What the precision of a model depends on besides the settings."""

    stored: str | None = None  # its type; None: random weights
    size_bytes: int = 0  # as stored, or in float32
    experts: bool = False  # the talker is a mixture of experts
    needs: Needs | None = None  # what it takes on a card, where that is known before its modules are made


def facts_of(files: Checkpoint) -> Facts:
    """Of stored weights, from their headers."""
    names = files.names()
    head = names.get(HEAD)
    experts = any(".experts." in name for name in names if name.startswith("talker."))
    return Facts(head[0] if head else None, sum(header.file_bytes for header in files.headers), experts)


def made_up_facts(name: str, variant: str | None, device: Device) -> Facts:
    """Of a model with random weights."""
    plain = name.removeprefix(RANDOM).lower()
    if plain == "toy":
        return Facts()
    family, config = made_up(plain, variant)
    if family.stored is None:
        return Facts(experts=True)
    if device.name != "cpu":
        return Facts(needs=needs_of(family.stored(config), device))
    return Facts(None, 4 * sum(map(prod, family.stored(config).language[1].values())))


def needs_on(device: Device) -> Needs:
    """The part of a model's needs that depends on the device."""
    if device.name == "cpu":
        return Needs({}, 0, partial(eight_bits, device), lean=device.torch_device is None)
    return Needs({}, 0, lambda: None, decoder_item=4 if device.ops().codec is None else 2)


def needs_of(stored: Stored | None, device: Device) -> Needs | None:
    """What a model takes; None where only its modules tell."""
    if stored is None:
        return None
    numbers = sum(map(prod, stored.decoder[1].values()))
    return replace(needs_on(device), language=stored.language[1], decoder_numbers=numbers)


def check_room(
    name: str, model: Facts, language: str, device: Device, settings: EngineSettings, tell: Callable[[Notice], None]
) -> None:
    """On a card, a model that does not fit is refused, and 8 bits that were chosen for that reason are said. On a CPU,
    weights that do not fit are swapped out or end the process, which is said."""
    needs = model.needs
    assert needs is not None

    def possible() -> bool:
        return why_not_eight(device, model) is None

    if device.name == "cpu":
        assert isinstance(device, HostDevice)
        check_memory(name, needs, language, device, possible, tell)
        return
    refuse_what_cannot_fit(name, needs, language, device, lambda: smaller(needs, language, device, possible()))
    if language == EIGHT and settings.dtype == "auto":
        usual = precision_name(dtype_for("auto", device, model.stored))
        tell(Notice(f"{name} does not fit into the memory in {usual}; its weights are in 8 bits", hint="-m 0.6b"))


def smaller(needs: Needs, language: str, device: Device, possible: bool) -> Iterator[tuple[str, int]]:
    """What to type for a model that takes less memory of a card, and what it takes."""
    eights = f"--dtype {precision_name(EIGHT)}"
    if possible and language != EIGHT:
        yield eights, needs.least_bytes(EIGHT)
    family, config = made_up("0.6b", None)
    assert family.stored is not None
    other = needs_of(family.stored(config), device)
    assert other is not None
    yield "-m 0.6b", other.least_bytes(type_name(device.dtype))
    if possible:
        yield f"-m 0.6b {eights}", other.least_bytes(EIGHT)
    yield f"-m {EMBEDDED}", 0


def dtype_for(wanted: str, device: Device, stored: str | None = None) -> str:
    """The precision of talker and predictor; the codec and the encoders always run in float32."""
    if wanted in DTYPES:
        return DTYPES[wanted]
    # float16 overflows in the predictor, so float16 checkpoints run in the device's preferred precision
    return "float32" if stored == "float32" or device.torch_device is None else type_name(device.dtype)


def language_dtype(settings: EngineSettings, device: Device, model: Facts) -> str:
    """`dtype_for` the settings. On a CPU, `auto` means 8 bits for a large model; these and float32 are exact there.
    On a card, it means 8 bits for a model that fits in no other way."""
    dtype = dtype_for(settings.dtype, device, model.stored)
    if settings.dtype == "auto" and model.size_bytes >= SMALL and why_not_eight(device, model) is None:
        dtype = EIGHT
    if settings.dtype == "auto" and model.needs is not None and not settings.exact:
        free = device.free_bytes()
        if model.needs.least_bytes(dtype) > free >= model.needs.least_bytes(EIGHT):
            dtype = EIGHT if why_not_eight(device, model) is None else dtype
    if dtype == EIGHT and (error := why_not_eight(device, model)) is not None:
        raise error
    if settings.exact and device.name != "cpu" and dtype == EIGHT:
        raise DeviceError(f"--exact on {device.name} is not possible with q8", hint="leave out --dtype   or   -d cpu")
    if settings.exact and device.name == "cpu" and dtype not in ("float32", EIGHT):
        raise DeviceError(
            f"--exact on a CPU needs float32 or q8, not {precision_name(dtype)}", hint="--dtype fp32   or   --dtype q8"
        )
    return dtype


def eight_bits(device: Device) -> EightBits | None:
    """What makes matrices in 8 bits on this device."""
    return Compute.eight_bits() if device.torch_device is None else device.ops().eight


def why_not_eight(device: Device, model: Facts) -> OmniError | None:
    """Why the weights cannot be used in 8 bits: on other devices, on a CPU without the library, with experts."""
    if model.experts:
        return ModelError("--dtype q8 is not possible with a mixture of experts", hint="leave out --dtype")
    if device.name != "cpu":
        if device.ops().pack is None:
            hint = "-d cpu --dtype q8   or   leave out --dtype"
            return DeviceError(f"--dtype q8 is not for {device.name}", hint=hint)
        return None
    if eight_bits(device) is None:
        return DeviceError(
            "--dtype q8 needs the compiled library, which is not in use",
            hint="python -m omnitts_cli.kernels.cpu   or   omnitts doctor --offline",
        )
    return None


@dataclass(frozen=True)
class OnCard:
    """What of a model fits into the memory of a card, before it is loaded."""

    precision: str
    weights_bytes: int
    slots: int
    seconds: float  # of speech, in each slot


def room_for(name: str, device: Device, settings: EngineSettings = DEFAULT) -> OnCard | None:
    """For a released model; None if it does not fit."""
    family, config = made_up(name, None)
    assert family.stored is not None
    needs = needs_of(family.stored(config), device)
    assert needs is not None
    language = language_dtype(settings, device, Facts(needs=needs))
    if needs.least_bytes(language) > device.free_bytes():
        return None
    model, taken = _networks().without_values(name, family, config, device), needs.card_bytes(language)
    plan = plan_for(model, device, settings, taken)
    slots = max(1, fitting_slots(model, device, plan, taken))
    return OnCard(precision_name(language), taken, slots, plan.frames / model.facts.frame_rate)


def plan_for(model: SpeechModel, device: Device, settings: EngineSettings = DEFAULT, taken: int = 0) -> Plan:
    """The engine's fixed sizes on this device. A slot is never longer than the model's positions. `taken`: memory of
    weights that are not loaded yet."""
    few, many = slots_for(model, device)
    slots, usual = settings.slots or (many if settings.patient else few), settings.slots or few
    sizes = {min(2**n, settings.chunk) for n in range(settings.chunk.bit_length() + 1)}
    plan = Plan.of(
        slots,
        settings.seconds or USUAL_SECONDS,
        model.facts.frame_rate,
        pads=device.pads,
        chunks=tuple(sorted({*sizes, min(settings.first_chunk, settings.chunk)})),
        first_chunk=min(settings.first_chunk, settings.chunk),
        capture=settings.capture and device.captures,
        fixed_chunks=settings.fixed_chunks,
        sound_frames=None if device.captures else SOUND_FRAMES,
        first_alone=not device.captures,
    )
    if not device.captures and settings.patient:
        plan = replace(plan, bulk_chunk=min(BULK_CHUNK, plan.chunks[-1]))
    elif not device.captures:
        plan = replace(plan, admissions=1)  # a listener waits for one prompt between two frames, not for all
    most = model.facts.max_positions
    plan = replace(plan, positions=min(plan.positions, most), frames=min(plan.frames, most))
    plan = plan.with_few_graphs() if device.few_graphs else plan
    plan = with_sound_frames(model, device, plan, taken) if device.captures else plan
    plan = plan if settings.seconds else shortened(model, device, plan, taken)
    if slots > usual and slots * slot_bytes(model, plan) >= PATIENT_SHARE * device.free_bytes():
        return plan_for(model, device, replace(settings, slots=usual), taken)
    return plan


def slots_for(model: SpeechModel, device: Device) -> tuple[int, int]:
    """How many requests are made together: while someone listens, and when nothing waits for the first sound."""
    if device.captures:
        return 32, 32
    return model.together or (CPU_SLOTS, PATIENT_SLOTS)


def start(model: SpeechModel, device: Device, plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Engine:
    """An engine with the plan's slots, or with fewer if memory is short; `tell` is then called with a line."""
    asked, each, seconds = plan.slots, slot_bytes(model, plan), plan.frames / model.facts.frame_rate
    slots = max(1, fitting_slots(model, device, plan))
    plan = with_prefixes(model, device, plan) if device.captures else plan
    while True:
        try:
            engine = Engine(model, device, plan.with_slots(slots))
        except Exception as error:
            if not device.is_out_of_memory(error):
                raise
            if slots == 1:
                left = of_free(device, device.free_bytes())
                raise DeviceError(
                    f"{device.name} does not have enough memory for one request",
                    cause=f"it needs {readable_size(each)} besides the model; {left}",
                    hint="-m 0.6b   or   -d cpu",
                ) from None
        else:
            if slots < asked:
                what = f"slots of {readable_size(each)} each, for up to {seconds:.0f} s of speech,"
                where = device.name if device.most_bytes is None else f"--max-memory {readable_size(device.most_bytes)}"
                tell(f"only {slots} of {asked} {what} fit into {where}")
            return engine
        slots //= 2
        gc.collect()  # the failed engine's tensors
