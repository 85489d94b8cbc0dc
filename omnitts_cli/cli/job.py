"""Job: what say, clone, design and play have in common, from the text to the finished file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from omnitts_cli.cli import results, sound_out
from omnitts_cli.cli.engine_room import engine_for
from omnitts_cli.errors import DeviceError, OmniError, OutputError, UsageError
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.table import Machine, Messages, Network, Results, Speech, TextIn
from omnitts_cli.speech import normalize as reading
from omnitts_cli.speech import voices as cast
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, duration, size
from omnitts_cli.terminal.signals import Stopped, held
from omnitts_cli.text.language import LANGUAGES

if TYPE_CHECKING:
    from omnitts_cli.cli.sound_out import SideFile, Stage
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.speech.script import Script
    from omnitts_cli.speech.speaking import Account, Manner, Speaking
    from omnitts_cli.speech.tape import Tape
    from omnitts_cli.voices import Voice

VoiceOf = Callable[["Engine"], "Voice"]

CHARS_PER_S = 14.0  # of English speech; for --dry-run only
FIRST_S = 0.1  # /dev/null and the like have told by then that they are empty
AHEAD = 4  # pieces taken beyond those in the making, so that no slot waits for the splitter


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
    names_outputs: bool = False  # the names of the files are ours: they are told on stdout

    def perform(self, voice_of: VoiceOf, *, variant: str, model: str | None = None, style: str | None = None) -> None:
        """Text in, sound out. `voice_of` gets the open engine and says who speaks."""
        if self.output.audio_device == "list":
            return sound_out.list_speakers()
        if self.speech.max_frames is not None and self.speech.max_seconds is not None:
            raise UsageError("--max-frames and --max-seconds exclude each other", hint="leave one of them out")
        name = self.speech.model or model or EMBEDDED
        script, texts = self.script()
        if self.output.dry_run:
            return rehearse(script, name, variant, whole=self.whole)
        with ExitStack() as closing:
            with held():  # a signal between the two lines would leave a temporary file behind
                place = sound_out.reserve(self.output)
                closing.callback(lambda: place.sink.discard())  # of the sink that it will have by then
            subs, codes = self.side_files(closing)
            script.peek(FIRST_S)  # an empty one is told now
            engine = closing.enter_context(engine_for(name, variant, self.machine, self.network, self.messages))
            place = self.prepared(place, engine.model.facts.sample_rate)
            manner = self.manner(engine, place, script, voice_of(engine), style, keep_codes=codes is not None)
            account, tape = self.speak(engine, place, manner, script, texts)
            if subs:
                subs.write(results.subtitles(account, subs.path))
            if codes:
                codes.write(results.codes(account, engine.model.facts.groups))
            results.report(self, engine, place, account, tape, manner.request)
            for take in range(1, len(self.takes)):
                self.another(take, engine, manner)

    def another(self, take: int, engine: Engine, manner: Manner) -> None:
        """The same again with another seed, into another place."""
        job = replace(self, output=self.takes[take])
        place = job.prepared(sound_out.reserve(job.output), engine.model.facts.sample_rate)
        try:
            script, texts = self.script()
            account, tape = job.speak(engine, place, replace(manner, seed=manner.seed + take), script, texts)
            results.report(job, engine, place, account, tape, manner.request)
        finally:
            place.sink.discard()

    @property
    def whole(self) -> bool:
        """--split none: the text is spoken in one go, however long it is."""
        return self.text.split == "none"

    def script(self) -> tuple[Script, Iterator[str] | None]:
        """The pieces to speak; for live speech the text as it arrives instead."""
        from omnitts_cli.cli.text_in import live_texts, open_script
        from omnitts_cli.speech.script import Heard

        if self.live:
            return Heard(), live_texts(self.words, self.text, self.command)
        known = self.speech.language if self.speech.language in LANGUAGES else None
        return open_script(self.words, self.text, known, self.command), None

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
        from omnitts_cli.audio.loudness import LoudnessSink

        if rate != place.rate:
            place.sink.discard()
            place = sound_out.open_stage(self.output, rate)
        if self.speech.loudness != "off":
            place.sink = LoudnessSink(place.sink, float(self.speech.loudness), rate)
        return place

    def manner(
        self, engine: Engine, place: Stage, script: Script, voice: Voice, style: str | None, *, keep_codes: bool
    ) -> Manner:
        """How this command speaks; the seed is drawn here if none was given, and told in the result."""
        import secrets

        from omnitts_cli.request import Request, Sampling, drawable
        from omnitts_cli.speech.speaking import Manner

        speech = self.speech
        language, code = cast.language_of(speech.language, script, engine.model)
        sampling = Sampling(
            temperature=speech.temperature,
            top_k=speech.top_k,
            top_p=speech.top_p,
            repetition_penalty=speech.repetition_penalty,
            predictor_temperature=0.0 if drawable(speech.temperature) == 0 else None,  # greedy is so in every group
        )
        request = Request(
            text="",
            voice=voice,
            language=language,
            style=style,
            sampling=sampling,
            text_mode=speech.text_mode,  # type: ignore[arg-type]
            max_frames=cap(speech, engine.model.facts.frame_rate),
        )
        return Manner(
            request=request,
            seed=secrets.randbits(31) if speech.seed is None else speech.seed,
            sentence_gap_s=self.text.sentence_gap / 1000,
            paragraph_gap_s=self.text.paragraph_gap / 1000,
            retries=speech.retries,
            safe=place.safe if speech.safe is None else speech.safe,
            ahead=engine.plan.slots + AHEAD,
            keep_codes=keep_codes,
            longest=None if self.whole else engine.model.longest_piece,
            read=reading.reader(self.text.normalize, code, engine.model, parts=self.live),
        )

    def speak(
        self, engine: Engine, place: Stage, manner: Manner, script: Script, texts: Iterator[str] | None
    ) -> tuple[Account, Tape]:
        """The script through the engine to the stage; what was finished is kept whatever happens."""
        from omnitts_cli.audio.loudness import Meter
        from omnitts_cli.speech.live import LiveSpeaking
        from omnitts_cli.speech.speaking import Speaking
        from omnitts_cli.speech.tape import Tape

        meter = Meter(place.rate) if console.json else None
        tape = Tape(place.sink, place.rate, speed=self.speech.speed, volume_db=self.speech.volume, meter=meter)
        title = "playing" if self.command == "play" else "speaking"
        with Progress(title, self.messages.progress) as progress, ExitStack() as closing:
            messages = partial(results.tell, progress, script, place)
            if texts is None:
                speaking = Speaking(engine, tape, manner, messages)
            else:
                speaking = LiveSpeaking(engine, tape, manner, messages, texts)
            if self.command == "play":
                closing.enter_context(remote_control(place, speaking))
            try:
                account = speaking.speak(script)
                place.sink.finish()
            except (OmniError, Stopped) as error:
                if speaking.quit and isinstance(error, DeviceError):  # the loudspeaker was told to stop
                    return speaking.account, tape
                raise rescued(error, place) from None
        for notice in place.sink.notices:
            console.warning(notice)
        return account, tape


def cap(speech: Speech, frame_rate: float) -> int | None:
    """The most frames of a piece, if the person set a limit."""
    if speech.max_seconds is None:
        return speech.max_frames
    return max(1, int(speech.max_seconds * frame_rate + 1e-6))  # 2.32 s at 12.5 are 29 frames, whatever floats say


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


def remote_control(place: Stage, speaking: Speaking) -> AbstractContextManager[bool]:
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
            speaking.quit = True
            speaker.discard()

    return pressed(act)
