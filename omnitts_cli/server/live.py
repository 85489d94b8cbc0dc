"""WS /v1/audio/speech/stream: text goes in word by word while its sound comes out.

The messages are vLLM-Omni's; `input.flush` and `response.cancel` are ours. An utterance is what lies between two
`input.done`; several may wait, and each is spoken by one live request.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from omnitts_cli.errors import OmniError
from omnitts_cli.server.asked import Asked, asked_of
from omnitts_cli.server.body import Gone, Receive, Scope, Send, parse_object
from omnitts_cli.server.encode import Encoding
from omnitts_cli.server.guard import SUBPROTOCOL
from omnitts_cli.server.problems import Problem, answer, described, invalid
from omnitts_cli.server.speak import READERS, SHORT_CHARS, begin, check, chunks
from omnitts_cli.server.speech import encoder, facts, report
from omnitts_cli.server.state import ServerState, SpeechCall
from omnitts_cli.text.clean import Cleaner

MOST_WAITING = 4
IDLE_S = 300.0
LARGEST_CONFIG, LARGEST_OTHER = 4 << 20, 128 << 10
"""Characters of a session.config, which may have a clip in it, and of any other message."""
END, FLUSH = object(), object()


@dataclass(eq=False)
class LiveUtterance:
    """One utterance, and the text of it that has arrived."""

    index: int
    asked: Asked
    stream_audio: bool
    live: bool = True  # its text arrives while it is spoken; else all of it is in `asked`
    parts: deque[Any] = field(default_factory=deque)  # texts, FLUSH, END, until there is a stream
    chars: int = 0
    text: str = ""
    ended: bool = False
    cancelled: bool = False
    stream: Any = None
    call: SpeechCall | None = None
    began: asyncio.Event = field(default_factory=asyncio.Event)  # there is text, or none will come
    arrived: asyncio.Event = field(default_factory=asyncio.Event)  # `parts` is not empty
    _cleaner: Cleaner = field(default_factory=Cleaner)
    _spaced: bool = False

    def add(self, part: Any) -> None:
        """Adds text, FLUSH or END."""
        self.parts.append(part)
        if part is END:
            self.ended = True
        if part is END or (isinstance(part, str) and part.strip()):
            self.began.set()
        self.arrived.set()

    def cancel(self) -> None:
        """Cancels it, whether it is being spoken yet or not."""
        self.cancelled = True
        self.began.set()
        if self.call is not None:
            self.call.news.set()
        if self.stream is not None:
            self.stream.close()

    async def feed(self) -> None:
        """Passes the text that has arrived to the stream. Reading more than a few words takes a thread."""
        assert self.call is not None
        self.arrived.clear()
        while self.parts:
            part = self.parts.popleft()
            if isinstance(part, str) and len(part) > SHORT_CHARS:
                await asyncio.get_running_loop().run_in_executor(READERS, self._pass, part)
            else:
                self._pass(part)
        self.call.news.set()  # no step of the engine reports the end of the text

    async def feed_all(self) -> None:
        """The same until the text has ended."""
        assert self.call is not None
        try:
            while not self.ended or self.parts:
                await self.arrived.wait()
                await self.feed()
        except Exception as error:
            self.call.end(error)

    def _pass(self, part: Any) -> None:
        if part is END:
            self.stream.write(self._cleaner.flush())
            self.stream.end()
        elif part is FLUSH:
            self._flush()
        else:
            part = part.lstrip(" ") if self._spaced else part
            self._spaced = self._spaced and not part
            self.stream.write(self._cleaner.feed(part))

    def _flush(self) -> None:
        """Completes the last word with a space, so that it is spoken without waiting for more text."""
        self.stream.write(self._cleaner.flush() + ("" if self._spaced else " "))
        self.stream.flush()
        self._spaced = True


async def open_socket(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """Serves one connection."""
    await receive()  # websocket.connect
    try:
        client = state.guard.check(scope)
        if state.draining:
            raise Problem(503, "the server is shutting down", code="shutting_down")
    except OmniError as error:
        start, body = answer(error)
        await send({**start, "type": "websocket.http.response.start"})
        await send({"type": "websocket.http.response.body", "body": body})
        return
    offered = list(scope.get("subprotocols", ()))
    plain = [name for name in offered if not name.startswith(SUBPROTOCOL)]
    await send({"type": "websocket.accept", "subprotocol": (plain or offered or [None])[0]})
    session = Session(state, client, scope.get("omnitts.transport"), send)
    speaker = asyncio.create_task(session.speak_all())
    try:
        await session.listen(receive)
    except Gone:
        pass
    finally:
        session.close()
        speaker.cancel()
        await asyncio.gather(speaker, return_exceptions=True)


@dataclass(eq=False)
class Session:
    """One connection: its settings, and its utterances in order."""

    state: ServerState
    client: str
    transport: Any
    send: Send
    config: dict[str, Any] = field(default_factory=dict)
    asked: Asked | None = None
    stream_audio: bool = False
    open: LiveUtterance | None = None  # to which text is added
    count: int = 0
    turns: deque[LiveUtterance] = field(default_factory=deque)  # to be spoken; the first one is being spoken
    more: asyncio.Event = field(default_factory=asyncio.Event)  # `turns` is not empty

    # ---- messages from the client

    async def listen(self, receive: Receive) -> None:
        """Reads messages until the client disconnects or is idle for too long."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    message = await receive()
            except TimeoutError:
                if self.turns and self.turns[0].ended:
                    continue
                await self.out({"type": "websocket.close", "code": 1001, "reason": "idle"})
                return
            if message["type"] == "websocket.disconnect":
                return
            try:
                if not await self.take(await parsed(message.get("text") or "")):
                    return
            except OmniError as error:
                await self.tell(error_message(error))

    async def take(self, message: dict[str, Any]) -> bool:
        """Acts on one message; returns whether the session goes on."""
        kind = message.pop("type", None)
        if kind == "session.config":
            self.configure(message)
        elif kind == "input.text":
            self.text(message.get("text"))
        elif kind == "input.flush":
            if self.open is not None:
                self.open.add(FLUSH)
        elif kind == "input.done":
            self.done()
        elif kind == "response.cancel":
            self.cancel()
        elif kind == "session.close":
            await self.out({"type": "websocket.close", "code": 1000})
            return False
        else:
            raise invalid("type", f"'{str(kind)[:80]}' is not a message of this endpoint")
        return True

    def configure(self, values: dict[str, Any]) -> None:
        """session.config: for the utterances that follow."""
        if self.open is not None:
            raise invalid("type", "an utterance is open; input.done ends it")
        stream_audio = values.pop("stream_audio", False)
        if not isinstance(stream_audio, bool):
            raise invalid("stream_audio", "stream_audio is not true or false")
        given = {"response_format": "wav", **values}
        self.asked, self.stream_audio = asked_of(given, self.state.options.max_chars, live=True), stream_audio
        if self.asked.whole and self.asked.speech.loudness != "off":
            raise invalid("loudness", "loudness needs the whole text")

    def text(self, text: Any) -> None:
        """input.text"""
        if not isinstance(text, str):
            raise invalid("text", "text is not a string")
        if self.open is None:
            asked = self.asked or asked_of({"response_format": "wav"}, self.state.options.max_chars, live=True)
            self.open = self.queue(asked)
        if self.open.chars + len(text) > self.state.options.max_chars:
            raise invalid("text", f"an utterance has at most {self.state.options.max_chars:,} characters")
        self.open.chars += len(text)
        self.open.text += text
        self.open.add(text)

    def queue(self, asked: Asked, *, live: bool = True) -> LiveUtterance:
        """A new utterance, which is spoken after those before it."""
        if len(self.turns) > MOST_WAITING:
            raise Problem(429, f"{MOST_WAITING} utterances are waiting", code="rate_limit_exceeded")
        utterance = LiveUtterance(self.count, asked, self.stream_audio, live)
        self.count += 1
        self.turns.append(utterance)
        self.more.set()
        return utterance

    def done(self) -> None:
        """input.done"""
        if self.open is None:
            self.text("")
        assert self.open is not None
        self.open.add(END)
        self.open = None

    def cancel(self) -> None:
        """response.cancel: ends the utterance that is being spoken, or is the next."""
        if self.turns:
            self.turns[0].cancel()
            if self.open is self.turns[0]:
                self.open = None

    def close(self) -> None:
        """The connection has ended."""
        if self.turns and (call := self.turns[0].call) is not None:
            call.gone = True
            call.news.set()

    # ---- messages to the client

    async def out(self, message: Any) -> None:
        """Sends a message, or raises Gone."""
        try:
            await self.send(message)
        except OSError:  # ASGI's way to say that the client has disconnected
            raise Gone from None

    async def tell(self, values: dict[str, Any]) -> None:
        """Sends a message of JSON."""
        await self.out({"type": "websocket.send", "text": json.dumps(values)})

    async def speak_all(self) -> None:
        """Speaks the utterances in order."""
        while True:
            await self.more.wait()
            self.more.clear()
            while self.turns:
                utterance = self.turns[0]
                await utterance.began.wait()
                try:
                    total = await self.speak(utterance)
                except Gone:
                    return
                except Exception as error:
                    total = 0
                    if not isinstance(error, OmniError):
                        self.state.log(f"{type(error).__name__}: {error}")
                    await self.failed(utterance, error)
                self.turns.popleft()
                if self.open is utterance:
                    self.open = None
                await self.ended(utterance, total)

    async def failed(self, utterance: LiveUtterance, error: Exception) -> None:
        """Reports an utterance that could not be spoken."""
        await self.tell({**error_message(error), "utterance_index": utterance.index})

    async def ended(self, utterance: LiveUtterance, total: int) -> None:
        """Reports that nothing more comes of an utterance."""
        await self.tell({"type": "session.done", "utterance_index": utterance.index, "total_sentences": total})

    def sound(self, utterance: LiveUtterance, call: SpeechCall) -> "Sound":
        """What sends the sound of an utterance."""
        return Sound(self, utterance, call)

    async def speak(self, utterance: LiveUtterance) -> int:
        """Speaks one utterance; returns 1, or 0 if it was empty or cancelled."""
        if not utterance.text.strip() or utterance.cancelled:
            return 0
        with self.state.call(self.client, self.transport) as call:
            utterance.call = call
            outcome = "error"
            try:
                await begin(self.state, call, utterance.asked, live=utterance.live)
                if utterance.live:
                    await self.speak_live(utterance, call)
                else:
                    await self.sound(utterance, call).send()
                outcome = "cancelled" if utterance.cancelled else "ok"
            except Gone:
                outcome = "gone"
                raise
            finally:
                report(self.state, call, utterance.asked, outcome)
        return 1

    async def speak_live(self, utterance: LiveUtterance, call: SpeechCall) -> None:
        """Speaks while the text arrives."""
        async with place(call, utterance):
            utterance.stream = call.stream
            if utterance.cancelled:
                utterance.cancel()
            await utterance.feed()
            feeding = asyncio.create_task(utterance.feed_all())
            try:
                await self.sound(utterance, call).send()
            finally:
                feeding.cancel()


async def parsed(text: str) -> dict[str, Any]:
    """The object in a message. Long ones are parsed in a thread."""
    if len(text) <= LARGEST_OTHER:
        return parse_object(text)
    if len(text) <= LARGEST_CONFIG:
        message = await asyncio.to_thread(parse_object, text)
        if message.get("type") == "session.config":
            return message
    most = f"{LARGEST_OTHER:,} characters, and a session.config {LARGEST_CONFIG:,}"
    raise Problem(413, f"the message has {len(text):,} characters; a message has at most {most}", code="too_large")


@asynccontextmanager
async def place(call: SpeechCall, utterance: LiveUtterance) -> AsyncIterator[None]:
    """Waits for one of the model's live places and holds it. A cancelled utterance stops waiting."""
    assert call.model is not None
    live = call.model.live
    waiting = asyncio.ensure_future(live.acquire())
    try:
        while not waiting.done() and not utterance.cancelled:
            call.news.clear()
            check(call)
            ended = asyncio.ensure_future(call.news.wait())
            try:
                await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
        check(call)
        yield
    finally:
        if not waiting.cancel():
            live.release()


def error_message(error: Exception) -> dict[str, Any]:
    """The message about an error that does not end the session."""
    about = described(error)
    return {"type": "error", "message": about["message"], "code": about["code"], "param": about["param"]}


@dataclass
class Sound:
    """The sound of one utterance on its way out."""

    session: Session
    utterance: LiveUtterance
    call: SpeechCall
    held: list[bytes] = field(default_factory=list)
    total: int = 0

    async def send(self) -> None:
        """audio.start, the sound, audio.done."""
        encoding = encoder(self.call, self.utterance.asked)
        try:
            names = {"utterance_index": self.utterance.index, "sentence_index": 0}
            await self.session.tell({
                "type": "audio.start", **names, "sentence_text": self.utterance.text.strip(),
                "format": self.utterance.asked.form, "sample_rate": encoding.rate, "seed": self._seed,
            })  # fmt: skip
            failed: Exception | None = None
            try:
                await self._all(encoding)
            except Gone:
                raise
            except Exception as error:
                failed = error
            await self.session.tell({
                "type": "audio.done", **names, "total_bytes": self.total, "error": failed is not None,
                "cancelled": self.utterance.cancelled, **facts(self.call, self.utterance.asked),
            })  # fmt: skip
            if failed is not None:
                raise failed
        finally:
            await encoding.close()

    @property
    def _seed(self) -> int:
        assert self.call.stream is not None
        return self.call.stream.seed

    async def _all(self, encoding: Encoding) -> None:
        async for chunk in chunks(self.call):
            if chunk.samples.size and not self.utterance.cancelled:
                await self._frame(await encoding.feed(chunk.samples))
        await self._frame(await encoding.finish())
        if self.held:
            await self._out(b"".join(self.held))

    async def _frame(self, data: bytes) -> None:
        if data:
            self.total += len(data)
            if self.utterance.stream_audio:
                await self._out(data)
            else:
                self.session.state.keep(self.call, len(data))
                self.held.append(data)

    async def _out(self, data: bytes) -> None:
        self.call.sending_since = began = time.perf_counter()
        try:
            await self._pass(data)
        finally:
            self.call.sending_since = None
            self.call.held_s += time.perf_counter() - began

    async def _pass(self, data: bytes) -> None:
        await self.session.out({"type": "websocket.send", "bytes": data})
