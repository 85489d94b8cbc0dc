"""Runner: threads that speak many texts at once, so that their sentences share the engine's slots.

Each thread takes the next text, speaks it and hands over the result. One other thread, usually the main one, takes the
results. Both batch and books speak through it.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Generic, Self, TypeVar

from omnitts_cli.speech.loop import wait_for
from omnitts_cli.speech.speaking import Stream

SWITCH_S = 0.0005  # so that the engine's thread gets the interpreter soon
PATIENCE_S = 5.0  # for texts under way when a run ends early

Text = TypeVar("Text")
Result = TypeVar("Result")


class Stopping(Exception):
    """The run is ending; the text under way is dropped."""


class OpenStreams:
    """The streams of texts under way, so that all of them can be ended."""

    def __init__(self) -> None:
        self.stopping = False
        self._streams: set[Stream] = set()
        self._lock = threading.Lock()

    @contextmanager
    def under_way(self, stream: Stream) -> Iterator[None]:
        """Closes the stream at the end, or earlier when the run stops. Raises Stopping if it has stopped already."""
        with self._lock:
            self._streams.add(stream)
        try:
            self.check()
            yield
        finally:
            stream.close()
            with self._lock:
                self._streams.discard(stream)

    def check(self) -> None:
        """Raises Stopping if the run is ending: a stream that was closed ends like a finished one."""
        if self.stopping:
            raise Stopping

    def stop(self) -> None:
        """Ends all texts that are under way; their threads get Stopping."""
        self.stopping = True
        with self._lock:
            for stream in self._streams:
                stream.close()


class Runner(Generic[Text, Result]):
    """`take` gives the next text, or None when there are no more; one thread at a time calls it."""

    def __init__(
        self,
        streams: OpenStreams,
        take: Callable[[], Text | None],
        speak: Callable[[Text], Result],
        threads: int,
        name: str,
    ) -> None:
        self._streams, self._take, self._speak = streams, take, speak
        self._finished: SimpleQueue[Result | BaseException | None] = SimpleQueue()
        self._taking = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"omnitts {name} {n}", daemon=True) for n in range(threads)
        ]
        self.left = threads  # that have not ended

    def __enter__(self) -> Self:
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            sys.setswitchinterval(self._interval)

    def stop(self) -> None:
        """Ends what is under way, and waits a little for the threads; only once."""
        self._streams.stop()
        threads, self._threads = self._threads, []
        wait_for(threads, PATIENCE_S)

    def next(self, timeout: float | None = None) -> Result | None:
        """The next result; None if there is none yet, or if a thread has ended. Raises the error of a thread."""
        try:
            found = self._finished.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        self.left -= found is None
        return found

    def rest(self) -> Iterator[Result]:
        """The results that are ready; errors are left out."""
        with suppress(Empty):
            while True:
                found = self._finished.get_nowait()
                if found is not None and not isinstance(found, BaseException):
                    yield found

    def _work(self) -> None:
        try:
            while not self._streams.stopping:
                with self._taking:
                    text = self._take()
                if text is None:
                    break
                self._finished.put(self._speak(text))
        except Stopping:
            pass
        except BaseException as error:
            self._finished.put(error)
        finally:
            self._finished.put(None)
