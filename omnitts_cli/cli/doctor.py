"""omnitts doctor: checks this machine, one line per check."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from omnitts_cli.audio import pyav
from omnitts_cli.audio.speaker import open_speaker
from omnitts_cli.cli.advice import COMPILE, advice
from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.cli.kernels import show
from omnitts_cli.cli.voices import speakers
from omnitts_cli.devices.choose import broken_cuda, broken_npu, choose, unused_cards
from omnitts_cli.devices.fingerprint import depends_on, fingerprint
from omnitts_cli.errors import DeviceError, OmniError, UsageError
from omnitts_cli.kernels.cpu import library
from omnitts_cli.settings import layers
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED, NATIVE, variable
from omnitts_cli.settings.setting import readable_size
from omnitts_cli.settings.table import Machine, Messages, Model, Network
from omnitts_cli.speech import tts
from omnitts_cli.speech.load import room_for
from omnitts_cli.speech.memory import of_free
from omnitts_cli.speech.outlook import is_busy, outlook, speeds
from omnitts_cli.terminal.console import console
from omnitts_cli.weights import find, store
from omnitts_cli.weights import verify as verifying
from omnitts_cli.weights.hub import cache_folder, told_offline
from omnitts_cli.weights.released import RELEASED

Status = Literal["ok", "skip", "warn", "fail"]

PACKAGES = ("torch", "numpy", "soundfile", "safetensors", "huggingface_hub", "typer")
SPARE_BYTES = 2**30  # of disk space, besides a model
SIZES = ("0.6b", "1.7b")  # of the released models
MOST_ROWS = 4096
SENTENCE = "The quick brown fox jumps over the lazy dog."


@dataclass(frozen=True)
class Check:
    """One result. `speaks`: whether ok means that speech is possible."""

    name: str
    status: Status
    words: str
    fix: str | None = None
    speaks: bool = False
    numbers: dict[str, Any] = field(default_factory=dict)


def doctor(opener: ModelOpener, model: Model, kernels: bool, card: str | None, rows: str | None) -> None:
    """Check this machine. Exit code 0 if speech works on any device, else 5."""
    if kernels:
        return show(opener.machine, card, number_of(rows), model.model or EMBEDDED)
    for option, value in {"--for": card, "--rows": rows}.items():
        if value is not None:
            raise UsageError(f"{option} has no effect without --kernels", hint=f"--kernels {option} {value}")
    found = []
    for check in all_of(opener.machine, opener.network):
        found.append(check)
        console.check(check.status, check.name, check.words, check.fix)
    speaks = any(check.speaks and check.status == "ok" for check in found)
    console.record(
        status="ok" if speaks else "error",
        checks=[{"name": c.name, "status": c.status, "message": c.words, "fix": c.fix, **c.numbers} for c in found],
    )
    if not speaks:
        device = opener.machine.device
        which = "any device of this machine" if device == "auto" else f"{device} on this machine"
        raise DeviceError(f"speech does not work on {which}", hint="fix the lines marked warn or fail")


def settings_of(machine: Machine) -> dict[str, Any]:
    """The fields of EngineSettings; nothing is downloaded."""
    return ModelOpener(machine, Network(offline=True), Messages()).settings


def number_of(rows: str | None) -> int:
    """What was typed after --rows."""
    if rows is None:
        return 1
    if not rows.isdecimal() or not 1 <= int(rows) <= MOST_ROWS:
        raise UsageError(f"--rows {rows}: not a whole number from 1 to {MOST_ROWS}", hint="--rows 12")
    return int(rows)


def all_of(machine: Machine, network: Network) -> Iterator[Check]:
    """Yields the result of every check."""
    here = (python, packages, settings, text, audio_files, sound_output, ffmpeg, cpu_library, cache, embedded_voice)
    for ask in here:
        yield asked(ask)
    yield asked(hub, network.offline)
    yield from devices(machine)


def asked(ask: Callable[..., Check], *about: Any) -> Check:
    """The result of a check; an exception is a result too."""
    name = getattr(ask, "__name__", "check").replace("_", " ")
    try:
        return ask(*about)
    except OmniError as error:
        return Check(name, "fail", error.message, error.hint)
    except Exception as error:
        return Check(name, "fail", f"{type(error).__name__}: {error}"[:200])


def python() -> Check:
    import platform

    words = f"{platform.python_version()} on {platform.system()} {platform.release()} {platform.machine()}"
    return Check("python", "ok", words)


def packages() -> Check:
    from importlib.metadata import PackageNotFoundError, version

    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check("packages", "fail", "missing: " + ", ".join(missing), f"pip install {' '.join(missing)}")
    return Check("packages", "ok", ", ".join(found))


def settings() -> Check:
    paths = layers.existing_files()
    for path in paths:
        layers.read(path).check_values()
    return Check("settings", "ok", ", ".join(map(str, paths)) or "no settings files")


def text() -> Check:
    import locale

    encoding = (sys.stdin.encoding if sys.stdin else None) or "none"
    words = f"locale {locale.setlocale(locale.LC_CTYPE)}, stdin {encoding}"
    if encoding.lower().replace("-", "") not in ("utf8", "none"):
        return Check("text", "warn", words, "--encoding NAME   (text is read as UTF-8, whatever the locale)")
    return Check("text", "ok", words)


def audio_files() -> Check:
    import soundfile

    wanted = {"WAV", "FLAC", "OGG", "MP3"}
    missing = sorted(wanted - set(soundfile.available_formats()))
    words = f"libsndfile {soundfile.__libsndfile_version__}"
    if missing:
        return Check("audio files", "warn", f"{words} cannot write {', '.join(missing)}", "pip install -U soundfile")
    return Check("audio files", "ok", f"{words}: wav flac mp3 ogg opus")


def sound_output() -> Check:
    try:
        sink = open_speaker()
    except DeviceError as error:
        fix = "connect a loudspeaker, or install PortAudio or one of pw-play, paplay, aplay, ffplay"
        return Check("sound output", "warn", f"{error.message}; files and pipes work", fix)
    words = getattr(sink.output, "name", "PortAudio")
    sink.discard()
    return Check("sound output", "ok", words)


def ffmpeg() -> Check:
    import shutil

    path = "PyAV" if pyav.present() else shutil.which("ffmpeg")
    return Check("ffmpeg", "ok", path or "not installed, nor is PyAV (one is needed for m4a, m4b, aac and video clips)")


def cpu_library() -> Check:
    variants = library.usable()
    if not variants:
        reason, slow = library.why_not(), "on a CPU speech takes four to five times as long"
        words = f"not compiled; {slow}" if reason is None else f"cannot be loaded, so {slow}: {reason}"
        return Check("cpu library", "warn", words, COMPILE)
    if variable(NATIVE) == "0":
        return Check("cpu library", "warn", f"switched off by {NATIVE}=0", f"unset {NATIVE}")
    place, compiler = library.origin()
    words = "compiled on this machine" if place == "here" else "compiled, from the wheel"
    numbers = {"variant": variants[0], "origin": place, "compiler": compiler}
    return Check("cpu library", "ok", f"{words}, for {variants[0]} ({compiler})", numbers=numbers)


def cache() -> Check:
    import shutil
    import tempfile

    folder = cache_folder("a/b").parent
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return Check(
            "model cache", "warn", f"cannot write to {folder}: {error.strerror}", "set HF_HOME to another folder"
        )
    words = f"{folder}, {readable_size(free)} free"
    largest = max(model.size_bytes for model in RELEASED.values())
    if free < largest + SPARE_BYTES:
        return Check(
            "model cache",
            "warn",
            words,
            f"free some space (a Qwen3-TTS model needs up to {readable_size(largest)}), or set HF_HOME to another disk",
        )
    return Check("model cache", "ok", words)


def embedded_voice() -> Check:
    """Whether the files of the embedded voice are unchanged."""
    folder = find.find(EMBEDDED).folder
    checked = store.verify(EMBEDDED)
    problem = verifying.problem(EMBEDDED, checked)
    if problem:
        return Check("embedded voice", "fail", f"{problem.message}: {problem.cause}", problem.hint)
    weight = sum(file.stat().st_size for file in Path(str(folder)).rglob("*") if file.is_file())
    compared = (
        "verified"
        if all(file.state == verifying.OK for file in checked)
        else "not verified: not installed from a wheel"
    )
    return Check("embedded voice", "ok", f"{EMBEDDED}, {len(speakers(''))} voices, {readable_size(weight)}, {compared}")


def hub(offline: bool) -> Check:
    if offline:
        return Check("hub", "skip", "--offline")
    from huggingface_hub import HfApi

    if told_offline():
        return Check("hub", "skip", "HF_HUB_OFFLINE is set")
    api = HfApi()
    began = time.perf_counter()
    try:
        api.model_info("Qwen/Qwen3-TTS-12Hz-0.6B-Base", timeout=5)
    except Exception as error:
        words = f"cannot reach {api.endpoint}: {type(error).__name__}"
        return Check("hub", "warn", words, "set HF_ENDPOINT to a mirror; models on this machine still work")
    return Check("hub", "ok", f"{api.endpoint}, {time.perf_counter() - began:.1f} s")


def devices(machine: Machine) -> Iterator[Check]:
    """Every device of this machine, or the one that was named."""
    import torch

    names, found = ["cpu"] if machine.device == "auto" else [machine.device], None
    if machine.device == "auto":
        accelerator = choose("auto").name
        names = [accelerator, "cpu"] if accelerator != "cpu" else names
        if (error := broken_cuda()) is not None:
            yield Check("device cuda", "warn", error.message, error.hint)
        if accelerator != "npu:0" and (error := broken_npu()) is not None:
            yield Check("device npu", "warn", error.message, error.hint)
    for name in names:
        try:
            device = choose(name)
            product = torch.ones(64, 64, device=device.torch_device) @ torch.ones(64, 64, device=device.torch_device)
            free = device.free_bytes()
            right = float(product[0, 0]) == 64.0
        except (OmniError, RuntimeError) as error:
            yield Check(f"device {name}", "fail", str(error)[:200], getattr(error, "hint", None))
            continue
        words = f"{readable_size(free)} free" if right else "computes wrong results"
        yield Check(f"device {name}", "ok" if right else "fail", words, numbers={"free_gib": round(free / 2**30, 1)})
        yield asked(reproducibility, device)
        if name == names[0]:
            yield asked(models_on_card, device, machine) if name != "cpu" else asked(released_models, device)
        persistent = getattr(device, "persistent_kernels", None)  # of CUDA devices
        if persistent is not None:
            used, reason = persistent()
            yield Check("persistent kernels", "ok", "in use for up to 8 streams" if used else f"not in use: {reason}")
        yield speech(replace(machine, device=name))
        yield asked(answers, device)
        if name == names[0]:  # what a command uses
            found = advice(device, broken_cuda() if name == "cpu" else None, unused_cards())
    if found is not None:
        yield from (Check(line, "ok", words) for line, words in found._asdict().items())


def reproducibility(device: Any) -> Check:
    """What the bytes of a sound depend on here. If it differs, the same request may give different bytes."""
    parts, short = depends_on(device), fingerprint(device)
    return Check(
        f"reproducibility on {device.name}",
        "ok",
        f"fingerprint {short}: machines with the same one produce the same samples ({', '.join(parts)})",
        numbers={"fingerprint": short, "depends_on": parts},
    )


def released_models(device: Any) -> Check:
    """Their format, memory and speed on a CPU, before anything is downloaded."""
    name, bits, free = "released models on cpu", device.ops().eight, device.free_bytes()
    if bits is None:
        words = "they would run in float32, which takes three times as long as 8 bits"
        return Check(name, "warn", words, "see the line about the cpu library")
    speed = speeds(bits)
    found = {size: outlook(f"{size}-customvoice", bits, speed) for size in SIZES}
    each = "; ".join(
        f"{size} needs {readable_size(one.memory_bytes)} of memory, RTF about {one.rtf:.1f}"
        for size, one in found.items()
    )
    threads, read_gib = f"{speed.threads} thread{'s' * (speed.threads != 1)}", speed.gb_per_s * 1e9 / 2**30
    few, many = bits.together
    words = f"in 8 bits, {each} ({threads} read {read_gib:.0f} GiB/s from memory)"
    words += ", slowed by other programs" * is_busy(speed.threads)
    words += f"; {few} to {many} sentences of a text are made together"
    numbers: dict[str, Any] = {
        "read_gib_per_s": round(read_gib, 1),
        "threads": speed.threads,
        "sentences_together": [few, many],
    }
    for size, one in found.items():
        numbers |= {f"{size}_rtf": round(one.rtf, 2), f"{size}_gib": round(one.memory_bytes / 2**30, 2)}
    smallest = found[SIZES[0]]
    if smallest.memory_bytes > free:
        fix = f"close other programs ({readable_size(free)} free)   or   -m {EMBEDDED}"
        return Check(name, "warn", words, fix, numbers=numbers)
    slow = smallest.rtf >= 1
    hint = f"-m {EMBEDDED}, a GPU or faster memory for speech without pauses"
    return Check(name, "ok", words, hint if slow else None, numbers=numbers)


def models_on_card(device: Any, machine: Machine) -> Check:
    """Which released models fit into the memory of a card, and how many requests beside them."""
    settings = EngineSettings(**settings_of(replace(machine, device="auto")))
    device.limit(machine.max_memory)
    found = {size: room_for(f"{size}-customvoice", device, settings) for size in SIZES}
    said, numbers = [], dict[str, Any]()
    for size, room in found.items():
        if room is None:
            said.append(f"{size} does not fit")
            continue
        count = f"{room.slots} request{'s' * (room.slots != 1)} of {room.seconds:.0f} s"
        said.append(f"{size} in {room.precision} takes {readable_size(room.weights_bytes)}, beside it {count}")
        numbers |= {f"{size}_precision": room.precision, f"{size}_slots": room.slots, f"{size}_s": room.seconds}
    words = f"{'; '.join(said)} ({of_free(device, device.free_bytes())})"
    fits = any(found.values())
    return Check(f"models on {device.name}", "ok" if fits else "warn", words, None if fits else f"-m {EMBEDDED}",
                 numbers=numbers)  # fmt: skip


def answers(device: Any) -> Check:
    """Whether the model of `omnitts ask` fits; speech does not depend on it."""
    from omnitts_cli.speech.load_thinker import POSITIONS, conversations

    needed, count = conversations(device)
    words = f"omnitts ask needs {readable_size(needed)} for its model"
    fits = f"{count} conversation{'s' * (count != 1)} of {POSITIONS} tokens fit beside it"
    numbers = {"ask_model_gib": round(needed / 2**30, 1), "ask_conversations": count}
    fits = fits if count else "does not fit; speech does not need it, and omnitts ask --llm takes a smaller one"
    return Check(f"answers on {device.name}", "ok" if count else "skip", f"{words}; {fits}", numbers=numbers)


def speech(machine: Machine) -> Check:
    """Speaks a sentence and measures its real-time factor."""
    name = f"speech on {machine.device}"
    settings = settings_of(machine)
    began = time.perf_counter()
    try:
        with tts.load(EMBEDDED, **settings) as opened:
            loaded = time.perf_counter()
            audio = opened.speak(SENTENCE, seed=0).seconds
            spent = time.perf_counter() - loaded
    except OmniError as error:
        return Check(name, "warn", error.message, error.hint)
    rtf = spent / audio if audio else None
    words = f"{audio:.1f} s of speech in {spent:.1f} s" + (f", RTF {rtf:.2f}" if rtf else "")
    numbers = {"rtf": rtf and round(rtf, 3), "load_s": round(loaded - began, 2)}
    return Check(name, "ok" if audio else "fail", words, speaks=bool(audio), numbers=numbers)
