"""Build an AnswerLoop from a model name and settings: the thinker, alone or with its talker."""

import gc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from omnitts_cli.devices.device import Device
from omnitts_cli.engine.answer_loop import AnswerLoop, slot_bytes
from omnitts_cli.engine.text_slots import TextPlan
from omnitts_cli.errors import DeviceError, ModelError
from omnitts_cli.families.common.family import Family
from omnitts_cli.families.common.parts import Part
from omnitts_cli.families.common.tokenizer import TextTokenizer, byte_vocabulary, read_tokenizer
from omnitts_cli.families.known import families, family_of
from omnitts_cli.models.thinker import TextModel
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.speech import load, memory
from omnitts_cli.weights.arrays import sources_of
from omnitts_cli.weights.checkpoint import Checkpoint, dtype_of
from omnitts_cli.weights.find import here
from omnitts_cli.weights.load import fill
from omnitts_cli.weights.names import HubName
from omnitts_cli.weights.random_fill import random_fill
from omnitts_cli.weights.released import OMNI_BYTES

KEPT_FREE = 3 << 30
"""Bytes that slots leave to captured steps and long prompts."""
POSITIONS = 8192
"""Tokens of a conversation, unless settings say otherwise."""
SECONDS = 300.0
"""Longest spoken answer: 1024 tokens are about 200 s."""
TEMPLATE = 16
"""Rows of the talker's prompt beside the user turns, rounded up."""
PROMPT_RUN = 1024
"""Prompt rows of the talker between two frames: questions are longer than what is read aloud."""


def open_answer_loop(
    name: str, *, positions: int | None = None, sound: bool = False, speech: bool = False, **options: Any
) -> AnswerLoop:
    """Returns a loop for the thinker of the model `name`, with its audio tower if `sound` and its talker if `speech`.

    `options` are those of EngineSettings.
    """
    settings = EngineSettings.of({"seconds": SECONDS, **options}, "load_assistant()")
    device = load.device_for(name, settings)
    model = load_thinker(name, device, settings, sound, speech)
    slots = settings.slots or (32 if device.captures else 4)
    wanted = min(positions or POSITIONS, model.facts.max_positions)
    plan = TextPlan(slots, wanted, capture=settings.capture and device.captures).with_slots(slots)
    each, talker, speech_plan = slot_bytes(model, plan), None, None
    if speech:
        talker = load.load_model(speaking_name(name), device, variant="custom_voice", settings=settings)
        speech_plan = load.plan_for(talker, device, replace(settings, slots=slots))
        rows = min(speech_plan.frames + wanted + TEMPLATE, talker.facts.max_positions)
        speech_plan = replace(speech_plan, positions=rows, prompt_run=PROMPT_RUN)
        each += memory.slot_bytes(talker, speech_plan)
    room = device.free_bytes() - (KEPT_FREE if device.captures else 0)
    fitting = min(slots, room // each - 1)  # one is spare
    if fitting < 1:
        raise DeviceError(
            f"{device.name} does not have enough memory for one conversation of {wanted} tokens",
            cause=f"it needs {readable_size(each)} besides the model; {readable_size(device.free_bytes())} are free",
            hint="-d cpu",
        )
    loop = AnswerLoop(model, device, plan.with_slots(fitting))
    if talker is not None and speech_plan is not None:
        loop.speech = load.start(talker, device, speech_plan.with_slots(fitting))
    return loop


def speaking_name(name: str) -> str:
    """The model whose talker belongs to a thinker: the same, or for random weights the one of its family."""
    if not name.startswith(load.RANDOM):
        return name
    mine = name.removeprefix(load.RANDOM).lower()
    family = next(one for one in families() if one.thinker is not None and mine in one.thinker.made_up)
    return f"{load.RANDOM}{family.made_up[0]}"


def load_thinker(
    name: str, device: Device, settings: EngineSettings, sound: bool = False, speech: bool = False
) -> TextModel:
    """The thinker of the model called `name`, ready on `device`. With `speech`, its talker will be loaded too."""
    ops, whole, files, stored = device.ops(), None, None, None
    if name.startswith(load.RANDOM):
        name = name.lower()
        thinker = made_up_thinker(name)
        config, tokenizer = thinker.made_up_config(Path(name), name), TextTokenizer(byte_vocabulary(), [])
    else:
        folder, name = folder_of(name, device)
        whole, files = family_of(folder), Checkpoint.open(folder)
        if whole.thinker is None:
            raise cannot_answer(name)
        thinker, config = whole.thinker, whole.thinker.read_config(folder)
        tokenizer = read_tokenizer(folder, config.text_vocabulary)
    parts = thinker.parts(config, ops, name, sound, speech)
    if files is not None:
        stored = files.names().get(sources_of(parts.thinker.names["head"])[0])
        if stored is None:
            raise ModelError(
                f"{folder} has no thinker: it was downloaded for speech only",
                hint="omnitts models pull omni --with-thinker",
            )
    dtype = dtype_of(load.dtype_for(settings.dtype, device, stored[0] if stored else None))
    talker = whole.parts(whole.read_config(folder), ops).all() if whole and speech else []
    refuse_small_card(name, device, [parts.thinker, *talker], dtype.itemsize)
    for part in parts.all():
        if files is None:
            random_fill(part.module, 0, device.torch_device, dtype)
        else:
            fill(part.module, part.names, files, device.torch_device, dtype, unused=part.leftover)
    gc.collect()
    model: TextModel = thinker.assemble(name, config, parts, tokenizer)
    return model


def folder_of(name: str, device: Device) -> tuple[Path, str]:
    """The folder and the whole name of a model on this machine. It is never downloaded unasked: it is large."""
    found = here(name, variant="custom_voice", thinker=True)
    if isinstance(found, HubName) and found.released is not None:
        raise cannot_answer(found.name)
    if isinstance(found, HubName):
        refuse_small_machine(found.name, device)
        weight = f"   ({readable_size(OMNI_BYTES)}, once)" if found.name == "omni" else ""
        flag = " --with-thinker" if found.tensors else ""
        raise ModelError(
            f"the thinker of model '{found.name}' is not on this machine",
            hint=f"omnitts models pull {found.name}{flag}{weight}",
        )
    assert found.folder is not None
    return found.folder, found.name


def cannot_answer(name: str) -> ModelError:
    """Returns the error for a model without a thinker."""
    return ModelError(f"{name} speaks text, but cannot answer questions", hint="omnitts ask -m omni")


def made_up_thinker(name: str) -> Family:
    """The thinker of random weights that is called so."""
    thinkers, bare = [family.thinker for family in families() if family.thinker], name.removeprefix(load.RANDOM)
    thinker = next((one for one in thinkers if bare in one.made_up), None)
    if thinker is None:
        names = ", ".join(f"{load.RANDOM}{name}" for one in thinkers for name in one.made_up)
        raise ModelError(f"no model '{load.RANDOM}{bare}' that can answer questions", hint=f"random models: {names}")
    return thinker


def refuse_small_card(name: str, device: Device, parts: Sequence[Part], element: int) -> None:
    """Raise DeviceError before anything is loaded that cannot fit."""
    needed = sum(weight.numel() for part in parts for weight in part.module.parameters()) * element
    if needed > (free := device.free_bytes()):
        raise DeviceError(
            f"{name} needs {readable_size(needed)} for its weights; {device.name} has {readable_size(free)} free",
            hint="use a card with more memory: omnitts doctor",
        )


def refuse_small_machine(name: str, device: Device) -> None:
    """A download that could not be used here is not proposed."""
    if name != "omni":
        return
    needed, fitting = conversations(device)
    if not fitting:
        room = f"{readable_size(device.free_bytes())} are free on {device.name}"
        raise ModelError(
            f"the thinker of model '{name}' is not on this machine, and would not fit",
            cause=f"it needs {readable_size(needed)} of memory, and more for a conversation; {room}",
            hint="omnitts doctor   on another machine shows whether it fits there",
        )


def conversations(device: Device, name: str = "omni-thinker") -> tuple[int, int]:
    """Bytes of the weights of a released thinker, and how many conversations of 8192 tokens fit beside them."""
    thinker = made_up_thinker(name)
    config = thinker.made_up_config(Path(f"{load.RANDOM}{name}"), name)
    shape, element = config.shape.stack, dtype_of(load.dtype_for("auto", device)).itemsize
    module = thinker.parts(config, device.ops()).thinker.module
    weights = sum(weight.numel() for weight in module.parameters()) * element
    each = 2 * shape.layers * shape.kv_heads * shape.head_dim * POSITIONS * element
    room = device.free_bytes() - weights - (KEPT_FREE if device.captures else 0)
    return weights, max(0, room // each - 1)
