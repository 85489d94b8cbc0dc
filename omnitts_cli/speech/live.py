"""Live speech: words go into an open text feed as they arrive, and are spoken before the sentence ends.

A thread reads and feeds; the engine's loop stays where it is and sleeps while a request waits for words.
After a while, at the end of a sentence, a new request takes over, so that none grows without end; in the middle of one
only where it is more than the model says well in one go.
"""

from __future__ import annotations

import math
import queue
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from omnitts_cli.errors import OmniError
from omnitts_cli.speech.script import Script
from omnitts_cli.speech.speaking import PIPE_POLL_S, Account, Manner, Speaking, Take, sub_seed
from omnitts_cli.speech.tape import Tape
from omnitts_cli.text.piece import Break, Piece

if TYPE_CHECKING:
    from omnitts_cli.engine.engine import Engine

ENOUGH_CHARS = 200  # a request this long ends with its sentence
WORD = re.compile(r"\s*\S+\s*|\s+")
WORD_END = re.compile(r"\S*\Z")  # what may go on
SENTENCE_END = re.compile(r"[.!?。！？…]+[\"'”’)\]]*(?=\s|$)|\n|(?<=[。！？])")


class LiveSpeaking(Speaking):
    """Speaking, with pieces whose words are still arriving."""

    def __init__(
        self,
        engine: Engine,
        tape: Tape,
        manner: Manner,
        tell: Callable[[Account, Tape], None] | None,
        texts: Iterator[str],
    ) -> None:
        super().__init__(engine, tape, replace(manner, safe=False, retries=0), tell)
        self._new: queue.Queue[Take | OmniError | None] = queue.Queue()
        self._count = 0
        self._hearing: Take | None = None  # whose request is open
        self._chars = 0  # of it
        self._gap: Break = "none"  # in front of the next one
        longest = self.manner.longest
        self._enough = min(ENOUGH_CHARS, longest // 2) if longest else ENOUGH_CHARS
        threading.Thread(target=self._read, args=(texts,), daemon=True).start()

    def _admit(self, script: Script) -> None:
        while not script.ended:
            try:
                new = self._new.get_nowait() if self._open else self._new.get(timeout=PIPE_POLL_S)
            except queue.Empty:
                return
            if isinstance(new, OmniError):
                script.ended = True
                raise new
            if new is None:
                script.ended = True
                return
            self._open.append(new)
            self.account.pieces += 1

    # ---- on the reading thread

    def _read(self, texts: Iterator[str]) -> None:
        read, longest = self.manner.read, self.manner.longest
        try:
            for text in whole_words(texts) if read or longest else texts:
                for part, ends in cut(text):
                    part = read(part) if read else part
                    for words in WORD.findall(part) if longest else [part]:
                        self._say(words)
                    if ends and self._chars >= self._enough:
                        self._end("sentence")
        except OmniError as error:
            self._new.put(error)
        self._end("none")
        self._new.put(None)

    def _say(self, text: str) -> None:
        """More words for the open request, or the first words of a new one."""
        if self._chars + len(text) > (self.manner.longest or math.inf):
            self._end("none")
        take = self._hearing
        if take is None and not text.strip():
            return
        self._chars += len(text)
        self.account.chars += len(text)
        if take is not None and take.request is not None:
            take.piece = replace(take.piece, text=take.piece.text + text)
            self.engine.feed(take.request.id, text)
            return
        number, self._count = self._count, self._count + 1
        seed = sub_seed(self.manner.seed, number, 0)
        request = replace(self.manner.request, text=text, id=f"{number}.0", seed=seed, text_mode="streamed")
        take = Take(number, Piece(text, 0, len(text), 0, self._gap), request)
        self._by_id[request.id] = take
        self.engine.submit(request, live=True)
        self._new.put(take)
        self._hearing = take

    def _end(self, gap: Break) -> None:
        """No more words for the open request; `gap` is what comes behind it."""
        if self._hearing is not None and self._hearing.request is not None:
            self.engine.finish(self._hearing.request.id)
        self._hearing, self._chars, self._gap = None, 0, gap


def whole_words(texts: Iterator[str]) -> Iterator[str]:
    """The same text, each word and number in one part."""
    held = ""
    for text in texts:
        held += text
        end = len(held) - len(WORD_END.search(held)[0])  # type: ignore[index]
        if end:
            yield held[:end]
        held = held[end:]
    yield held


def cut(text: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, each with whether a sentence ends there."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        if end.end() > start:
            yield text[start : end.end()], True
            start = end.end()
    if start < len(text):
        yield text[start:], False
