"""Verification: what a speech recogniser understood, compared with the text, and what else may be wrong with a take."""

import statistics
import threading
import unicodedata
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from omnitts_cli.audio.resample import resample
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text.reading import EXTRA, of_wetext
from omnitts_cli.text.spell_out import plain_letters

ASR_RATE = 16_000
SPAN_S = 25.0  # the recogniser gets about this much at a time, cut at ends of sentences
BY_CHARACTER = ("zh", "ja", "ko")
QUIET = 10 ** (-50 / 20)
LONGEST_SILENCE_S = 1.0  # inside speech, beyond the longest pause that was asked for
WINDOW_S = 0.02
TEMPO_ROWS = 20  # rows after which the usual number of words a second is known
TEMPOS = 500  # of which the usual number is the median
TEMPO = (0.5, 2.0)  # times the usual tempo
LEAST_WORDS = 3  # of a text whose tempo is compared


class Recogniser(Protocol):
    """Speech to words; called from several threads."""

    def words(self, sound: np.ndarray, language: str | None = None) -> str: ...


@dataclass(frozen=True)
class Alignment:
    """The cheapest alignment of the words of a text with those that were recognised."""

    errors: int
    words: int  # of the text
    added_before: tuple[str, ...] = ()  # what was understood before the text's first word
    last_missing: bool = False


@dataclass(frozen=True)
class Verdict:
    """What is known about one take. No reasons: it passed."""

    wer: float
    transcript: str
    reasons: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.reasons


class Verifier:
    """Checks takes in threads of its own."""

    def __init__(self, recogniser: Recogniser, max_wer: float, threads: int = 1) -> None:
        self.max_wer, self._recogniser = max_wer, recogniser
        self._pool = ThreadPoolExecutor(threads, "omnitts verify")
        self._tempos: defaultdict[str | None, deque[float]] = defaultdict(lambda: deque(maxlen=TEMPOS))
        self._lock = threading.Lock()

    def usual_tempo(self, language: str | None, own: float, *, good: bool) -> float | None:
        """The usual words a second of the takes so far, to which a good one is added; None before there are enough."""
        with self._lock:
            seen = self._tempos[language]
            usual = statistics.median(seen) if len(seen) >= TEMPO_ROWS else None
            if good:
                seen.append(own)
        return usual

    def transcribe(self, sound: np.ndarray, rate: int, text: str, language: str | None) -> Future["Span"]:
        return self._pool.submit(self._transcribe, sound, rate, text, language)

    def _transcribe(self, sound: np.ndarray, rate: int, text: str, language: str | None) -> "Span":
        hypothesis = self._recogniser.words(resample(sound, rate, ASR_RATE), language)
        return Span(
            hypothesis, aligned(words_of(text, language), words_of(hypothesis, language)), silences(sound, rate)
        )

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Span:
    """What was understood in a part of a take."""

    transcript: str
    alignment: Alignment
    silence_s: float  # the longest inside


@dataclass
class TakeCheck:
    """Collects the sound of one take; the recogniser gets it in spans of whole sentences."""

    verifier: Verifier
    rate: int
    language: str | None
    longest_pause_s: float
    speed: float
    clip_words: str | None
    _sound: list[np.ndarray] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _samples: int = 0
    _all: int = 0
    _spans: list[Future[Span]] = field(default_factory=list)

    def write(self, samples: np.ndarray) -> None:
        if samples.size:
            self._sound.append(samples)
            self._samples += samples.size
            self._all += samples.size

    def sentence(self, text: str) -> None:
        """Everything so far is whole sentences, the latest of which is `text`."""
        self._texts.append(text)
        if self._samples >= SPAN_S * self.rate:
            self._send()

    def _send(self) -> None:
        sound = np.concatenate(self._sound) if self._sound else np.zeros(1, np.float32)
        text = " ".join(self._texts)
        self._spans.append(self.verifier.transcribe(sound, self.rate, text, self.language))
        self._sound, self._texts, self._samples = [], [], 0

    def verdict(self) -> Verdict:
        """Waits for the recogniser."""
        if self._texts or not self._spans:
            self._send()
        return judged(self, [span.result() for span in self._spans])


def judged(take: TakeCheck, spans: Sequence[Span]) -> Verdict:
    errors = sum(span.alignment.errors for span in spans)
    words = sum(span.alignment.words for span in spans)
    wer = errors / max(words, 1)
    reasons = []
    if wer > take.verifier.max_wer:
        reasons.append("wer")
    if spans[-1].alignment.last_missing:
        reasons.append("last word missing")
    silence = max(span.silence_s for span in spans)
    if silence > take.longest_pause_s + LONGEST_SILENCE_S:
        reasons.append("silence inside")
    if leaked(spans[0].alignment.added_before, take.clip_words, take.language):
        reasons.append("words of the clip")
    if odd_tempo(take, words, good=not reasons):
        reasons.append("tempo")
    return Verdict(round(wer, 4), " ".join(span.transcript for span in spans).strip(), tuple(reasons))


def odd_tempo(take: TakeCheck, words: int, *, good: bool) -> bool:
    """Whether it is spoken much slower or faster than other rows."""
    seconds = take._all / take.rate * take.speed
    if words < LEAST_WORDS or not seconds:
        return False
    own = words / seconds
    usual = take.verifier.usual_tempo(take.language, own, good=good)
    return usual is not None and not TEMPO[0] <= own / usual <= TEMPO[1]


def leaked(added: Sequence[str], clip_words: str | None, language: str | None) -> bool:
    """Whether the take begins with words of the reference clip."""
    if not added or not clip_words:
        return False
    return added[-1] in words_of(clip_words, language)[-4:]


def silences(sound: np.ndarray, rate: int) -> float:
    """The longest silence between two sounds, in seconds; all of it if nothing is louder."""
    window = max(1, int(WINDOW_S * rate))
    whole = sound[: sound.size // window * window].reshape(-1, window)
    loud = np.flatnonzero(np.abs(whole).max(1, initial=0.0) > QUIET)
    if not loud.size:
        return float(sound.size / rate)
    return float(np.diff(loud).max(initial=1) - 1) * window / rate


def words_of(text: str, language: str | None) -> list[str]:
    """The words that are compared, or characters in scripts without spaces: small letters, numbers as words."""
    text = unicodedata.normalize("NFKC", text)
    if language in (None, "en"):
        text = in_english(text)
    elif language in EXTRA:
        text = with_wetext(text, language)
    text = unicodedata.normalize("NFC", text.casefold())
    kept = "".join(
        c if c.isalnum() or unicodedata.category(c).startswith("M") else " " if c not in "'’" else "" for c in text
    )
    if language in BY_CHARACTER:
        return [c for c in kept if c != " "]
    return kept.split()


def in_english(text: str) -> str:
    try:
        return plain_letters(text)
    except InputError:  # not English at all
        return text


def with_wetext(text: str, language: str) -> str:
    """Numbers as words, where wetext is installed; else digits stay digits on both sides."""
    try:
        return of_wetext(language)(text)
    except UsageError:
        return text


def aligned(text: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Levenshtein's distance in words. Of equally cheap ways, one that says most about both ends."""
    rows, columns = len(text), len(hypothesis)
    cost = np.zeros((rows + 1, columns + 1), np.int32)
    cost[:, 0], cost[0] = np.arange(rows + 1), np.arange(columns + 1)
    known = {word: number for number, word in enumerate(dict.fromkeys([*text, *hypothesis]))}
    numbers = np.array([known[word] for word in hypothesis], np.int64)
    steps = np.arange(columns + 1)
    for row in range(1, rows + 1):
        differs = numbers != known[text[row - 1]]
        best = np.minimum(cost[row - 1, 1:] + 1, cost[row - 1, :-1] + differs)
        line = np.concatenate([[row], best]) - steps
        cost[row] = np.minimum.accumulate(line) + steps  # insertions, along the row
    errors = int(cost[rows, columns])
    last_missing = rows > 1 and int(cost[rows - 1, columns]) == errors - 1
    if columns and rows:  # not if the last word may just have been understood as another
        last_missing &= int(cost[rows - 1, columns - 1]) + (hypothesis[-1] != text[-1]) > errors
    return Alignment(errors, rows, added_before(cost, text, hypothesis), last_missing)


def wer(text: str, heard: str, language: str | None) -> float:
    """The share of the text's words that were understood wrongly."""
    found = aligned(words_of(text, language), words_of(heard, language))
    return found.errors / max(found.words, 1)


def added_before(cost: np.ndarray, text: Sequence[str], hypothesis: Sequence[str]) -> tuple[str, ...]:
    """The words that were understood before the text begins."""
    row, column = len(text), len(hypothesis)
    while row and column:
        same = text[row - 1] == hypothesis[column - 1]
        if cost[row, column] == cost[row - 1, column - 1] + (not same):
            row, column = row - 1, column - 1
        elif cost[row, column] == cost[row - 1, column] + 1:
            row -= 1
        else:
            column -= 1
    return tuple(hypothesis[:column]) if not row else ()
