"""Live speech: words go into an open text feed as they arrive, and are spoken before the sentence ends.

A thread reads the text and feeds it; the engine's loop sleeps while a request waits for words. When a request is long
enough, a new one takes over at the end of a sentence, or in the middle of one that exceeds the model's longest piece.
"""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from omnitts_cli.request import FIRST_SOUND
from omnitts_cli.speech.loop import SpeechEngine
from omnitts_cli.speech.script import Fed
from omnitts_cli.speech.speaking import Manner, Stream, Take, Tell, sub_seed
from omnitts_cli.text.phrases import GOOD, ends_before
from omnitts_cli.text.piece import Break, Piece

LONG, LONGER = 0.6, 0.75  # of the longest piece: from here on a request ends at a clause, or at any phrase
CLAUSE = 0.45  # what a cut costs before a clause or behind a comma
ENOUGH_CHARS = 200  # a request of this length ends with the current sentence
WORD = re.compile(r"\s*\S+\s*|\s+")
WORD_END = re.compile(r"\S*\Z")  # the unfinished last word
SENTENCE_END = re.compile(r"[.!?。！？…]+[\"'”’)\]]*(?=\s|$)|\n|(?<=[。！？])")
END = "end of the text"


class LiveStream(Stream):
    """A stream of pieces whose words are still arriving. There are no retries.

    The words come from `texts`, which a thread reads, or else through `write`, `flush` and `end`, from one thread.
    """

    def __init__(
        self,
        engine: SpeechEngine,
        rate: int,
        manner: Manner,
        texts: Iterator[str] | None,
        tell: Tell | None = None,
        notify: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(engine, rate, replace(manner, safe=False, retries=0), Fed(), tell, notify)
        self._count = 0
        self._fed: Take | None = None  # the take whose request still takes words
        self._chars = 0  # of its text
        self._gap: Break = "none"  # before the next take
        longest = self.manner.longest
        self._enough = min(ENOUGH_CHARS, longest // 2) if longest else ENOUGH_CHARS
        self._by_words = bool(self.manner.read or longest)
        self._held = ""  # an unfinished word
        if texts is not None:
            threading.Thread(target=self._read, args=(texts,), daemon=True).start()

    @property
    def admitted(self) -> bool:
        """Returns True: a live request waits for words, not for the engine."""
        return True

    def write(self, text: str) -> None:
        """Adds text, cut anywhere."""
        if self._by_words:
            text = self._held + text
            end = len(text) - len(WORD_END.search(text)[0])  # type: ignore[index]
            text, self._held = text[:end], text[end:]
        self._speak(text)

    def flush(self) -> None:
        """Completes the word that was held back."""
        text, self._held = self._held, ""
        self._speak(text)

    def end(self) -> None:
        """Ends the text."""
        self.flush()
        self._end("none")
        self._post(END)

    def _handle(self, news: Any) -> None:
        """Also handles a new take, the end of the text, or an error while reading it."""
        if isinstance(news, Take):
            self._open.append(news)
            self._coming.popleft()
            self.account.pieces += 1
        elif isinstance(news, Exception):
            raise news
        elif news == END:
            self._script.ended = True
        else:
            super()._handle(news)

    # ---- on the thread that has the text

    def _read(self, texts: Iterator[str]) -> None:
        try:
            for text in texts:
                self.write(text)
                if self._ended:
                    return
        except Exception as error:  # errors in the text are raised where the caller waits for speech
            self._held = ""
            self._post(error)
        self.end()

    def _speak(self, text: str) -> None:
        read = self.manner.read
        for part, ends in cut(text):
            part = read(part) if read else part
            for words in WORD.findall(part) if self.manner.longest else [part]:
                self._say(words)
            if ends and self._chars >= self._enough:
                self._end("sentence")

    def _say(self, text: str) -> None:
        """Adds words to the open request, or begins a new one."""
        if self._takes_breath(text):
            self._end("none")
        take = self._fed
        if take is None and not text.strip():
            return
        self._chars += len(text)
        self.account.chars += len(text)
        if take is not None:
            take.piece = replace(take.piece, text=take.piece.text + text)
            self._engine.feed(take.name, text)
            return
        number, self._count = self._count, self._count + 1
        seed = sub_seed(self.manner.seed, number, 0)
        request = replace(self.manner.request, text=text, seed=seed, text_mode="streamed")
        take = Take(number, Piece(text, 0, len(text), 0, self._gap), request)
        self._coming.append(take)
        self._post(take)  # before its first result can arrive
        post = self._post
        take.name = self._engine.submit(
            request, lambda found: post((take, 0, found)), live=True, priority=FIRST_SOUND, client=self.manner.client
        )
        if self._ended:  # closed in the meantime
            self._engine.cancel(take.name)
        self._fed = take

    def _takes_breath(self, text: str) -> bool:
        """Whether the open request ends before these words: it would become too long, or a phrase has ended."""
        longest = self.manner.longest
        if longest is None or self._fed is None or not text.strip():
            return False
        if self._chars + len(text) > longest:
            return True
        share = self._chars / longest
        return share >= LONG and ends_before(self._fed.piece.text[-80:], text) <= (CLAUSE if share < LONGER else GOOD)

    def _end(self, gap: Break) -> None:
        """Closes the open request; `gap` is the break after it."""
        if self._fed is not None:
            self._engine.finish(self._fed.name)
        self._fed, self._chars, self._gap = None, 0, gap


def cut(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, each with whether a sentence ends there."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        if end.end() > start:
            yield text[start : end.end()], True
            start = end.end()
    if start < len(text):
        yield text[start:], False
