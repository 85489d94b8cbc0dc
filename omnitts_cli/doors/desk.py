"""Desk: texts of one host, spoken aloud one at a time. Several desks of a user take turns, by a lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from omnitts_cli.errors import DeviceError, OmniError, OutputError, UsageError, VoiceError
from omnitts_cli.settings.environment import is_private, server_socket
from omnitts_cli.settings.setting import nearest
from omnitts_cli.settings.table import Speech, TextIn

if TYPE_CHECKING:
    from omnitts_cli.audio.sinks import Sink
    from omnitts_cli.speech.speaking import Stream
    from omnitts_cli.speech.tts import TTS

MOST_QUEUED, LONGEST = 32, 20_000
POLL_S = 0.05
SHOWN = 100  # characters of a text in `status`
LOCK = "speaking.lock"


@dataclass(eq=False)
class DeskJob:
    """A text on its way to the loudspeaker."""

    text: str
    voice: str | None
    speed: float | None
    done: threading.Event = field(default_factory=threading.Event)
    progress: str = "queued"  # queued, waiting (for another program), speaking, spoken, failed
    stopped: bool = False
    seconds: float = 0.0
    error: OmniError | None = None
    stream: Stream | None = None
    sink: Sink | None = None

    @property
    def state(self) -> str:
        """The progress, or that it was stopped."""
        return "stopped" if self.stopped else self.progress

    def cancel(self) -> None:
        """Stops it, wherever it is."""
        if not self.done.is_set():
            self.stopped = True
            if self.stream is not None:
                self.stream.close()
            if self.sink is not None:
                self.sink.discard()


class Desk:
    """Speaks and saves. Its methods are the tools of a host, and may be called from several threads."""

    longest = LONGEST

    def __init__(
        self, opened: Callable[[], AbstractContextManager[TTS]], speaker: Callable[[int], Sink], speech: Speech,
        folders: Sequence[Path] = (), note: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self._open, self._speaker, self._speech, self._note = opened, speaker, replace(speech, loudness="off"), note
        self._folders = [folder.resolve() for folder in folders]
        self._closing, self._opening, self._turn = ExitStack(), threading.Lock(), threading.Condition()
        self._tts: TTS | None = None
        self._queue: deque[DeskJob] = deque()  # the first is being spoken
        self._closed, self._thread = False, threading.Thread(target=self._run, name="omnitts desk", daemon=True)
        self._thread.start()

    # ---- tools

    def speak(
        self, text: str, voice: str | None = None, speed: float | None = None, wait: bool = False,
        on_cancel: Callable[[Callable[[], None]], None] = lambda act: None,
    ) -> dict[str, Any]:  # fmt: skip
        """Queues a text; with `wait`, returns when it was heard."""
        job = DeskJob(required(text), self._known(voice), speed)
        with self._turn:
            if len(self._queue) >= MOST_QUEUED:
                raise UsageError(f"the queue is full: {MOST_QUEUED} texts", hint="wait, or call stop")
            self._queue.append(job)
            before = len(self._queue) - 1
            self._turn.notify_all()
        on_cancel(job.cancel)
        if not wait:
            return {"state": job.state, "before_it": before}
        job.done.wait()
        if job.error is not None:
            raise job.error
        return {"state": job.state, "seconds": round(job.seconds, 2)}

    def save(self, text: str, path: str, voice: str | None = None) -> dict[str, Any]:
        """Writes a text's speech to a new file in an allowed folder."""
        from omnitts_cli.audio.encode import choose_format
        from omnitts_cli.audio.sinks import FileSink

        place, tts = self._allowed(path), self._opened()
        stream = self._stream(required(text), self._known(voice), None, safe=True)
        form = choose_format(str(place), None, model_rate=tts.sample_rate, rate=None)
        with stream, FileSink(place, form, tts.sample_rate, no_clobber=True) as sink:
            for chunk in stream:
                sink.write(chunk.samples)
            sink.finish()
        return {"path": str(place), "seconds": round(stream.seconds, 2)}

    def list_voices(self) -> dict[str, Any]:
        """The voices and what is known of them."""
        tts = self._opened()
        about = tts.engine.model.speakers
        listed = [{"name": name, **({"about": about[name]} if about.get(name) else {})} for name in tts.voices]
        return {"voices": listed, "default": self._speech.voice or next(iter(about), None)}

    def stop(self) -> dict[str, Any]:
        """Ends all that was asked for."""
        with self._turn:
            jobs = [job for job in self._queue if not job.stopped]
        for job in jobs:
            job.cancel()
        return {"stopped": len(jobs)}

    def status(self) -> dict[str, Any]:
        """What is being done."""
        with self._turn:
            jobs = [{"state": job.state, "text": job.text[:SHOWN]} for job in self._queue]
        tts = self._tts
        return {"now": jobs[:1], "queued": jobs[1:], "folders": list(map(str, self._folders)),
                "model": tts.engine.model.name if tts else None, "through": tts.via if tts else None}  # fmt: skip

    def close(self) -> None:
        """Ends everything."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        self.stop()
        self._thread.join()
        self._closing.close()

    # ---- below

    def _known(self, voice: str | None) -> str | None:
        names = self._opened().voices
        if voice is not None and voice not in names:  # nor a path: a host names voices, not files
            close = nearest(voice, list(names))
            raise VoiceError(
                f"voice '{voice[:80]}' not found", hint=f"did you mean '{close}'?" if close else "call list_voices"
            )
        return voice or self._speech.voice

    def _allowed(self, path: str) -> Path:
        """The file that may be written."""
        from omnitts_cli.audio.encode import FORMATS

        if not self._folders:
            raise UsageError("no folder is allowed", hint="omnitts mcp --allow-folder DIR")
        if "\0" in path or not Path(path).name:
            raise UsageError(f"{path[:80]!r} is not the name of a file", hint="speech.wav")
        real = (self._folders[0] / path).resolve()  # an absolute path stays as it is; links are followed
        if not any(real.is_relative_to(folder) and real != folder for folder in self._folders):
            folders = ", ".join(map(str, self._folders))
            raise UsageError(f"'{path[:200]}' is outside the allowed folders", hint=f"a path in {folders}")
        if real.suffix.removeprefix(".").lower() not in FORMATS:
            raise UsageError(f"'{real.name[:80]}' does not have the suffix of a sound format", hint="speech.wav")
        if not real.parent.is_dir():
            raise OutputError(f"the folder {real.parent} does not exist", hint="choose a folder that exists")
        return real

    def _opened(self) -> TTS:
        """The model, which is opened by the first tool that needs it."""
        with self._opening:
            if self._tts is None:
                self._tts = self._closing.enter_context(self._open())
            return self._tts

    def _stream(self, text: str, voice: str | None, speed: float | None, *, safe: bool) -> Stream:
        from omnitts_cli.speech.tts import script_of

        how, speech = TextIn(), self._speech if speed is None else replace(self._speech, speed=speed)
        script = script_of(text, how, speech.language, most=LONGEST)
        return self._opened().open(script, voice, how, speech, safe=safe, urgent=not safe)

    def _run(self) -> None:
        """Speaks the texts in order, on a thread of its own."""
        while True:
            with self._turn:
                while not self._queue and not self._closed:
                    self._turn.wait()
                if not self._queue:
                    return
                job = self._queue[0]
            try:
                self._utter(job)
            except OmniError as error:
                if not job.stopped:
                    job.progress, job.error = "failed", error
                    self._note(error.message)
            except Exception as error:
                job.progress, job.error = "failed", DeviceError("internal error", cause=type(error).__name__)
                self._note(f"{type(error).__name__}: {error}")
            with self._turn:
                self._queue.popleft()
            job.done.set()

    def _utter(self, job: DeskJob) -> None:
        """Speaks one text, when it is this desk's turn."""
        with turn(job):
            if job.stopped:
                return
            job.progress = "speaking"
            job.stream = self._stream(job.text, job.voice, job.speed, safe=False)
            job.sink = self._speaker(job.stream.sample_rate)
            if job.stopped:  # in the meantime
                job.cancel()
            for chunk in job.stream:
                if chunk.samples.size and not job.stopped:
                    job.sink.write(chunk.samples)
            if not job.stopped:
                job.sink.finish()
            job.seconds, job.progress = job.stream.seconds, "spoken"


@contextmanager
def turn(job: DeskJob) -> Iterator[None]:
    """Waits until no other program of this user speaks, or the text is stopped, and keeps the others waiting."""
    folder = server_socket().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_private(folder):
        raise OutputError(f"other users can write to {folder}", hint=f"chmod go-w {folder}")
    lock = FileLock(folder / LOCK, thread_local=False)
    while not job.stopped:
        try:
            lock.acquire(timeout=POLL_S, poll_interval=POLL_S / 2)
            break
        except Timeout:
            job.progress = "waiting"
    try:
        yield
    finally:
        lock.release()


def required(text: str) -> str:
    """The text, if there is any."""
    if not text.strip():
        raise UsageError("the text is empty", hint="give the words to say")
    return text
