"""TTS: an open model that speaks. Used by the command line, the bench and Python programs."""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self, overload

import numpy as np

from omnitts_cli.audio.loudness import level
from omnitts_cli.audio.spectrum import as_loud, gains_between, levels
from omnitts_cli.errors import Notice, OmniError, UsageError
from omnitts_cli.request import COLDEST, Request, Sampling
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.settings.layers import Layers
from omnitts_cli.settings.setting import fields_of, former_names, nearest
from omnitts_cli.settings.table import SHARED, Machine, Network, Speech, TextIn
from omnitts_cli.speech import voice_files, voices
from omnitts_cli.speech.clip import Chunk, Clip
from omnitts_cli.speech.live import LiveStream
from omnitts_cli.speech.loop import Loop, SpeechEngine, require_process
from omnitts_cli.speech.script import Fed, Script, Written
from omnitts_cli.speech.speaking import Manner, Stream, Tell
from omnitts_cli.speech.voices import Voice, VoiceLike
from omnitts_cli.text import inputs
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.lexicon import load_lexicon
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.reading import language_readers
from omnitts_cli.voices import Cloned, Designed
from omnitts_cli.weights.fetch import Report

if TYPE_CHECKING:
    from omnitts_cli.speech.reference import Reference

TRIAL, TRIAL_SEED = "The small boat drifted past the old stone bridge. A warm wind blew the leaves across the yard.", 7
"""What a clone says to show how bright or dark it is. Half of it shows less: see benchmarks/log/voice.md."""
MOST_DB = 8.0  # that a clone's bands are raised or lowered
AHEAD = 4  # pieces split ahead, so that no slot waits for the splitter
NOT_HERE = ("file", "model", "voice")
"""Settings of these groups that are not options of `speak`, because they are parameters or belong to `load`."""

CLIP_OPTIONS = ("pad", "check", "transcribe", "asr_model", "offline")
FILE_OPTIONS = ("start", "end", *CLIP_OPTIONS)
"""Options of `clone` for a Clip, and for files."""

Audio = str | PathLike[str] | Clip | bytes | BinaryIO | tuple[Any, int]

__all__ = ["TTS", "Chunk", "Clip", "Voice", "load"]


def load(
    model: str | PathLike[str] = EMBEDDED,
    *,
    variant: str = "custom_voice",
    device: str = "auto",
    dtype: str = "auto",
    slots: int | None = None,
    settings: bool = False,
    voice: VoiceLike | None = None,
    fetching: Report | None = None,
    tell: Tell | None = None,
    **machine: Any,
) -> TTS:
    """Opens a model and returns it as a TTS, which can be used with `with`.

    model: a name such as "tiny" or "0.6b", a folder, or "hf:ORG/REPO@REVISION".
    variant: which model a bare size such as "0.6b" stands for: custom_voice, base (clones) or voice_design.
    device: "auto", "cpu", "cuda", "cuda:1", "npu:0" ...
    dtype: "auto", "fp32", "bf16", "fp16" or, on a CPU, "q8".
    slots: requests in one batch; by default what suits the device.
    settings: also read settings files and OMNITTS_ variables. They are then the defaults of `speak` too.
    voice: the default voice. A tuned one needs this, as the model is opened for it.
    fetching: called with the progress of a download.
    tell: called with each Notice as it occurs.
    machine: further options: threads, first_chunk and chunk (frames), offline (no network call), exact (see
    `omnitts help speed`), seconds (the longest speech of one request).

    Raises an OmniError that has a message, and often a cause and a hint.
    """
    given = {"device": device, "dtype": dtype, "slots": slots, **machine}
    defaults: dict[str, Any] = {}
    name = fspath(model)
    if settings:
        name, given, defaults = with_settings(name, given)
    notices: list[Notice] = []

    def note(notice: Notice) -> None:
        notices.append(notice)
        if tell:
            tell(notice)

    from omnitts_cli.speech import load as loading  # imports torch

    if isinstance(voice, str | PathLike):
        voice = voices.saved_voice(fspath(voice)) or voice
    adapter = None
    if isinstance(voice, Voice) and voice.adapter is not None:
        adapter = voice.adapter
        name = name if name != EMBEDDED else voice_files.model_of(voice.about, voice.name) or name
    if voice is not None:
        defaults["voice"] = voice
    engine = loading.open_engine(name, variant=variant, report=fetching, tell=note, adapter=adapter, **given)
    if given["device"] == "auto" and (passed_over := loading.passed_over(engine.device)):
        slower = f"running on the CPU, which is many times slower: {passed_over.message}"
        note(Notice(slower, hint="omnitts doctor"))
    return TTS(Loop(engine), defaults=defaults, notices=notices)


def with_settings(name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The model, the engine settings and the defaults of `speak`, from the user's settings."""
    plain = EngineSettings()
    typed = {key: value for key, value in given.items() if value != getattr(plain, key, None)}
    known = [field for group in SHARED for field in fields_of(group)]
    layers = Layers("say", typed, known)
    values = {field.name: layers.value(field) for field in known}
    machine = {field.name: values[field.name] for group in (Machine, Network) for field in fields_of(group)}
    machine["slots"] = None if machine["slots"] == "auto" else machine["slots"]
    spoken = {field.name: values[field.name] for group in (TextIn, Speech) for field in fields_of(group)}
    chosen = values["model"] if name == EMBEDDED and values["model"] else name
    return chosen, {**machine, **typed}, {k: v for k, v in spoken.items() if k not in ("file", "model")}


class TTS:
    """An open model. Its methods may be called from several threads at once: one engine speaks for all of them.

    Options of `speak`, `stream` and `speak_all` have the names of the command's: language, style, speed, temperature,
    sentence_gap ... A voice is a name, a .voice file, a blend such as "a:60,b:40", or a Voice.
    """

    via = "local"
    """Where it speaks: in this process, or the address of a server."""

    def __init__(
        self,
        engine: SpeechEngine,
        *,
        defaults: Mapping[str, Any] | None = None,
        notices: Sequence[Notice] = (),
    ) -> None:
        self.engine = engine
        self.sample_rate: int = engine.model.facts.sample_rate  # of all speech
        self.notices = list(notices)  # of opening it
        self._defaults = dict(defaults or {})
        self._voice = self._defaults.pop("voice", None)
        self._finalizer = weakref.finalize(self, engine.close)

    def __repr__(self) -> str:
        return f"<TTS: {self.engine.model.name} on {self.engine.device.name}, {self.engine.plan.slots} slots>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all streams and the engine's thread."""
        self._finalizer()

    @property
    def voices(self) -> tuple[str, ...]:
        """Returns the names of the model's own voices and of the saved ones."""
        saved = voice_files.names() if "cloned" in self.engine.model.kinds else []
        return tuple(dict.fromkeys([*self.engine.model.speakers, *saved]))

    @property
    def languages(self) -> tuple[str, ...]:
        """Returns the codes of the languages that the model speaks: "en", "zh" ..."""
        return tuple(code for code, name in LANGUAGES.items() if name in self.engine.model.languages)

    # ---- speaking

    def speak(
        self, text: str, *, voice: VoiceLike | None = None, seed: int | None = None, tell: Tell | None = None,
        **options: Any,
    ) -> Clip:  # fmt: skip
        """Returns the speech of a text of any length as one Clip. Sentences are checked, and retried if necessary.

        Options, as in `omnitts say --help-all`: language, style, speed, wpm, volume, loudness, temperature, top_p,
        top_k, repetition_penalty, input_format, encoding, split, sentence_gap, paragraph_gap, lexicon, normalize,
        unreadable, text_mode, max_frames, max_seconds, retries, safe.
        """
        how, speech = self._options(seed, options)
        clip = self._stream(text, voice, how, speech, tell, safe=True, urgent=False).clip()
        if speech.loudness == "off":
            return clip
        samples, notices = level(clip.samples, clip.sample_rate, float(speech.loudness))
        return replace(clip, samples=samples, notices=(*clip.notices, *map(Notice, notices)))

    def stream(
        self, text: str | Iterable[str], *, voice: VoiceLike | None = None, seed: int | None = None,
        tell: Tell | None = None, **options: Any,
    ) -> Stream:  # fmt: skip
        """Returns an iterator of Chunks, the first as soon as there is sound. Leaving the loop early frees its slots.
        The options are those of `speak`, except loudness.

        Text that is still arriving, such as the output of a language model, is an iterable of strings.
        """
        how, speech = self._options(seed, options)
        if speech.loudness != "off":
            raise UsageError("loudness needs the whole sound", hint="tts.speak(text, loudness=-16)")
        return self._stream(text, voice, how, speech, tell, safe=False, urgent=True)

    @overload
    def speak_all(
        self, texts: Iterable[str], *, voice: VoiceLike | None = None, seed: int | None = None,
        errors: Literal["raise"] = "raise", **options: Any,
    ) -> list[Clip]: ...  # fmt: skip

    @overload
    def speak_all(
        self, texts: Iterable[str], *, voice: VoiceLike | None = None, seed: int | None = None,
        errors: Literal["return"], **options: Any,
    ) -> list[Clip | OmniError]: ...  # fmt: skip

    def speak_all(
        self, texts: Iterable[str], *, voice: VoiceLike | None = None, seed: int | None = None,
        errors: Literal["raise", "return"] = "raise", **options: Any,
    ) -> list[Clip] | list[Clip | OmniError]:  # fmt: skip
        """Returns a Clip for each text, in order, generated together. Text number n uses `seed` + n.

        The first text that cannot be spoken ends the work, and its error is raised. With errors="return" the others go
        on, and the list has the OmniError in the place of its clip.
        """
        if errors not in ("raise", "return"):
            raise UsageError(f"errors = {errors!r} is not 'raise' or 'return'", hint="correct errors=")
        if isinstance(texts, str):
            raise UsageError("speak_all() takes several texts, not one string", hint="tts.speak(text)")
        first = secrets.randbits(31) if seed is None else self._checked(seed)
        texts, failed = list(texts), threading.Event()

        def one(number: int, text: str) -> Clip | OmniError | None:
            if failed.is_set():
                return None
            try:
                return self.speak(text, voice=voice, seed=first + number, **options)
            except OmniError as error:
                if errors == "return":
                    return error
                failed.set()
                raise
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(self.engine.plan.slots, "omnitts speak_all") as pool:
            made = list(pool.map(one, range(len(texts)), texts))
        return [clip for clip in made if clip is not None]

    def clone(
        self,
        audio: Audio | Reference | Sequence[str | PathLike[str]],
        transcript: str | None = None,
        *,
        tell: Tell | None = None,
        **options: Any,
    ) -> Voice:
        """Returns the voice of a clip: a file, several files, a Clip, the bytes of a file, an open file, or samples and
        their rate. A transcript may improve the match (not with `tiny`).

        Options: start, end (seconds, of one file), pad, check, transcribe, asr_model, offline.
        """
        from omnitts_cli.speech import reference as references

        report = tell or (lambda notice: None)
        if isinstance(audio, references.Reference):
            return self._voice_of(audio)
        refuse_unknown("clone", options, CLIP_OPTIONS if isinstance(audio, Clip) else FILE_OPTIONS)
        if isinstance(audio, Clip):
            return self._voice_of(references.prepared(references.of_clip(audio), transcript, tell=report, **options))
        found = references.reference(references.sources(audio), transcript, tell=report, **options)
        return self._voice_of(found)

    def design(self, description: str, *, seed: int | None = None) -> Voice:
        """Returns a voice made from a description. Its seed is the default for speech in this voice.

        An empty description leaves the voice to the model.
        """
        voices.require("designed", self.engine.model)
        if not isinstance(description, str):
            raise UsageError(f"the description is {description!r}, not text", hint='tts.design("a deep, slow man")')
        return Voice(Designed(description), seed=None if seed is None else self._checked(seed))

    # ---- for the command line and other callers with their own script

    def open(
        self,
        script: Script,
        voice: VoiceLike | None,
        text: TextIn,
        speech: Speech,
        *,
        words: Iterator[str] | None = None,
        safe: bool,
        tell: Tell | None = None,
        notify: Callable[[], None] | None = None,
        ignore_end: bool = False,
        **more: Any,
    ) -> Stream:
        """Returns the speech of a script, or of text that is still arriving: `words`, or what the caller writes to the
        LiveStream if the script is a Fed. `safe`: unless `speech` says so.

        `notify` is called, in any thread, when `poll` may have more. `more` are fields of Manner.
        """
        model = self.engine.model
        report = tell or (lambda notice: None)
        who = self._voice_for(voice)
        live = isinstance(script, Fed)
        asked = "auto" if live and speech.language == "detect" else speech.language  # no text yet to detect it from
        language, code, foreign = voices.language_of(asked, script, model, report)
        readers = language_readers(
            model, code, text.normalize, certain=speech.language in LANGUAGES, parts=live, unreadable=text.unreadable,
            tell=report, watched=foreign.watched,
        )  # fmt: skip
        speech = speech if ignore_end else self._possible(speech, report)
        seed = speech.seed if speech.seed is not None else who.seed
        plan = self.engine.plan
        manner = Manner(
            request=self._request(who, language, speech, ignore_end),
            seed=secrets.randbits(31) if seed is None else seed,
            sentence_gap_s=text.sentence_gap / 1000,
            paragraph_gap_s=text.paragraph_gap / 1000,
            speed=speech.speed,
            volume_db=speech.volume,
            retries=speech.retries,
            safe=safe if speech.safe is None else speech.safe,
            longest=None if text.split == "none" else model.longest_piece,
            spoken_well=model.longest_piece,
            read=readers.read_in("") if live else None,
            readers=readers,
            **{"ahead": plan.slots + AHEAD, "first_alone": plan.first_alone, **more},
        )
        if live:
            return LiveStream(self.engine, self.sample_rate, manner, words, tell, notify)
        return Stream(self.engine, self.sample_rate, manner, script, tell, notify)

    def piece(
        self,
        text: str,
        voice: Voice,
        language: str | None,
        speech: Speech,
        *,
        notify: Callable[[], None] | None = None,
        **more: Any,
    ) -> Stream:
        """Returns the speech of one piece that another process has split and normalised, without retries and gaps.
        `account.stopped` tells whether it was cut. `notify` and `more` are as for `open`.
        """
        who = voices.voice_for(voice, self.engine.model)
        if language is not None:
            voices.refuse_foreign(language, self.engine.model)
        elif voices.one_of_several(self.engine.model):
            language = voices.likely_language(text, self.engine.model)
        request = self._request(who, language, speech)
        manner = Manner(request=request, seed=speech.seed or 0, retries=0, safe=False, **more)
        script = Written(iter([Piece(text, 0, len(text))]), len(text))
        return Stream(self.engine, self.sample_rate, manner, script, None, notify)

    def _voice_for(self, voice: VoiceLike | None) -> Voice:
        return voices.voice_for(voice, self.engine.model)

    def _voice_of(self, found: Reference) -> Voice:
        from omnitts_cli.speech.reference import cloned

        require_process(self.engine.process)
        voice = cloned(found, self.engine.model)
        return self._with_spectrum(voice, found) if self.engine.model.plain_letters else voice

    def _with_spectrum(self, voice: Voice, found: Reference) -> Voice:
        """The clone with a filter that gives it the spectrum of its clip: the talker can only be as bright or as dark
        as the voices it was taught. The clone speaks once to show what it lacks."""
        assert isinstance(voice.identity, Cloned)
        said = self.piece(TRIAL, voice, None, Speech(seed=TRIAL_SEED)).clip()
        has, wanted = levels(said.samples, said.sample_rate), levels(found.recording.sound, found.recording.rate)
        gains = as_loud(gains_between(has, wanted, MOST_DB), said.samples, said.sample_rate).round(1)
        return replace(voice, identity=replace(voice.identity, gains=gains.astype(np.float32)))

    def _request(self, voice: Voice, language: str | None, speech: Speech, ignore_end: bool = False) -> Request:
        """What all pieces of a speech have in common."""
        mode: Any = speech.text_mode
        most, sampling = cap(speech, self.engine.model.facts), sampling_of(speech)
        how = {"sampling": sampling, "text_mode": mode, "max_frames": most, "ignore_end": ignore_end}
        return Request("", voice.identity, language, speech.style, **how)

    def _stream(
        self,
        text: str | Iterable[str],
        voice: VoiceLike | None,
        how: TextIn,
        speech: Speech,
        tell: Tell | None,
        *,
        safe: bool,
        urgent: bool,
    ) -> Stream:
        live = not isinstance(text, str)
        if live and (isinstance(text, bytes) or not isinstance(text, Iterable)):
            raise UsageError(f"the text is {type(text).__name__}, not a string", hint='tts.speak("Hello there.")')
        script: Script = Fed() if live else script_of(text, how, speech.language)  # type: ignore[arg-type]
        return self.open(
            script, self._voice if voice is None else voice, how, speech,
            words=strings(text) if live else None, safe=safe, urgent=urgent, keep_codes=True, tell=tell,
        )  # fmt: skip

    def _possible(self, speech: Speech, report: Tell) -> Speech:
        """The settings without a limit of frames that no sentence can reach, which other servers' clients send."""
        wanted, most = speech.max_frames, self.engine.plan.frames
        if wanted is None or most is None or wanted <= most:
            return speech
        seconds = most / self.engine.model.facts.frame_rate
        report(Notice(f"a sentence can have {most:,} frames ({seconds:.0f} s) at most, not {wanted:,}"))
        return replace(speech, max_frames=None)

    def _checked(self, seed: int) -> int:
        checked = self._options(seed, {})[1].seed
        assert checked is not None
        return checked

    def _options(self, seed: int | None, options: Mapping[str, Any]) -> tuple[TextIn, Speech]:
        """The options, checked: how the text is read, and how it is spoken."""
        known = {f.name: f for group in (TextIn, Speech) for f in fields_of(group) if f.name not in NOT_HERE}
        former, values = former_names(known), dict(self._defaults)
        for key, value in {**options, "seed": seed}.items():
            name = former.get(key, key)
            refuse_unknown("speak", [name], known)
            if value is not None:
                values[name] = known[name].checked(value)
        return tuple(group(**{f.name: values[f.name] for f in fields_of(group) if f.name in values})
                     for group in (TextIn, Speech))  # type: ignore[return-value]  # fmt: skip


def refuse_unknown(method: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises UsageError for the first option that a method does not have."""
    names = list(known)
    for key in given:
        if key not in names:
            close = nearest(key, names)
            hint = f"did you mean {close}=?" if close else "options: " + ", ".join(names)
            raise UsageError(f"{method}() has no option '{key}'", hint=hint)


def strings(texts: Iterable[str]) -> Iterator[str]:
    """The same strings; UsageError for anything else."""
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(
                f"the text contains {type(text).__name__}; only strings can be spoken",
                hint="tts.stream(map(str, texts))",
            )
        yield text


def script_of(
    text: str, how: TextIn, language: str, lexicon: Iterable[tuple[str, str]] = (), most: int | None = None
) -> Script:
    """The pieces of a text that is all there. `lexicon`: more words and how they are spoken. `most`: the characters
    that the text may have with those.
    """
    known = language if language in LANGUAGES else None
    words = load_lexicon([Path(name) for name in how.lexicon], most)
    words.add(lexicon)
    options = inputs.TextOptions(how.split, known, None, words)  # type: ignore[arg-type]
    form = inputs.input_format(None, how.input_format)
    pieces = inputs.require_speech(inputs.pieces_of_text(text, options, form), text)
    return Written(pieces, len(text), options.notices)


def sampling_of(speech: Speech) -> Sampling:
    """The given sampling settings; the others stay the model's defaults."""
    given = {field.name: getattr(speech, field.name, None) for field in fields(Sampling)}
    if speech.temperature is not None and speech.temperature < COLDEST:  # greedy in every code group
        given["predictor_temperature"] = 0.0
    return Sampling(**given)


def cap(speech: Speech, facts: Any) -> int | None:
    """The maximum frames of a piece, if the user set a limit."""
    if speech.max_seconds is None:
        return speech.max_frames
    if speech.max_frames is not None:
        raise UsageError("use either --max-frames or --max-seconds, not both", hint="leave one of them out")
    # 2.32 s at 12.5 frames/s is 29 frames, despite rounding errors
    return max(1, int(speech.max_seconds * facts.frame_rate + 1e-6))
