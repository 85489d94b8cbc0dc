"""Speaking: sends a script through the engine, many pieces at once, and yields them in order.

A piece that finishes early waits here for those before it. A piece that runs away or falls silent is retried with
another seed, as long as none of it has been yielded.
"""

import hashlib
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any, Self

import numpy as np

from omnitts_cli.audio.chunk import Stopped
from omnitts_cli.audio.tape import Tape
from omnitts_cli.errors import GuardError, Notice, TextError
from omnitts_cli.request import BULK, FIRST_SOUND, STREAMING, Failed, Request
from omnitts_cli.speech.clip import Chunk, Clip, join
from omnitts_cli.speech.loop import SpeechEngine, require_process
from omnitts_cli.speech.script import Script
from omnitts_cli.text.language import LANGUAGES
from omnitts_cli.text.pattern import WidePattern
from omnitts_cli.text.piece import Piece
from omnitts_cli.text.reading import LanguageReaders, Read, readings
from omnitts_cli.text.subtitles import Sentence, joined
from omnitts_cli.text.unreadable import HINT

SEED_BYTES = 6
SCRIPTS = itertools.count(1)
READ_AHEAD = 2  # pieces that are read and wait to be begun
Tell = Callable[[Notice], None]


@dataclass
class Take:
    """One piece in progress: its request, and the results so far."""

    number: int
    piece: Piece
    request: Request | None  # None: a pause
    name: str = ""  # request name in the loop, of the current attempt
    sound: deque[np.ndarray] = field(default_factory=deque)
    codes: list[np.ndarray] = field(default_factory=list)
    seconds: float = 0.0
    frames: int = 0
    tries: int = 0
    yielded: bool = False  # some of its sound
    began_s: float | None = None  # position in the yielded sound
    done: bool = False
    stopped: Stopped | None = None


@dataclass
class Account:
    """The state of a script so far."""

    seed: int
    pieces: int = 0
    chars: int = 0
    retries: int = 0
    guard_hits: int = 0
    stopped: str = "end"
    began: float = field(default_factory=lambda: time.perf_counter())
    queued_s: float | None = None  # until the engine got the first piece
    first_sound_s: float | None = None
    wall_s: float = 0.0
    frames: int = 0
    tokens: int = 0  # of text
    sentences: list[Sentence] = field(default_factory=list)
    codes: list[np.ndarray] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


@dataclass(frozen=True)
class Manner:
    """How a script is spoken: the settings that all requests share, and the gaps between them."""

    request: Request
    seed: int
    sentence_gap_s: float = 0.25
    paragraph_gap_s: float = 0.6
    speed: float = 1.0
    volume_db: float = 0.0
    retries: int = 2
    safe: bool = True
    ahead: int = 8
    ahead_s: float = math.inf  # start no further piece while this much finished sound is waiting
    first_alone: bool = False  # unless `safe`, the second piece is begun when the first has sound
    urgent: bool = False  # someone listens: served before other requests if more are waiting than there are slots
    client: str = ""  # the slots are shared among clients
    keep_codes: bool = False
    whole_pieces: bool = False  # a piece is handed over when it is complete, so that its caller wakes up once
    read: Read | None = None  # normalises arriving text for the model
    readers: LanguageReaders | None = None  # normalise each piece of a written text in its language
    apart: bool = False  # `prepare` reads the text, in a thread of its own, and nothing else does
    longest: int | None = None  # characters of a piece; longer ones are split
    spoken_well: int | None = None  # characters that the model speaks well in one piece


SENTENCE_S, CHARS_PER_S = 0.4, 18.0
"""Estimates for English: seconds that a text of any length takes, and characters per second beyond them."""
CJK = WidePattern("[\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
LETTERS = 4  # a Chinese, Japanese or Korean character is assumed to take as long as this many letters


def estimated_s(text: str) -> float:
    """The estimated seconds of speech of a sentence or a short text."""
    letters = len(text) + (LETTERS - 1) * len(CJK.findall(text))
    return SENTENCE_S + letters / CHARS_PER_S


class Stream:
    """Speech as it is made: iterate over its chunks. Leaving the loop early, or `close`, frees its slots.

    `account` holds the state so far: seed, sentences with their times, notices, retries.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        rate: int,
        manner: Manner,
        script: Script,
        tell: Tell | None = None,
        notify: Callable[[], None] | None = None,
    ) -> None:
        self.sample_rate, self.account = rate, Account(manner.seed)
        self.manner = replace(manner, request=replace(manner.request, script=next(SCRIPTS)))
        self._engine, self._script, self._tell = engine, script, tell
        self._tape = Tape(rate, speed=manner.speed, volume_db=manner.volume_db)
        self._open: deque[Take] = deque()  # in the order of the script
        self._coming: deque[Take] = deque()  # begun on another thread, and not yet in `_open`
        self._news: SimpleQueue[Any] = SimpleQueue()
        self._post = self._news.put if notify is None else notifying(self._news.put, notify)
        self._ended = False
        self._unsaid = ""  # the first piece of which the model could read nothing
        script.notify = self._wake
        self._chunks = self._made()
        self._prepared: deque[tuple[Piece, list[tuple[Piece, str]]] | Exception] = deque()  # read, and not begun
        if manner.apart:
            self.prepare(1)
        self._read_on()
        self._refuse_nothing()  # before an answer begins

    @property
    def seconds(self) -> float:
        """Returns the seconds of sound yielded so far."""
        return self._tape.seconds

    @property
    def finished(self) -> bool:
        """Returns whether all sound has been generated."""
        return all(take.done for take in list(self._open))

    @property
    def made_s(self) -> float:
        """Returns the seconds of sound generated so far, including pieces that wait for their turn."""
        waiting = sum(samples.size for take in list(self._open) for samples in list(take.sound))
        return self._tape.seconds + waiting / self.sample_rate / self.manner.speed

    def made_chars(self) -> float:
        """Returns roughly how many characters of the text have been spoken."""
        waiting = [take for take in list(self._open) if take.request is not None]
        done = sum(len(sentence.text) for sentence in list(self.account.sentences))
        return done + sum(
            len(take.piece.text) if take.done else min(len(take.piece.text), take.seconds * CHARS_PER_S)
            for take in waiting
        )

    @property
    def seed(self) -> int:
        """Returns the seed that reproduces this speech."""
        return self.manner.seed

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # the garbage collector runs this in any thread at any point, also inside `Loop.submit`: no locks here
        if not self._ended:
            for take in (*self._coming, *self._open):
                if take.name:
                    self._engine.forget(take.name)

    def close(self) -> None:
        """Stops generation and frees the slots; the iteration ends. May be called from any thread."""
        self._ended = True
        for take in (*self._coming, *self._open):  # in this order: it may be on its way from one to the other
            if take.name:
                self._engine.cancel(take.name)
        self._wake()

    def clip(self) -> Clip:
        """Returns all of it as one clip."""
        parts = [chunk.samples for chunk in self]
        account = self.account
        codes = np.concatenate(account.codes) if account.codes else np.zeros((0, 0), np.int64)
        return Clip(
            join(parts), self.sample_rate, self.seed, tuple(joined(account.sentences)), tuple(account.notices), codes
        )

    # ---- for callers that do not block, such as an event loop

    @property
    def complete(self) -> bool:
        """Returns whether everything has been yielded, or the stream was closed."""
        # in this order: what is read last is in `_prepared` before the script has ended
        return self._ended or (self._script.ended and not self._prepared and not self._open)

    @property
    def hungry(self) -> bool:
        """Returns whether `prepare` should read on."""
        more = not self._ended and not self._script.ended and len(self._prepared) < READ_AHEAD
        return self.manner.apart and more and not any(isinstance(one, Exception) for one in list(self._prepared))

    def prepare(self, most: int = READ_AHEAD) -> None:
        """Reads the next pieces of the text, which may take long. In any thread, but in one at a time."""
        try:
            while len(self._prepared) < most and not self._ended and (found := self._next()) is not None:
                self._prepared.append(found)
        except Exception as error:  # raised where the speech is made
            self._prepared.append(error)

    @property
    def admitted(self) -> bool:
        """Returns whether the engine has, or had, one of its pieces."""
        if self.account.queued_s is not None or not self._open:
            return True
        return any(take.request is None or self._engine.admitted_at(take.name) is not None for take in self._open)

    @property
    def waiting_s(self) -> float:
        """Returns the seconds of sound that wait to be taken."""
        return sum(samples.size for take in self._open for samples in take.sound) / self.sample_rate

    def poll(self) -> Iterator[Chunk]:
        """Yields the chunks that are ready, without waiting. `notify` is called when there may be more."""
        moved = True
        while moved and not self._ended:
            self.take_news()
            silent = self.account.first_sound_s is None  # the first sound does not wait for the next piece
            moved = not silent and self._read_on()
            for samples, sentence in self._ready():
                moved = True
                if self.account.first_sound_s is None and samples.size:
                    self.account.first_sound_s = time.perf_counter() - self.account.began
                yield Chunk(samples, self.sample_rate, sentence)
            if silent:
                moved = self._read_on() or moved
        self._refuse_nothing()

    def _refuse_nothing(self) -> None:
        """Raises TextError at the end of a text of which the model could read nothing."""
        if self._unsaid and self._script.ended and not (self._prepared or self.account.pieces):
            raise TextError(f"nothing to speak: the model can read none of it: '{self._unsaid[:60]}'", hint=HINT)

    def take_news(self) -> None:
        """Takes what the engine has made so far."""
        while not self._news.empty():
            self._handle(self._news.get())

    def pause(self, paused: bool) -> None:
        """Stops or resumes generation; the slots stay taken."""
        for take in self._open:
            if take.name:
                (self._engine.pause if paused else self._engine.resume)(take.name)

    # ---- in the caller's thread

    def _made(self) -> Iterator[Chunk]:
        collected = False
        try:
            while not self._ended:
                yield from self.poll()
                if self.complete:
                    break
                require_process(self._engine.process)
                self._handle(self._news.get())
        except GeneratorExit:  # from the garbage collector, which must take no lock: `__del__` cancels
            collected = True
            raise
        finally:
            self.account.wall_s = time.perf_counter() - self.account.began
            if not collected:
                self.close()

    def _wake(self) -> None:
        self._post(None)

    def _read_on(self) -> bool:
        """Begins the pieces that are available while there is room. Returns whether there were any."""
        took = False
        while self._available and self._has_room:
            found = self._taken()
            if found is None:
                break
            took = True
            piece, parts = found
            for part, text in parts:
                self._take(part, text)
                self._unsaid = self._unsaid or (part.text if part.speech and not text else "")
            self.account.chars += len(piece.text)
        while self._script.notices:
            self._notice(Notice(self._script.notices.pop(0)))
        return took

    @property
    def _has_room(self) -> bool:
        """Whether another piece may begin. Beside the first one, it may delay the first sound."""
        manner = self.manner
        if manner.first_alone and not manner.safe and not self.account.frames:
            return all(take.done for take in self._open)
        return len(self._open) < manner.ahead and self.waiting_s < manner.ahead_s

    @property
    def _available(self) -> bool:
        """Whether there may be another piece."""
        return bool(self._prepared) if self.manner.apart else not self._script.ended

    def _taken(self) -> tuple[Piece, list[tuple[Piece, str]]] | None:
        """The next piece and its parts in words; None if there is none yet."""
        found = self._prepared.popleft() if self.manner.apart else self._next()
        if isinstance(found, Exception):
            raise found
        return found

    def _next(self) -> tuple[Piece, list[tuple[Piece, str]]] | None:
        piece = self._script.take(0.0)
        if piece is None:
            return None
        readers = self.manner.readers
        piece, read = readers.of(piece) if readers else (piece, self.manner.read)
        return piece, readings(piece, read, self.manner.longest)

    def _take(self, piece: Piece, text: str) -> None:
        request = replace(self.manner.request, text=text) if text else None
        if request is not None and piece.language:
            request = replace(request, language=LANGUAGES[piece.language])
        take = Take(self.account.pieces, piece, request, done=request is None)
        self._open.append(take)
        if request is not None:
            self.account.pieces += 1
            self._submit(take)

    def _submit(self, take: Take) -> None:
        assert take.request is not None
        post, tries = self._post, take.tries
        request = replace(take.request, seed=sub_seed(self.manner.seed, take.number, tries))
        take.name = self._engine.submit(
            request,
            together(post, take) if self.manner.whole_pieces else lambda found: post((take, tries, found)),
            priority=self._priority(take),
            client=self.manner.client,
        )
        if self._ended:  # closed in the meantime
            self._engine.cancel(take.name)

    def _priority(self, take: Take) -> int:
        if not self.manner.urgent:
            return BULK
        return FIRST_SOUND if take.number == 0 and not self.account.frames else STREAMING

    def _handle(self, news: Any) -> None:
        """Handles one result of a take; None only wakes the iteration."""
        if news is None:
            return
        take, tries, found = news
        if tries != take.tries:
            return
        if isinstance(found, Failed):
            raise found.error
        if isinstance(found, BaseException):  # the engine has stopped
            raise found
        if self.account.queued_s is None:
            admitted = self._engine.admitted_at(take.name)  # None if it had one chunk, with which it ended
            self.account.queued_s = (time.perf_counter() if admitted is None else admitted) - self.account.began
        take.sound.append(found.pcm)
        self.account.frames += len(found.codes)
        take.frames += len(found.codes)
        take.seconds += found.pcm.size / self.sample_rate
        if self.manner.keep_codes:
            take.codes.append(found.codes)
        if found.last:
            self.account.tokens += found.tokens
            take.name, take.stopped = "", found.stopped
            self._judge(take)

    def _judge(self, take: Take) -> None:
        """Decides whether a finished piece is yielded, cut or retried."""
        assert take.request is not None
        if self.manner.spoken_well and self.manner.longest is None and take.tries == 0:
            self._notice_length(len(take.request.text), self.manner.spoken_well)
        if take.stopped in (None, "end"):
            take.done = True
            return
        if take.stopped == "limit" and take.request.max_frames is not None:
            frames = take.frames
            self._notice(
                Notice(
                    f"sentence {take.number + 1} was cut at {frames} frame{'s' * (frames != 1)} ({take.seconds:.2f} s)",
                    kind="cut",
                )
            )
            self.account.stopped, take.done = "limit", True
            return
        self.account.guard_hits += 1
        if not take.yielded and take.tries < self.manner.retries:
            self.account.retries += 1
            self._again(take)
        elif self.manner.safe:
            raise self._gave_up(take)
        else:
            what = f"sentence {take.number + 1} {misbehaved(take)}; it was cut there"
            self._notice(Notice(what, cause=quoted(take), kind="guard"))
            self.account.stopped, take.done = str(take.stopped), True

    def _notice_length(self, found: int, well: int) -> None:
        """Warns about a piece that is too long, with --split none."""
        if found > well and not self.manner.request.ignore_end:
            what = f"{found} characters were spoken in one piece; beyond {well} this model may leave words out"
            self._notice(Notice(what, hint="leave --split none out", kind="length"))

    def _notice(self, notice: Notice) -> None:
        self.account.notices.append(notice)
        if self._tell:
            self._tell(notice)

    def _again(self, take: Take) -> None:
        take.sound.clear()
        take.codes.clear()
        take.tries, take.seconds, take.frames = take.tries + 1, 0.0, 0
        self._submit(take)

    def _gave_up(self, take: Take) -> GuardError:
        seeds = [str(sub_seed(self.manner.seed, take.number, n)) for n in range(take.tries + 1)]
        tries = "1 try" if len(seeds) == 1 else f"{len(seeds)} tries"
        return GuardError(
            f"sentence {take.number + 1} {misbehaved(take)} ({tries}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)})",
            cause=quoted(take),
            hint="--seed N   or --normalize, a longer sentence, a larger model (-m 1.7b)",
        )

    def _ready(self) -> Iterator[tuple[np.ndarray, Sentence | None]]:
        """Yields what is next in order: complete pieces if `safe`, else every chunk at once."""
        while self._open:
            take = self._open[0]
            if not take.done and (self.manner.safe or not take.sound):
                return
            if take.began_s is None:
                gap = take.piece.gap_s(self.manner.sentence_gap_s, self.manner.paragraph_gap_s) + take.piece.pause_s
                if (silence := self._tape.pause(gap)).size:
                    yield silence, None
                take.began_s = self._tape.seconds
            while take.sound:
                samples = take.sound.popleft()
                if samples.size:
                    take.yielded = True
                    yield self._tape.write(samples), None
            if not take.done:
                return
            self._open.popleft()
            if take.request is not None:
                rest = self._tape.end_piece()
                sentence = Sentence(take.began_s, self._tape.seconds, take.piece.as_written.strip())
                self.account.sentences.append(sentence)
                self.account.codes.extend(take.codes)
                yield rest, sentence


def together(post: Callable[[Any], None], take: Take) -> Callable[[Any], None]:
    """Posts the results of a take when the last one has come."""
    tries, held = take.tries, list[Any]()

    def collect(found: Any) -> None:
        held.append((take, tries, found))
        if getattr(found, "last", True):  # a failure is the last one too
            for news in held:
                post(news)
            held.clear()

    return collect


def notifying(put: Callable[[Any], None], notify: Callable[[], None]) -> Callable[[Any], None]:
    """`put`, then `notify`. Not a method, because a callback of the loop must not keep its stream alive."""

    def post(news: Any) -> None:
        put(news)
        notify()

    return post


def misbehaved(take: Take) -> str:
    """What went wrong with a piece, in words."""
    about = {"limit": "kept talking for", "stall": "got stuck after", "silence": "fell silent after"}
    return f"{about.get(str(take.stopped), 'stopped after')} {take.seconds:.0f} s"


def quoted(take: Take) -> str:
    """The beginning of a take's text, for messages."""
    text = take.piece.as_written
    return f'text "{text if len(text) <= 60 else text[:57] + "..."}"'


def sub_seed(seed: int, number: int, attempt: int) -> int:
    """The seed of one piece, from these three numbers only; `seed` itself for the first attempt at the first piece."""
    if number == attempt == 0:
        return seed
    digest = hashlib.blake2b(f"{seed} {number} {attempt}".encode(), digest_size=SEED_BYTES).digest()
    return int.from_bytes(digest, "big")
