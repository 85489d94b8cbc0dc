"""What comes out: where the sound goes (Stage), the files beside it, and the report of it on stderr and as JSON.

Output errors are found before a model is loaded.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import floor, inf, isfinite
from pathlib import Path
from shutil import get_terminal_size

import numpy as np

from omnitts_cli.audio.encode import M4A, SoundFormat, choose_format
from omnitts_cli.audio.loudness import Level, Meter
from omnitts_cli.audio.outlet import Outlet, make_folder
from omnitts_cli.audio.pcm import dbfs
from omnitts_cli.audio.sinks import FileSink, MemorySink, PipeSink, Sink, TeeSink
from omnitts_cli.audio.speaker import SpeakerSink, list_devices, open_speaker
from omnitts_cli.audio.target import free_name, is_special, open_target
from omnitts_cli.books.marks import Marks
from omnitts_cli.devices.fingerprint import of_exact
from omnitts_cli.errors import DeviceError, InputError, ModelError, OmniError, UsageError
from omnitts_cli.settings.table import Output, Results, Speech
from omnitts_cli.speech.clip import Chunk, Clip
from omnitts_cli.speech.script import Script
from omnitts_cli.speech.speaking import Account, Stream
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import code_of
from omnitts_cli.speech.words import Aligned, Timer, Times
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.karaoke import line_at
from omnitts_cli.terminal.playback import Playback
from omnitts_cli.terminal.progress import Progress, duration
from omnitts_cli.text.subtitles import (
    SUBTITLE_FORMATS,
    Sentence,
    SubtitleFormat,
    joined,
    render,
    sentence_rows,
    subtitle_format,
)


@dataclass
class Stage:
    """The sink and its name. `rate` is that of the model. `path` is None for stdout or playback only."""

    sink: Sink
    form: SoundFormat
    rate: int
    path: Path | None = None
    speaker: SpeakerSink | None = None
    named: bool = False  # we chose the name, so it is printed on stdout
    unplayed: bool = False  # a file, because there is no sound output
    peak: float = 0.0  # of what was written, before --loudness
    meter: Meter | None = None  # measures the loudness of what is written, before --loudness
    safe: bool = field(init=False)  # whether a piece can be checked completely before it is heard

    def __post_init__(self) -> None:
        self.safe = self.path is not None and self.speaker is None

    def write(self, samples: np.ndarray) -> None:
        """More sound into the sink."""
        if samples.size:
            self.peak = max(self.peak, float(abs(samples).max()))
            if self.meter:
                self.meter.feed(samples)
            self.sink.write(samples)

    @property
    def level(self) -> Level | None:
        """What --loudness has made of it."""
        return getattr(self.sink, "reached", None)

    @property
    def loudest(self) -> float:
        """The highest sample of the output."""
        return self.level.peak if self.level else self.peak

    @property
    def lufs(self) -> float | None:
        """The loudness of the output, if it was measured and long enough."""
        measured = self.level.lufs if self.level else self.meter.lufs() if self.meter else -inf
        return measured if isfinite(measured) else None

    @property
    def shown(self) -> str | None:
        """The name of the output in results."""
        return str(self.path) if self.path else "-" if console.audio_on_stdout else None


@dataclass
class Player:
    """Handles keys during playback: space pauses and resumes, q stops."""

    stage: Stage
    stream: Stream
    paused: bool = False
    quit: bool = False
    listens: bool = False  # whether there is a terminal to press keys on

    def act(self, key: str) -> None:
        speaker = self.stage.speaker
        assert speaker is not None
        if key == " ":
            self.paused = not self.paused
            speaker.pause(self.paused)
        elif key == "q":
            self.quit = True
            self.stream.close()
            speaker.discard()


def open_stage(output: Output, rate: int) -> Stage:
    """Opens the sink for -o and --play, at the sample rate of the model, which is opened later.

    Nothing irrevocable, such as the first bytes of a pipe, is written before there is sound.
    """
    form = chosen_format(output, rate)
    if output.output == "-":
        return to_stdout(output, form, rate)
    if output.output is not None:
        path = Path(output.output)
        file = file_sink(path, form, rate, no_clobber=output.no_clobber)
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
            return replace(named_by_us(form, rate), unplayed=True)
    return named_by_us(form, rate)


def to_stdout(output: Output, form: SoundFormat, rate: int) -> Stage:
    """-o -"""
    if output.play:
        hint = "-o - | tee speech.wav | ffplay -nodisp -autoexit -"
        raise UsageError("use either --play or -o -, not both", hint=hint)
    if form.name == M4A:
        raise UsageError("an .m4a file cannot go into a pipe", hint="-o speech.m4a   or   -F flac")
    console.audio_on_stdout = True
    return Stage(PipeSink(console.stdout.file, form, rate), form, rate)


def require_rate(expected: int, rate: int) -> None:
    """Raises ModelError if a model has another sample rate than was known before it was downloaded."""
    if rate != expected:
        what = f"the model speaks at {rate} Hz; before it was downloaded, {expected} Hz were expected"
        raise ModelError(what, hint="run the same command again")


def silent_stage(output: Output, rate: int) -> Stage:
    """A stage to which nothing is written: every answer gets a file of its own. Refuses an impossible format now."""
    return Stage(MemorySink(), chosen_format(output, rate), rate)


def write_answer(clip: Clip, path: Path, output: Output) -> str:
    """Writes a clip under `path` with the suffix of its format; returns the file's name."""

    form = chosen_format(output, clip.sample_rate)
    path = path.with_name(f"{path.name}{form.suffix}")
    with file_sink(path, form, clip.sample_rate, no_clobber=output.no_clobber) as sink:
        sink.write(clip.samples)
        sink.finish()
    return str(path)


def file_sink(path: Path, form: SoundFormat, rate: int, *, no_clobber: bool, marks: Marks | None = None) -> Sink:
    """The sink for a file of this format, for sound of this rate. `marks`: those of a book."""
    if form.name == M4A or marks is not None:
        from omnitts_cli.books import m4b, tags

        if form.name == M4A:
            return m4b.M4bSink(path, rate, form, marks, no_clobber=no_clobber)
        if marks is not None and form.name in tags.TAGGERS and not is_special(path):
            return tags.TaggedSink(path, form, rate, marks, no_clobber=no_clobber)
    return FileSink(path, form, rate, no_clobber=no_clobber)


def chosen_format(output: Output, rate: int) -> SoundFormat:
    return choose_format(
        output.output, output.format, model_rate=rate, rate=output.sample_rate, subtype=output.subtype,
        bitrate=output.bitrate, quality=output.quality, m4a=True,
    )  # fmt: skip


def named_by_us(form: SoundFormat, rate: int) -> Stage:
    """speech.wav, or the next free number; created at once, so that two runs never share a name."""
    path = free_name(Path(), suffix=form.suffix)
    return Stage(file_sink(path, form, rate, no_clobber=True), form, rate, path, named=True)


@contextmanager
def folder_for_sound(folder: Path, *, needed: bool = True) -> Iterator[None]:
    """The folder while files are written into it. If we made it and it stays empty, it is removed."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()] if needed else []
    if needed:
        make_folder(folder)
    try:
        yield
    finally:
        with suppress(OSError):  # there is something in it
            for path in missing:
                path.rmdir()


class SideFile:
    """A second output (--subs, --codes): its name is checked first, its content written last. `-` is standard output;
    JSON then goes to stderr, and a file name that we chose is not printed there.
    """

    def __init__(self, path: str, *, no_clobber: bool = False, text: bool = False) -> None:
        """`text`: it may be shown on a terminal."""
        if path == "-" and not text and console.stdout.is_terminal():
            raise UsageError("refusing to write codes to the terminal", hint="name a file, or use a pipe")
        self._target = None if path == "-" else open_target(Path(path), no_clobber=no_clobber)
        self._name = "standard output" if path == "-" else path
        console.audio_on_stdout |= path == "-"

    def write(self, data: bytes) -> None:
        outlet = Outlet(self._target.file if self._target else console.stdout.file, self._name)
        outlet.write(data)
        outlet.check()
        if self._target:
            self._target.put_in_place()

    def discard(self) -> None:
        if self._target:  # what was written to standard output cannot be taken back
            self._target.remove()


WORDS = "words"


def subtitle_names(output: Results) -> list[str]:
    """The files of --subs; `words` stands for one of each format beside the output."""
    if output.subs != WORDS:
        return [output.subs] if output.subs else []
    if output.output in (None, "-") or is_special(Path(str(output.output))):
        raise UsageError("--subs words needs the name of an output file", hint="-o speech.wav   or   --subs FILE.srt")
    return [str(Path(str(output.output)).with_suffix(f".{form}")) for form in SUBTITLE_FORMATS]


class SubtitleFiles:
    """The files of --subs; by words they also need the sound, to align the words with it."""

    def __init__(self, output: Results, language: str, *, offline: bool) -> None:
        names = subtitle_names(output)
        if names == ["-"] and output.output == "-":
            raise UsageError("only one of sound and subtitles can go to stdout", hint="-o speech.wav --subs -")
        forms: list[SubtitleFormat] = [subtitle_format(name) if name != "-" else "srt" for name in names]
        by_words = WORDS in (output.subs, output.subs_by)
        self.timed = TimedWords(word_timing(output, language, offline=offline)) if by_words else None
        self._files: list[tuple[SubtitleFormat, SideFile]] = []
        try:
            for form, name in zip(forms, names, strict=True):
                self._files.append((form, SideFile(name, no_clobber=output.no_clobber, text=True)))
        except OmniError:
            self.discard()
            raise

    def write_times(self, sentences: Sequence[Sentence]) -> None:
        """The times of the sentences, or of all their words."""
        known = joined((self.timed and self.timed.sentences) or sentences)
        for form, file in self._files:
            file.write(render(known, form, words_by=self.timed.times.by if self.timed else None).encode())

    def discard(self) -> None:
        for _, file in self._files:
            file.discard()


class TimedWords:
    """The words of sound that is being written."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self._timer: Timer | None = None

    @property
    def sentences(self) -> list[Sentence]:
        return self._timer.sentences if self._timer else []

    def add(self, chunk: Chunk) -> None:
        """Sound that has just been written."""
        if self._timer is None:
            self._timer = Timer(chunk.sample_rate, self.times)
        self._timer.add(chunk.samples, chunk.sentence)


def word_timing(output: Results, language: str, *, offline: bool = False) -> Times:
    """What finds words in sound: the recogniser of --asr-model, or our own alignment."""
    if output.asr_model:
        from omnitts_cli.speech.recognised import recognised

        return recognised(output.asr_model, language, offline=offline)

    return Aligned(language)


def list_speakers() -> None:
    """--audio-device list."""
    names = list_devices()
    if not names:
        raise DeviceError("this machine has no sound output", hint="-o speech.wav")
    for name in names:
        console.result(name)
        console.record(status="ok", audio_device=name)


def refuse_overwriting(output: Output, inputs: Iterable[str]) -> None:
    """Refuses an output that would overwrite an input of the command, or another output."""
    subs = [("--subs", name) for name in subtitle_names(output)] if isinstance(output, Results) else []
    written: dict[str, str] = {}
    for option, name in (("-o", output.output), *subs, ("--codes", getattr(output, "codes", None))):
        if name in (None, "-") or is_special(Path(name)):
            continue
        other = next((other for other, known in written.items() if is_same(known, name)), None)
        if other is not None:
            raise UsageError(f"{other} and {option} name the same file, {name}", hint=f"another name for {option}")
        refuse_same(name, inputs)
        written[option] = name


def refuse_one_output(output: Results) -> None:
    """Refuses the options of one output beside --output-dir."""
    if output.output:
        raise UsageError("use either --output or --output-dir, not both", hint="leave one of them out")
    if output.subs or output.codes:
        raise UsageError(
            "--subs and --codes need a single output file", hint="omnitts say -f FILE -o FILE.wav --subs FILE.srt"
        )


def refuse_same(name: str, inputs: Iterable[str]) -> None:
    """Refuses an output file that is also read."""
    if any(is_same(name, one) for one in inputs if one != "-"):
        raise InputError(f"{name} would be overwritten, but it is read too", hint="choose another name for the output")


def is_same(one: str, other: str) -> bool:
    """Whether two names stand for the same file."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them does not exist yet
        return os.path.abspath(one) == os.path.abspath(other)


STEADY_S = 1.0  # before that, an estimate of the remaining time is too rough


def report(command: str, speech: Speech, tts: TTS, stage: Stage, stream: Stream, *, named: bool) -> None:
    """What was made, for programs and for people. `named`: its name is printed on stdout."""
    peak = dbfs(stage.loudest)
    warn_if_clipped(peak, speech.volume, stage)
    console.report_repeats()
    exact = of_exact(tts.engine.device)
    model, request, account, seconds = tts.engine.model, stream.manner.request, stream.account, stream.seconds
    rtf = account.wall_s / seconds if seconds else None
    console.record(
        status="ok",
        command=command,
        output=stage.shown,
        format=stage.form.name,
        sample_rate=stage.form.rate,
        channels=1,
        audio_s=round(seconds, 3),
        wall_s=round(account.wall_s, 3),
        rtf=None if rtf is None else round(rtf, 4),
        ttfa_s=None if account.first_sound_s is None else round(account.first_sound_s, 3),
        pieces=account.pieces,
        chars=account.chars,
        seed=stream.seed,
        retries=account.retries,
        guard_hits=account.guard_hits,
        stopped=account.stopped,
        lang=code_of(request.language, model),
        voice=speech.voice or getattr(request.voice, "speaker", None),
        model=model.name,
        model_sha256=model.sha256,
        device=tts.engine.device.name,
        dtype=model.precision,
        via=tts.via,
        **({"exact": exact} if exact else {}),
        peak_dbfs=round(peak, 1) if stage.loudest else None,
        loudness_lufs=None if stage.lufs is None else round(stage.lufs, 1),
        warnings=console.warnings,
        sentences=sentence_rows(joined(account.sentences)),
    )
    if (stage.named or named) and not console.audio_on_stdout:
        console.result(str(stage.path))
    where = f" in {stage.path}" if stage.path else ""
    where += ", as there is no sound output" if stage.unplayed else ""
    speed = f"  RTF {rtf:.3f}" if rtf else ""
    line = f"{duration(seconds)} of speech{where}{speed}  seed {stream.seed}"
    drawn = speech.seed is None and console.on_terminal()  # it would be lost
    (console.note if stage.named or named or drawn else console.detail)(line)


def warn_if_clipped(peak_dbfs: float, volume_db: float, stage: Stage) -> None:
    """Warns about clipping; float WAV files do not clip."""
    if round(peak_dbfs, 1) > 0 and stage.form.subtype != "float":
        console.warning(
            f"the sound is clipped: its peaks are {peak_dbfs:.1f} dB above full scale",
            hint=f"--volume {floor(volume_db - peak_dbfs)}, or --loudness -16, which limits the peaks",
        )


def tell(progress: Progress, script: Script, stream: Stream) -> None:
    """Updates the progress line: how much has been generated."""
    account, made_s = stream.account, stream.made_s
    wall = max(time.perf_counter() - account.began, 1e-9)  # clocks may not advance
    share = min(1.0, stream.made_chars() / script.chars) if script.chars else None
    if not made_s:
        return progress.update(share, "starting", done_chars=account.chars, audio_s=0.0)
    speed = made_s / wall
    left = wall / share - wall if share and wall > STEADY_S else None
    words = f"audio {duration(made_s)}  {speed:.1f}× realtime" + (f"  eta {duration(left)}" if left is not None else "")
    progress.update(
        share, words, done_chars=account.chars, audio_s=round(made_s, 2), speed_x=round(speed, 2),
        eta_s=None if left is None else round(left, 1),
    )  # fmt: skip


def tell_playing(
    progress: Progress, script: Script, stage: Stage, stream: Stream, player: Player, shown: TimedWords | None
) -> None:
    """The playback position, for the line of `play`; with --karaoke the words."""
    speaker = stage.speaker
    assert speaker is not None
    if shown and progress.style == "bar" and not player.paused:
        head = f"{duration(speaker.played_s)}  "
        line = line_at(shown.sentences, speaker.played_s, get_terminal_size().columns - 1 - len(head))
        if line is not None:
            return progress.draw(head + line.before, line.word, line.after)
    complete = script.ended and stream.finished
    expected = None
    if script.chars and (done := stream.made_chars()):
        expected = stream.made_s * max(1.0, script.chars / done)
    moment = Playback(speaker.played_s, stream.made_s, complete, expected, speaker.level, player.paused, player.listens)
    progress.update(moment.share, moment.words, heard_s=round(moment.heard_s, 2), audio_s=round(moment.made_s, 2))


def codes(account: Account, groups: int) -> bytes:
    """The codes of all pieces, joined, as a file."""
    return packed(np.concatenate([np.zeros((0, groups), np.int64), *account.codes]))


def packed(codes: np.ndarray) -> bytes:
    """A safetensors file with one tensor `codes` [frames, groups]."""
    from safetensors.numpy import save

    return save({"codes": np.ascontiguousarray(codes, np.int64)})
