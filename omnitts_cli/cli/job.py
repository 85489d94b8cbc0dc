"""Job: what say, clone, design and play have in common, from the text to the finished file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from omnitts_cli.cli import results, sound_out
from omnitts_cli.cli.loading import opened_model
from omnitts_cli.errors import DeviceError, OmniError, OutputError, UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Machine, Messages, Network, Results, Speech, TextIn
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, duration, size
from omnitts_cli.terminal.signals import Stopped, held
from omnitts_cli.text.language import LANGUAGES

if TYPE_CHECKING:
    from omnitts_cli.cli.sound_out import SideFile, Stage
    from omnitts_cli.speech.script import Script
    from omnitts_cli.speech.speaking import Stream
    from omnitts_cli.speech.tts import TTS
    from omnitts_cli.speech.voices import Voice

CHARS_PER_S = 14.0  # of English speech; for --dry-run only
FIRST_S = 0.1  # /dev/null and the like have ended by then


@dataclass(frozen=True)
class Job:
    """One command's worth of speech."""

    command: str
    words: list[str] | None
    text: TextIn
    speech: Speech
    output: Results
    machine: Machine
    network: Network
    messages: Messages
    live: bool = False
    takes: tuple[Results, ...] = ()  # where more than one take of the same goes; the first is `output`
    names_outputs: bool = False  # the names of the files are ours: they are printed on stdout

    def script(self) -> tuple[Script, Iterator[str] | None]:
        """The pieces to speak; for live speech the text as it arrives as well."""
        from omnitts_cli.cli.text_in import live_texts, open_script
        from omnitts_cli.speech.script import Fed

        if self.live:
            return Fed(), live_texts(self.words, self.text, self.command)
        known = self.speech.language if self.speech.language in LANGUAGES else None
        return open_script(self.words, self.text, known, self.command), None

    @contextmanager
    def opened(self, variant: str, model: str | None = None) -> Iterator[Ready | None]:
        """The model, once everything else is known to be right; None where none is needed.

        `variant` completes a bare size such as 0.6b; `model` is the one that a saved voice brings along.
        """
        if self.output.audio_device == "list":
            sound_out.list_speakers()
            yield None
            return
        if self.speech.max_frames is not None and self.speech.max_seconds is not None:
            raise UsageError("--max-frames and --max-seconds exclude each other", hint="leave one of them out")
        name = self.speech.model or model or EMBEDDED
        script, texts = self.script()
        if self.output.dry_run:
            rehearse(script, name, variant, whole=self.text.split == "none")
            yield None
            return
        with ExitStack() as closing:
            with held():  # a signal between the two lines would leave a temporary file behind
                place = sound_out.reserve(self.output)
                closing.callback(lambda: place.sink.discard())  # of the sink that it will have by then
            subs, codes = self.side_files(closing)
            script.peek(FIRST_S)  # an empty one is refused now
            tts = closing.enter_context(opened_model(name, variant, self.machine, self.network, self.messages))
            place = self.prepared(place, tts.sample_rate)
            yield Ready(self, tts, place, subs, codes, script, texts)

    def side_files(self, closing: ExitStack) -> tuple[SideFile | None, SideFile | None]:
        """The open files of --subs and --codes, which vanish if nothing comes of them."""
        from omnitts_cli.text.subtitles import subtitle_format

        if self.output.subs and self.output.subs != "-":
            subtitle_format(self.output.subs)
        found = []
        for path in (self.output.subs, self.output.codes):
            file = sound_out.SideFile(path, no_clobber=self.output.no_clobber) if path else None
            if file:
                closing.callback(file.discard)
            found.append(file)
        return found[0], found[1]

    def prepared(self, place: Stage, rate: int) -> Stage:
        """The stage for the model's own rate, with --loudness in front of it."""
        from omnitts_cli.audio.loudness import LoudnessSink, Meter

        if rate != place.rate:
            place.sink.discard()
            place = sound_out.open_stage(self.output, rate)
        if self.speech.loudness != "off":
            place.sink = LoudnessSink(place.sink, float(self.speech.loudness), rate)
        place.meter = Meter(rate) if console.json else None
        return place


@dataclass
class Ready:
    """An open model, and the places that its speech goes to."""

    job: Job
    tts: TTS
    place: Stage
    subs: SideFile | None
    codes: SideFile | None
    script: Script
    texts: Iterator[str] | None

    def speak(self, voice: Voice | str | None, style: str | None = None) -> None:
        """Speaks everything, and says what was made."""
        job = self.job
        speech = replace(job.speech, style=style)
        stream = self.stream(voice, speech)
        self.write(stream)
        if self.subs:
            self.subs.write(results.subtitles(stream.account, self.subs.path))
        if self.codes:
            self.codes.write(results.codes(stream.account, self.tts.engine.model.facts.groups))
        results.report(job, self.tts, self.place, stream)
        for take in range(1, len(job.takes)):
            self.another(take, voice, replace(speech, seed=stream.seed + take))

    def another(self, take: int, voice: Voice | str | None, speech: Speech) -> None:
        """The same again with another seed, into another place."""
        job = replace(self.job, output=self.job.takes[take])
        place = job.prepared(sound_out.reserve(job.output), self.tts.sample_rate)
        try:
            script, texts = job.script()
            again = replace(self, job=job, place=place, script=script, texts=texts)
            stream = again.stream(voice, speech)
            again.write(stream)
            results.report(job, self.tts, place, stream)
        finally:
            place.sink.discard()

    def stream(self, voice: Voice | str | None, speech: Speech) -> Stream:
        return self.tts.open(
            self.script, voice, self.job.text, speech,
            words=self.texts, safe=self.place.safe, keep_codes=self.codes is not None, tell=console.notice,
        )  # fmt: skip

    def write(self, stream: Stream) -> None:
        """The stream into the sink; what was finished is kept whatever happens."""
        job, place = self.job, self.place
        title = "playing" if job.command == "play" else "speaking"
        with Progress(title, job.messages.progress) as progress, ExitStack() as closing:
            closing.enter_context(stream)
            quit_asked: list[str] = []
            if job.command == "play":
                closing.enter_context(remote_control(place, stream, quit_asked))
            tell = partial(results.tell, progress, self.script, place, stream)
            try:
                for chunk in stream:
                    with held():
                        place.write(chunk.samples)
                        if chunk.sentence is not None:
                            place.sink.sentence_done()
                    tell()
                place.sink.finish()
            except (OmniError, Stopped) as error:
                if quit_asked and isinstance(error, DeviceError):  # the loudspeaker was told to stop
                    return
                raise rescued(error, place) from None
        for notice in place.sink.notices:
            console.warning(notice)


def rehearse(script: Script, model: str, variant: str, *, whole: bool) -> None:
    """--dry-run: the pieces, how long they will be, and what the model weighs."""
    from omnitts_cli.text.reading import parts_of

    weight, longest = known_of(model, variant)
    number, seconds = 0, 0.0
    while not script.ended:
        piece = script.take(0.25)
        if piece is None:
            continue
        for part in parts_of(piece, None if whole else longest):
            expected = part.pause_s or len(part.text) / CHARS_PER_S
            number, seconds = number + 1, seconds + expected
            console.table([[str(number), f"{expected:.1f} s", part.text or "(pause)"]])
            console.record(status="ok", piece=number, expected_s=round(expected, 2), text=part.text)
    console.note(f"{number} piece{'s' * (number != 1)}, about {duration(seconds)}{weight}")


def known_of(name: str, variant: str) -> tuple[str, int | None]:
    """What a model takes of the memory, in words, and the longest piece that it says well; nothing is loaded."""
    from omnitts_cli.families.common.fields import Fields
    from omnitts_cli.families.qwen3_tts.ours import longest_piece, ours_in
    from omnitts_cli.weights.find import here
    from omnitts_cli.weights.names import HubName

    try:
        found = here(name, variant=variant)
        if isinstance(found, HubName):
            return f"; model {name} is not on this machine", None
        if (folder := found.folder) is None:
            return "", None
        longest = longest_piece(ours_in(Fields.read(folder / "config.json")))
    except OmniError as error:
        return f"; {error.message}", None
    return f"; model {name}: {size(sum(file.stat().st_size for file in folder.rglob('*.safetensors')))}", longest


def rescued(error: OmniError | Stopped, place: Stage) -> OmniError | Stopped:
    """The error, after what was finished has been kept. A finished sentence is never lost."""
    try:
        kept = place.sink.interrupt()
    except (OutputError, BrokenPipeError):
        return error
    if kept and isinstance(error, Stopped):
        error.word += f"; what was finished is in {kept}"
    elif kept:
        console.note(f"what was finished is in {kept}")
    return error


def remote_control(place: Stage, stream: Stream, quit_asked: list[str]) -> AbstractContextManager[bool]:
    """Space pauses and goes on, q stops."""
    from omnitts_cli.terminal.keys import pressed

    speaker = place.speaker
    assert speaker is not None
    paused = False

    def act(key: str) -> None:
        nonlocal paused
        if key == " ":
            paused = not paused
            speaker.pause(paused)
        elif key == "q":
            quit_asked.append(key)
            stream.close()
            speaker.discard()

    return pressed(act)
