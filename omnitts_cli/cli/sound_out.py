"""Stage: where the sound goes. Output errors are found before a model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from omnitts_cli.errors import DeviceError, InputError, OutputError, UsageError
from omnitts_cli.terminal.console import console

if TYPE_CHECKING:
    import numpy as np

    from omnitts_cli.audio.encode import SoundFormat
    from omnitts_cli.audio.loudness import Meter
    from omnitts_cli.audio.sinks import Sink
    from omnitts_cli.audio.speaker import SpeakerSink
    from omnitts_cli.settings.table import Output
    from omnitts_cli.speech.speaking import Stream

RATE = 24_000  # of every released model


@dataclass
class Stage:
    """The sink and its name. `path` is None for stdout or playback only."""

    sink: Sink
    form: SoundFormat
    rate: int
    path: Path | None = None
    speaker: SpeakerSink | None = None
    named: bool = False  # we chose the name, so it is printed on stdout
    peak: float = 0.0  # of what was written
    meter: Meter | None = None  # measures the loudness of what is written

    def write(self, samples: np.ndarray) -> None:
        """More sound into the sink."""
        if samples.size:
            self.peak = max(self.peak, float(abs(samples).max()))
            if self.meter:
                self.meter.feed(samples)
            self.sink.write(samples)

    @property
    def lufs(self) -> float | None:
        """The loudness of everything written, if it was measured and long enough."""
        measured = self.meter.lufs() if self.meter else -inf
        return measured if isfinite(measured) else None

    @property
    def shown(self) -> str | None:
        """The name of the output in results."""
        return str(self.path) if self.path else "-" if console.audio_on_stdout else None

    @property
    def safe(self) -> bool:
        """Whether a piece can be checked completely before it is heard."""
        return self.path is not None and self.speaker is None


@dataclass
class Player:
    """Handles keys during playback: space pauses and resumes, q stops."""

    place: Stage
    stream: Stream
    paused: bool = False
    quit: bool = False
    listens: bool = False  # whether there is a terminal to press keys on

    def act(self, key: str) -> None:
        speaker = self.place.speaker
        assert speaker is not None
        if key == " ":
            self.paused = not self.paused
            speaker.pause(self.paused)
        elif key == "q":
            self.quit = True
            self.stream.close()
            speaker.discard()


def reserve(output: Output) -> Stage:
    """The output before the model is known. Nothing irrevocable, such as the first bytes of a pipe, is written yet."""
    from omnitts_cli.audio.sinks import MemorySink, refuse_terminal

    in_place = output.output == "-" or (output.output is not None and is_special(Path(output.output)))
    if not in_place:
        return open_stage(output, RATE)
    if output.output == "-":
        if output.play:
            hint = "-o - | tee speech.wav | ffplay -nodisp -autoexit -"
            raise UsageError("use either --play or -o -, not both", hint=hint)
        console.audio_on_stdout = True
        refuse_terminal(console.stdout.file)
    return Stage(MemorySink(), chosen_format(output, RATE), rate=0)


def open_stage(output: Output, rate: int) -> Stage:
    """Opens the sink for -o and --play, at this sample rate."""
    from omnitts_cli.audio.sinks import FileSink, PipeSink, TeeSink
    from omnitts_cli.audio.speaker import open_speaker

    form = chosen_format(output, rate)
    if output.output == "-":
        return Stage(PipeSink(console.stdout.file, form, rate), form, rate)
    if output.output is not None:
        path = Path(output.output)
        file = FileSink(path, form, rate, no_clobber=output.no_clobber)
        if not output.play:
            return Stage(file, form, rate, path)
        try:
            speaker = open_speaker(rate, output.audio_device)
        except DeviceError as error:
            file.discard()
            without = f"leave --play out to write {path} only; omnitts doctor shows more"
            hint = error.hint if output.audio_device else without
            raise DeviceError(error.message, cause=error.cause, hint=hint) from None
        except BaseException:
            file.discard()
            raise
        return Stage(TeeSink([file, speaker]), form, rate, path, speaker)
    if output.play is not False:
        try:
            speaker = open_speaker(rate, output.audio_device)
            return Stage(speaker, form, rate, None, speaker)
        except DeviceError:
            if output.play or output.audio_device:
                raise
    return named_by_us(form, rate)


def chosen_format(output: Output, rate: int) -> SoundFormat:
    from omnitts_cli.audio.encode import choose_format

    return choose_format(output.output, output.format, model_rate=rate, rate=output.sample_rate, subtype=output.subtype)


def is_special(path: Path) -> bool:
    """Whether a path is a FIFO or a device, which is written in place."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def named_by_us(form: SoundFormat, rate: int) -> Stage:
    """speech.wav, or the next free number; created at once, so that two runs never share a name."""
    from omnitts_cli.audio.sinks import FileSink
    from omnitts_cli.audio.target import free_name

    path = free_name(Path(), suffix=form.suffix)
    return Stage(FileSink(path, form, rate, no_clobber=True), form, rate, path, named=True)


def make_folder(folder: Path) -> None:
    """The folder, if it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {(error.strerror or str(error)).lower()}") from None


class SideFile:
    """A second output (--subs, --codes): its name is checked first, its content written last."""

    def __init__(self, path: str, *, no_clobber: bool) -> None:
        from omnitts_cli.audio.target import open_target

        if path == "-":
            raise UsageError("only sound can go to stdout", hint="give --subs and --codes a file name")
        self._target = open_target(Path(path), no_clobber=no_clobber)
        self.path = Path(path)

    def write(self, data: bytes) -> None:
        from omnitts_cli.audio.outlet import Outlet

        outlet = Outlet(self._target.file, str(self.path))
        outlet.write(data)
        outlet.check()
        self._target.put_in_place()

    def discard(self) -> None:
        self._target.remove()


class StdoutFile:
    """Standard output instead of such a file. JSON goes to stderr then."""

    def __init__(self) -> None:
        if console.stdout.is_terminal():
            raise UsageError("refusing to write codes to the terminal", hint="name a file, or use a pipe")
        console.audio_on_stdout = True

    def write(self, data: bytes) -> None:
        from omnitts_cli.audio.outlet import Outlet

        outlet = Outlet(console.stdout.file, "standard output")
        outlet.write(data)
        outlet.check()

    def discard(self) -> None:
        """Written bytes cannot be taken back."""


def list_speakers() -> None:
    """--audio-device list."""
    from omnitts_cli.audio.speaker import list_devices

    names = list_devices()
    if not names:
        raise DeviceError("this machine has no sound output", hint="-o speech.wav")
    for name in names:
        console.result(name)
        console.record(status="ok", audio_device=name)


def refuse_same(output: Output, clip: str) -> None:
    """Refuses an output that would overwrite its own clip."""
    if output.output and clip != "-" and output.output != "-":
        one, other = Path(clip), Path(output.output)
        if one.exists() and other.exists() and one.samefile(other):
            raise InputError(f"{output.output} is the reference clip", hint="choose another name for -o")
