"""Job: the common part of say, clone, design and play, from the text to the finished file; how a model is opened."""

import gc
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli.audio.loudness import LoudnessSink, Meter
from omnitts_cli.cli import length, sound_out
from omnitts_cli.cli.sound_out import Player, SideFile, Stage, SubtitleFiles
from omnitts_cli.cli.text_in import live_texts, open_script, rehearse
from omnitts_cli.errors import DeviceError, OmniError, OutputError, UsageError
from omnitts_cli.settings.environment import API_KEY, EMBEDDED, server_socket
from omnitts_cli.settings.table import Machine, Messages, Network, Results, Speech, TextIn
from omnitts_cli.speech import tts
from omnitts_cli.speech.script import Fed, Script
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voice_files import model_of
from omnitts_cli.speech.voices import Voice, saved_voice
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.keys import pressed
from omnitts_cli.terminal.progress import Progress, ticking
from omnitts_cli.terminal.signals import Stopped, held
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.weights.find import sample_rate

if TYPE_CHECKING:
    from omnitts_cli.speech.remote import RemoteTTS
    from omnitts_cli.weights.fetch import DownloadProgress

FIRST_S = 0.1  # an empty input has ended by then


@dataclass(frozen=True)
class ModelOpener:
    """How a command opens models: the options of the machine, of the network and of messages."""

    machine: Machine
    network: Network
    messages: Messages

    @property
    def settings(self) -> dict[str, Any]:
        """The options as fields of EngineSettings."""
        given = {name: getattr(self.machine, name) for name in self.machine.__dataclass_fields__}
        slots = None if self.machine.slots == "auto" else int(self.machine.slots)
        return {**given, "slots": slots, "offline": self.network.offline}

    @contextmanager
    def model(self, model: str | None, variant: str, **more: Any) -> Iterator[TTS]:
        """The open model. `variant` completes a bare size: custom_voice, base or voice_design. `more`: other fields of
        EngineSettings.
        """
        name, device = model or EMBEDDED, self.machine.device
        words = f"loading {name}{'' if device == 'auto' else f' on {device}'} ..."
        settings = {**self.settings, **more}
        if console.verbose:
            given = ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)
            console.detail(f"{words}\nsettings: {given}")
        with Progress(f"downloading {name}", self.messages.progress) as progress, without_collector():
            if progress.style == "bar":
                progress.draw(words)
            arriving = partial(_arriving, progress)
            spoken = tts.load(name, variant=variant, fetching=arriving, tell=console.notice, **settings)
        try:
            yield spoken
        finally:
            spoken.close()

    def served(self, via: str, model: str | None, variant: str) -> "RemoteTTS | None":
        """The model on a running server; None to open it here. `via`: auto, off, or the URL of a server."""
        if via == "off" or (via == "auto" and not server_socket().exists()):
            return None
        from omnitts_cli.speech import remote, servers

        def local() -> TTS:
            return tts.load(model or EMBEDDED, variant=variant, tell=console.notice, **self.settings)

        if via != "auto" and servers.Address.of(via, "--via").tells_key:
            console.warning(
                f"{API_KEY} goes to {via} unencrypted: everyone on the way can read it", hint="--via https://..."
            )
        if self.network.offline and via != "auto" and not servers.Address.of(via, "--via").loopback:
            raise UsageError("--offline cannot be used with a server on another machine", hint="--via off")
        asked = {name: getattr(self.machine, name) for name in ("device", "dtype", "exact")}
        served = remote.connect(via, model, variant, **asked, local=local)
        if served is not None:
            console.detail(f"speaking through {served.via}")
        return served

    def of_voice(self, speech: Speech, via: str = "off") -> AbstractContextManager[TTS]:
        """The model of a voice, as `say` opens it."""
        model, variant, saved = model_for(speech)
        if saved is not None and saved.adapter is not None:
            return self.model(model, variant, voice=saved)
        return self.served(via, model, variant) or self.model(model, variant)


@dataclass(frozen=True)
class Job:
    """The speech of one command."""

    command: str
    words: list[str] | None
    text: TextIn
    speech: Speech
    output: Results
    opener: ModelOpener
    live: bool = False
    takes: tuple[Results, ...] = ()  # the outputs of several takes; the first is `output`
    texts: tuple[TextIn, ...] = ()  # of these takes, where each has a text of its own and the same seed
    names_outputs: bool = False  # file names were chosen by us, so they are printed on stdout
    karaoke: bool = False  # the words are shown as they are played
    keeps_voice: bool = False  # the voice itself is wanted, not only its speech

    def script(self) -> tuple[Script, Iterator[str] | None]:
        """The pieces to speak, and for live speech the arriving text."""
        if self.live and not self.output.dry_run:
            return Fed(), live_texts(self.words, self.text, self.command)
        return open_script(self.words, self.text, self.known_language(), self.command), None

    def known_language(self) -> str | None:
        """The code that `-l` gave."""
        return self.speech.language if self.speech.language in LANGUAGES else None

    @contextmanager
    def opened(self, variant: str, model: str | None = None, voice: Voice | None = None) -> "Iterator[Ready | None]":
        """Opens the model after everything else has been checked; None if none is needed.

        `variant` completes a bare size such as 0.6b; `model` is the one that a saved voice brings along. A tuned
        `voice` is merged into it.
        """
        if self.output.audio_device == "list":
            sound_out.list_speakers()
            yield None
            return
        if self.speech.max_frames is not None and self.speech.max_seconds is not None:
            raise UsageError("use either --max-frames or --max-seconds, not both", hint="leave one of them out")
        tuned = voice if voice is not None and voice.adapter is not None else None
        wanted, via = self.speech.model or model, self.via(tuned is not None)
        script, texts = self.script()
        if self.output.dry_run:
            name = wanted or EMBEDDED
            rehearse(script, name, variant, self.text, self.known_language())
            for text in self.texts[1:]:
                rehearse(replace(self, text=text).script()[0], name, variant, text, self.known_language())
            yield None
            return
        if self.text.file or self.text.lexicon or self.output.subs or self.output.codes:
            self.refuse_overwriting()
            self.confirm_length()
        with ExitStack() as closing:
            served = self.opener.served(via, wanted, variant)
            rate = served.sample_rate if served else sample_rate(wanted or EMBEDDED, variant)
            with held():  # a signal between these two lines would leave a temporary file
                stage = self.stage(rate)
                closing.push(lambda kind, error, trace: abandon(stage, error))
            subs, codes = self.side_files(closing)
            script.peek(FIRST_S)  # an empty one is refused now
            tts = closing.enter_context(served or self.opener.model(wanted, variant, patient=stage.safe, voice=tuned))
            sound_out.require_rate(rate, tts.sample_rate)
            yield Ready(self, tts, stage, subs, codes, script, texts)

    def refuse_overwriting(self) -> None:
        """Refuses outputs that are also inputs, before anything is opened."""
        read = [name for text in (self.text, *self.texts) for name in (*text.file, *text.lexicon)]
        for output in self.takes or (self.output,):
            sound_out.refuse_overwriting(output, read)

    def confirm_length(self) -> None:
        """Says how long the speech of files will be, and asks if it is very long. `play` can be stopped at any time."""
        if self.command == "play":
            return
        seconds = sum(map(length.seconds_of_files, self.texts or (self.text,))) / self.speech.speed
        seconds *= 1 if self.texts else max(len(self.takes), 1)
        length.confirm(seconds, self.output.max_hours, self.opener.messages)
        length.tell(seconds)

    def via(self, tuned: bool = False) -> str:
        """--via; off where a server cannot do what is asked."""
        wanted = {"--live": self.live, "--codes": self.output.codes, "--save-voice": self.keeps_voice,
                  "a tuned voice": tuned}  # fmt: skip
        only_here = next((name for name, given in wanted.items() if given), None)
        if only_here and self.output.via not in ("auto", "off"):
            raise UsageError(f"{only_here} cannot be used with --via {self.output.via}", hint="--via off")
        return "off" if only_here else self.output.via

    def stage(self, rate: int) -> Stage:
        """The output for the model's sample rate, with --loudness applied."""
        try:
            stage = sound_out.open_stage(self.output, rate)
        except DeviceError as error:
            if self.command != "play" or self.output.audio_device:
                raise
            path = self.output.output or "speech.wav"
            hint = f'omnitts say "text" -o {path}   writes a file instead; omnitts doctor shows more'
            raise DeviceError(error.message, cause=error.cause, hint=hint) from None
        if self.speech.loudness != "off":
            stage.sink = LoudnessSink(stage.sink, float(self.speech.loudness), rate)
        elif console.json:
            stage.meter = Meter(rate)
        return stage

    def side_files(self, closing: ExitStack) -> tuple[SubtitleFiles | None, SideFile | None]:
        """The files of --subs and --codes, which are removed unless they are completed."""
        subs = codes = None
        if self.output.subs:
            subs = sound_out.SubtitleFiles(self.output, self.speech.language, offline=self.opener.network.offline)
            closing.callback(subs.discard)
        if self.output.codes == "-":
            raise UsageError("only sound can go to stdout", hint="--codes FILE")
        if self.output.codes:
            codes = sound_out.SideFile(self.output.codes, no_clobber=self.output.no_clobber)
            closing.callback(codes.discard)
        return subs, codes


@dataclass
class Ready:
    """An open model and its outputs."""

    job: Job
    tts: TTS
    stage: Stage
    subs: SubtitleFiles | None
    codes: SideFile | None
    script: Script
    texts: Iterator[str] | None

    def speak(self, voice: Voice | str | None, speech: Speech) -> None:
        """Speaks everything and reports the result."""
        job = self.job
        stream = self.stream(voice, speech)
        self.write(stream)
        if self.subs:
            self.subs.write_times(stream.account.sentences)
        if self.codes:
            self.codes.write(sound_out.codes(stream.account, self.tts.engine.model.facts.groups))
        sound_out.report(job.command, speech, self.tts, self.stage, stream, named=job.names_outputs)
        for take in range(1, len(job.takes)):
            self.another(take, voice, replace(speech, seed=stream.seed + (0 if job.texts else take)))

    def another(self, take: int, voice: Voice | str | None, speech: Speech) -> None:
        """Speaks the next take: with another seed, or another text, into an output of its own."""
        text = self.job.texts[take] if self.job.texts else self.job.text
        job = replace(self.job, output=self.job.takes[take], text=text)
        stage = job.stage(self.tts.sample_rate)
        with ExitStack() as closing:
            closing.push(lambda kind, error, trace: abandon(stage, error))
            script, texts = job.script()
            again = replace(self, job=job, stage=stage, script=script, texts=texts)
            stream = again.stream(voice, speech)
            again.write(stream)
            sound_out.report(job.command, speech, self.tts, stage, stream, named=job.names_outputs)

    def stream(self, voice: Voice | str | None, speech: Speech) -> Stream:
        return self.tts.open(
            self.script, voice, self.job.text, speech,
            words=self.texts, safe=self.stage.safe, keep_codes=self.codes is not None, tell=console.notice,
        )  # fmt: skip

    def write(self, stream: Stream) -> None:
        """Writes the stream to the sink; finished sentences are kept whatever happens."""
        job, stage = self.job, self.stage
        playing, style = job.command == "play", job.opener.messages.progress
        with Progress("playing" if playing else "speaking", style) as progress, ExitStack() as closing:
            closing.callback(stream.close)
            player = Player(stage, stream)
            look = partial(sound_out.tell, progress, self.script, stream)
            timed = [self.subs.timed] if self.subs and self.subs.timed else []
            if playing:
                player.listens = closing.enter_context(pressed(player.act))
                if job.karaoke and not timed:
                    timed.append(sound_out.TimedWords(sound_out.word_timing(job.output, job.speech.language)))
                shown = timed[0] if job.karaoke else None
                look = partial(sound_out.tell_playing, progress, self.script, stage, stream, player, shown)
            closing.enter_context(ticking(look))
            try:
                for chunk in stream:
                    with held():
                        stage.write(chunk.samples)
                        if chunk.sentence is not None:
                            stage.sink.sentence_done()
                    for one in timed:
                        one.add(chunk)
                    look()
                stage.sink.finish()
            except (OmniError, Stopped) as error:
                if player.quit and isinstance(error, DeviceError):  # q has stopped playback
                    return
                raise rescued(error, stage) from None
        for notice in stage.sink.notices:
            console.warning(notice)


def rescued(error: OmniError | Stopped, stage: Stage) -> OmniError | Stopped:
    """Keeps the finished sentences; returns the error."""
    unwritten = stage.sink.unwritten
    try:
        kept = stage.sink.interrupt()
    except (OutputError, BrokenPipeError):
        return error
    if isinstance(error, Stopped):
        error.word += f"; finished sentences are in {kept}" if kept else not_written(unwritten)
    elif kept:
        console.note(f"finished sentences are in {kept}")
    return error


def abandon(stage: Stage, error: BaseException | None) -> None:
    """Discards an output that was not finished. After a signal, the message says so."""
    if isinstance(error, Stopped):
        error.word += not_written(stage.sink.unwritten)
    stage.sink.discard()


def not_written(path: Path | None) -> str:
    return f"; {path} was not written" if path else ""


def _arriving(progress: Progress, news: "DownloadProgress") -> None:
    from omnitts_cli.cli.models import tell

    tell(progress, news)


@contextmanager
def without_collector() -> Iterator[None]:
    """Switches garbage collection off during the start, and excludes what the start has made from later collections.

    These objects live until the process exits. Collecting while torch is imported takes a fifth of the import's
    processor time, and most of the time that the process needs to exit.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def model_for(speech: Speech) -> tuple[str | None, str, Voice | None]:
    """The model and the variant for a voice, and the voice if it is a saved one: that selects its own model."""
    if (saved := saved_voice(speech.voice)) is None:
        return speech.model, "custom_voice", None
    return speech.model or model_of(saved.about, saved.name), "base", saved
