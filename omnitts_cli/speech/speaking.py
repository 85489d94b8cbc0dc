"""Speaking: a script through the engine, many pieces at once, heard in their order.

The engine may finish the third piece first; it waits here. A piece that runs away or falls silent is
tried again with another seed, as long as nobody has heard it.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from omnitts_cli.audio.chunk import Chunk, Stopped
from omnitts_cli.errors import GuardError
from omnitts_cli.request import Failed, Request
from omnitts_cli.speech.script import Script
from omnitts_cli.speech.tape import Tape
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.signals import held
from omnitts_cli.text.reading import Read, readings

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.text.piece import Piece

PIPE_POLL_S = 0.25
SEED_BYTES = 6


@dataclass
class Take:
    """One piece on its way: its request, and what has come back of it."""

    number: int
    piece: Piece
    request: Request | None  # None: a pause
    sound: deque[np.ndarray] = field(default_factory=deque)
    codes: list[np.ndarray] = field(default_factory=list)
    seconds: float = 0.0
    tries: int = 0
    heard: bool = False
    started: bool = False
    done: bool = False
    stopped: Stopped | None = None


@dataclass
class Sentence:
    """What was said when, for subtitles and results."""

    text: str
    start: float
    end: float = 0.0


@dataclass
class Account:
    """What became of a script."""

    seed: int
    pieces: int = 0
    chars: int = 0
    retries: int = 0
    guard_hits: int = 0
    stopped: str = "end"
    began: float = field(default_factory=lambda: time.perf_counter())
    first_sound_s: float | None = None
    wall_s: float = 0.0
    sentences: list[Sentence] = field(default_factory=list)
    codes: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class Manner:
    """How a script is spoken: what every request has in common, and the silences between them."""

    request: Request
    seed: int
    sentence_gap_s: float = 0.25
    paragraph_gap_s: float = 0.6
    retries: int = 2
    safe: bool = True
    ahead: int = 8
    keep_codes: bool = False
    read: Read | None = None  # what becomes of a text before the model hears it
    longest: int | None = None  # letters that the model says well in one go


class Speaking:
    """One script, one engine, one tape."""

    def __init__(
        self, engine: Engine, tape: Tape, manner: Manner, tell: Callable[[Account, Tape], None] | None = None
    ) -> None:
        self.engine, self.tape, self.manner, self._tell = engine, tape, manner, tell
        self.account = Account(manner.seed)
        self.quit = False  # set by whoever has heard enough
        self._open: deque[Take] = deque()  # in the order of the script
        self._by_id: dict[str, Take] = {}

    def speak(self, script: Script) -> Account:
        """All of it. The sink is the caller's to finish."""
        while (self._open or not script.ended) and not self.quit:
            self._admit(script)
            if self.engine.busy:
                for news in self.engine.step():
                    self._hear(news)
            elif self._open and not self._open[0].done:
                raise RuntimeError(f"the engine has forgotten piece {self._open[0].number + 1}")
            self._emit()
            if self._tell:
                self._tell(self.account, self.tape)
        self.account.wall_s = time.perf_counter() - self.account.began
        return self.account

    def _admit(self, script: Script) -> None:
        """Takes pieces while there is room. Waits only when there is nothing else to do."""
        while not script.ended and len(self._open) < self.manner.ahead:
            piece = script.take(0.0 if self._open else PIPE_POLL_S)
            if piece is None:
                return
            for part, text in readings(piece, self.manner.read, self.manner.longest):
                self._take(part, text)
            self.account.chars += len(piece.text)

    def _take(self, piece: Piece, text: str) -> None:
        request = replace(self.manner.request, text=text) if text else None
        take = Take(self.account.pieces, piece, request, done=request is None)
        self._open.append(take)
        if request is not None:
            self.account.pieces += 1
            self._submit(take)

    def _submit(self, take: Take) -> None:
        assert take.request is not None
        name = f"{take.number}.{take.tries}"
        seed = sub_seed(self.manner.seed, take.number, take.tries)
        self._by_id[name] = take
        self.engine.submit(replace(take.request, id=name, seed=seed))

    def _hear(self, news: Chunk | Failed) -> None:
        take = self._by_id.get(news.request)
        if take is None:
            return
        if isinstance(news, Failed):
            raise news.error
        take.sound.append(news.pcm)
        take.seconds += news.pcm.size / self.tape.rate
        take.codes.append(news.codes)
        if news.last:
            self._by_id.pop(news.request)
            take.stopped = news.stopped
            self._judge(take)

    def _judge(self, take: Take) -> None:
        """Whether a piece that has ended may be heard as it is."""
        assert take.request is not None
        if take.stopped in (None, "end"):
            take.done = True
            return
        if take.stopped == "limit" and take.request.max_frames is not None:
            frames = take.request.max_frames
            console.warning(f"piece {take.number + 1} was cut at {frames} frames ({take.seconds:.2f} s)", kind="cut")
            self.account.stopped, take.done = "limit", True
            return
        self.account.guard_hits += 1
        if not take.heard and take.tries < self.manner.retries:
            self.account.retries += 1
            self._again(take)
        elif self.manner.safe:
            raise self._gave_up(take)
        else:
            console.warning(
                f"piece {take.number + 1} {misbehaved(take)}; it was cut there", cause=quoted(take), kind="guard"
            )
            self.account.stopped, take.done = str(take.stopped), True

    def _again(self, take: Take) -> None:
        take.sound.clear()
        take.codes.clear()
        take.tries, take.seconds = take.tries + 1, 0.0
        self._submit(take)

    def _gave_up(self, take: Take) -> GuardError:
        seeds = [str(sub_seed(self.manner.seed, take.number, n)) for n in range(take.tries + 1)]
        tries = "1 try" if len(seeds) == 1 else f"{len(seeds)} tries"
        return GuardError(
            f"piece {take.number + 1} {misbehaved(take)} ({tries}, seed{'s' * (len(seeds) > 1)} {', '.join(seeds)})",
            cause=quoted(take),
            hint="--normalize, a longer sentence, another --seed, or a larger model: -m 1.7b",
        )

    def _emit(self) -> None:
        """Hands over what is next in order: whole pieces where safe, every chunk at once where not."""
        while self._open:
            take = self._open[0]
            if not take.done and (self.manner.safe or not take.sound):
                return
            if not take.started:
                self._start(take)
            while take.sound:
                self._write(take)
            if not take.done:
                return
            self._finish(self._open.popleft())

    def _start(self, take: Take) -> None:
        take.started = True
        gap = take.piece.gap_s(self.manner.sentence_gap_s, self.manner.paragraph_gap_s)
        with held():
            self.tape.pause(gap + take.piece.pause_s)
        if take.request is not None:
            self.account.sentences.append(Sentence(take.piece.as_written, self.tape.seconds))

    def _write(self, take: Take) -> None:
        samples = take.sound.popleft()
        if not samples.size:
            return
        take.heard = True
        with held():
            self.tape.write(samples)
        if self.account.first_sound_s is None:
            self.account.first_sound_s = time.perf_counter() - self.account.began

    def _finish(self, take: Take) -> None:
        if take.request is None:
            return
        with held():
            self.tape.end_piece()
        sentence = self.account.sentences[-1]
        sentence.text, sentence.end = (
            take.piece.as_written.strip(),
            self.tape.seconds,
        )  # live words came later
        if self.manner.keep_codes:
            self.account.codes.extend(take.codes)


def misbehaved(take: Take) -> str:
    """What the guard saw."""
    about = {"limit": "kept talking for", "stall": "got stuck after", "silence": "fell silent after"}
    return f"{about.get(str(take.stopped), 'stopped after')} {take.seconds:.0f} s"


def quoted(take: Take) -> str:
    text = take.piece.as_written
    return f'text "{text if len(text) <= 60 else text[:57] + "..."}"'


def sub_seed(seed: int, number: int, attempt: int) -> int:
    """The seed of one piece: of these three numbers only. The first try of the first piece is the seed itself."""
    if number == attempt == 0:
        return seed
    digest = hashlib.blake2b(f"{seed} {number} {attempt}".encode(), digest_size=SEED_BYTES).digest()
    return int.from_bytes(digest, "big")


def numbers(account: Account, tape: Tape) -> dict[str, Any]:
    """The measured part of a result."""
    rtf = account.wall_s / tape.seconds if tape.seconds else None
    return {
        "audio_s": round(tape.seconds, 3),
        "wall_s": round(account.wall_s, 3),
        "rtf": None if rtf is None else round(rtf, 4),
        "ttfa_s": None if account.first_sound_s is None else round(account.first_sound_s, 3),
        "pieces": account.pieces,
        "chars": account.chars,
        "seed": account.seed,
        "retries": account.retries,
        "guard_hits": account.guard_hits,
        "stopped": account.stopped,
    }
