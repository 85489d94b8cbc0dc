"""Job: what say, clone and design have in common, from the text to the finished file."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnitts_cli.cli import cast, stage
from omnitts_cli.cli.console import console
from omnitts_cli.cli.engine_room import engine_for
from omnitts_cli.cli.options import LANGUAGES, Machine, Network, Results, Speech, Telling, TextIn
from omnitts_cli.cli.progress import Progress, duration
from omnitts_cli.cli.signals import Stopped
from omnitts_cli.errors import OmniError, OutputError

if TYPE_CHECKING:
    from omnitts_cli.cli.script import Script
    from omnitts_cli.cli.speaking import Account, Manner
    from omnitts_cli.cli.stage import SideFile, Stage
    from omnitts_cli.cli.tape import Tape
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.voices import Voice

VoiceOf = Callable[["Engine"], "Voice"]

CHARS_PER_S = 14.0  # of English speech; for --dry-run only
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
    telling: Telling

    def perform(self, voice_of: VoiceOf, *, variant: str, model: str | None = None, style: str | None = None) -> None:
        """Text in, sound out. `voice_of` gets the open engine and says who speaks."""
        if self.output.audio_device == "list":
            return stage.list_speakers()
        script = self.script()
        if self.output.dry_run:
            return rehearse(script)
        with ExitStack() as closing:
            place = stage.open_stage(self.output)
            closing.callback(lambda: place.sink.discard())
            subs, codes = self.side_files(closing)
            engine = closing.enter_context(
                engine_for(self.speech.model or model, variant, self.machine, self.network, self.telling)
            )
            place = self.at_rate(engine.model.facts.sample_rate, place)
            manner = self.manner(engine, place, voice_of(engine), style, keep_codes=codes is not None)
            self.speak(engine, place, manner, script, subs, codes)

    def script(self) -> Script:
        from omnitts_cli.cli.script import open_script

        return open_script(self.words, self.text, LANGUAGES.get(self.speech.lang), self.command)

    def side_files(self, closing: ExitStack) -> tuple[SideFile | None, SideFile | None]:
        """The open files of --subs and --codes, which vanish if nothing comes of them."""
        if self.output.subs:
            check_subs(self.output.subs)
        found = []
        for path in (self.output.subs, self.output.codes):
            file = stage.SideFile(path, no_clobber=self.output.no_clobber) if path else None
            if file:
                closing.callback(file.discard)
            found.append(file)
        return found[0], found[1]

    def at_rate(self, rate: int, place: Stage) -> Stage:
        """The stage for the model's own rate, where that is not the usual one."""
        if rate == place.rate:
            return place
        place.sink.discard()
        return stage.open_stage(self.output, rate)

    def manner(self, engine: Engine, place: Stage, voice: Voice, style: str | None, *, keep_codes: bool) -> Manner:
        """How this command speaks; the seed is drawn here if none was given, and told in the result."""
        from omnitts_cli.cli.speaking import Manner
        from omnitts_cli.request import Request, Sampling

        speech = self.speech
        sampling = Sampling(speech.temperature, speech.top_k, speech.top_p, speech.repetition_penalty)
        if speech.temperature == 0:
            sampling = Sampling(0.0, speech.top_k, speech.top_p, speech.repetition_penalty, predictor_temperature=0.0)
        request = Request(
            text="",
            voice=voice,
            language=cast.language_of(speech.lang, engine.model),
            style=style,
            sampling=sampling,
            text_mode=speech.text_mode,  # type: ignore[arg-type]
            max_frames=speech.max_frames,
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
        )

    def speak(
        self,
        engine: Engine,
        place: Stage,
        manner: Manner,
        script: Script,
        subs: SideFile | None,
        codes: SideFile | None,
    ) -> None:
        from omnitts_cli.cli.speaking import Speaking
        from omnitts_cli.cli.tape import Tape

        loudness = None if self.speech.loudness == "off" else float(self.speech.loudness)
        tape = Tape(place.sink, place.rate, speed=self.speech.speed, volume_db=self.speech.volume, loudness=loudness)
        with Progress("speaking", self.telling.progress) as progress:
            speaking = Speaking(engine, tape, manner, lambda account, tape: tell(progress, script, account, tape))
            try:
                account = speaking.speak(script)
                place.sink.finish()
            except (OmniError, Stopped) as error:
                raise rescued(error, place) from None
        for notice in place.sink.notices:
            console.warning(notice)
        if subs:
            subs.write(subtitles(account, subs.path.suffix))
        if codes:
            codes.write(packed_codes(account, engine.model.facts.groups))
        self.report(engine, place, account, tape)

    def report(self, engine: Engine, place: Stage, account: Account, tape: Tape) -> None:
        """What was made, for programs and for people."""
        from omnitts_cli.cli.speaking import numbers

        model = engine.model
        measured = numbers(account, tape)
        console.record(
            status="ok",
            command=self.command,
            output=place.shown,
            format=place.form.name,
            sample_rate=place.form.rate,
            channels=1,
            **measured,
            lang=self.speech.lang,
            voice=self.speech.voice,
            model=model.name,
            model_sha256=model.sha256,
            device=engine.device.name,
            dtype=str(model.dtype).removeprefix("torch."),
            peak_dbfs=round(tape.peak_dbfs, 1) if tape.peak else None,
            warnings=console.warnings,
            sentences=[
                {"i": i, "start": round(one.start, 3), "end": round(one.end, 3), "text": one.text}
                for i, one in enumerate(account.sentences)
            ],
        )
        where = f" in {place.path}" if place.path else ""
        rtf = f"  RTF {measured['rtf']:.3f}" if measured["rtf"] else ""
        if place.named:
            console.result(str(place.path))
        line = f"{duration(tape.seconds)} of speech{where}{rtf}  seed {account.seed}"
        (console.note if place.named else console.detail)(line)


def rehearse(script: Script) -> None:
    """--dry-run: the pieces, and how long they will be."""
    number, seconds = 0, 0.0
    while not script.ended:
        piece = script.take(0.25)
        if piece is None:
            continue
        expected = piece.pause_s or len(piece.text) / CHARS_PER_S
        number, seconds = number + 1, seconds + expected
        console.table([[str(number), f"{expected:.1f} s", piece.text or "(pause)"]])
        console.record(status="ok", piece=number, expected_s=round(expected, 2), text=piece.text)
    console.note(f"{number} pieces, about {duration(seconds)}")


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


def tell(progress: Progress, script: Script, account: Account, tape: Tape) -> None:
    import time

    wall = time.perf_counter() - account.began
    share = min(1.0, account.chars / script.chars) if script.chars else None
    if not tape.samples:
        return progress.update(share, f"{account.pieces} pieces", done_chars=account.chars, audio_s=0.0)
    speed = tape.seconds / wall
    left = wall / share - wall if share else None
    words = f"audio {duration(tape.seconds)}  {speed:.1f}× realtime  RTF {1 / speed:.3f}"
    words += f"  eta {duration(left)}" if left is not None else ""
    numbers: dict[str, Any] = {"audio_s": round(tape.seconds, 2), "speed_x": round(speed, 2)}
    progress.update(share, words, done_chars=account.chars, **numbers, eta_s=None if left is None else round(left, 1))


SUBTITLES = (".srt", ".vtt", ".json")


def check_subs(path: str) -> None:
    from omnitts_cli.errors import UsageError

    if not path.lower().endswith(SUBTITLES):
        raise UsageError(f"--subs {path} is none of {', '.join(SUBTITLES)}", hint="--subs speech.srt")


def subtitles(account: Account, suffix: str) -> bytes:
    """The times of the sentences as a subtitle file."""
    if suffix.lower() == ".json":
        rows = [{"start": round(s.start, 3), "end": round(s.end, 3), "text": s.text} for s in account.sentences]
        return (json.dumps(rows, ensure_ascii=False, indent=1) + "\n").encode()
    point = "," if suffix.lower() == ".srt" else "."
    blocks = []
    for number, one in enumerate(account.sentences, 1):
        times = f"{clock(one.start, point)} --> {clock(one.end, point)}"
        blocks.append(f"{number}\n{times}\n{one.text}\n")
    head = "" if point == "," else "WEBVTT\n\n"
    return (head + "\n".join(blocks)).encode()


def clock(seconds: float, point: str) -> str:
    """00:01:02,345"""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def packed_codes(account: Account, groups: int) -> bytes:
    """One tensor `codes` [frames, groups], pieces joined."""
    import numpy as np
    from safetensors.numpy import save

    return save({"codes": np.concatenate([np.zeros((0, groups), np.int64), *account.codes])})
