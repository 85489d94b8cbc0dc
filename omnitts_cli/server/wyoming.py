"""Wyoming, the protocol of Home Assistant: events over TCP, a Unix socket or the standard streams.

An event is a line of JSON, then its data as JSON, then its payload; the line has the lengths of the other two. Text
that is complete is spoken as over HTTP, text that arrives in parts as over the WebSocket. An error event ends the
connection: clients that wait for sound do not look for errors.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnitts_cli.errors import OmniError
from omnitts_cli.server.asked import asked_of
from omnitts_cli.server.body import Gone, Send, parse_object
from omnitts_cli.server.catalogue import known_voices
from omnitts_cli.server.live import END, IDLE_S, LARGEST_OTHER, LiveUtterance, Session, Sound
from omnitts_cli.server.problems import Problem, described, invalid
from omnitts_cli.server.speak import chunks
from omnitts_cli.server.speech import encoder
from omnitts_cli.server.state import ServerState, SpeechCall
from omnitts_cli.settings.environment import own_version
from omnitts_cli.text.language import LANGUAGES

EVENT_S = 10.0  # for the rest of an event, once its line is here
LARGEST_PAYLOAD, READ = 1 << 20, 1 << 16  # bytes; payloads of clients are sound, which nothing here listens to
WIDTH, CHANNELS = 2, 1  # of the samples
PROGRAM, VERSION = "omnitts", own_version()


def packed(kind: str, data: Mapping[str, Any], payload: bytes) -> bytes:
    """The bytes of an event."""
    body = json.dumps(data).encode() if data else b""
    lengths = {"data_length": body, "payload_length": payload}
    head = {"type": kind, "version": VERSION, **{name: len(part) for name, part in lengths.items() if part}}
    return json.dumps(head).encode() + b"\n" + body + payload


def length_in(head: Mapping[str, Any], name: str, most: int) -> int:
    """A length in the line of an event."""
    value = head.get(name) or 0
    if type(value) is not int or value < 0:
        raise invalid(name, f"{name} is not a number of bytes")
    if value > most:
        raise Problem(413, f"{name} is {value:,}; at most {most:,} bytes are allowed", code="too_large", param=name)
    return value


@dataclass(eq=False)
class WyomingConnection(Session):
    """One connection. It may ask for several texts, which are spoken in order."""

    reader: asyncio.StreamReader = field(kw_only=True)
    streaming: bool = False  # between synthesize-start and synthesize-stop
    waits_since: float | None = None  # of `Connections`; events have a limit of their own

    # ---- what the client says

    async def read(self) -> None:
        """Acts on events until the client leaves, is idle for too long, or sends something that is not an event."""
        try:
            while (event := await self.event()) is not None:
                await self.act(*event)
        except (Gone, OSError):
            pass
        except Exception as error:
            await self.refuse(error)

    async def event(self) -> tuple[str, dict[str, Any]] | None:
        """The next event and its data."""
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    line = await self.reader.readuntil(b"\n")
                break
            except TimeoutError:
                if not (self.turns and self.turns[0].ended):
                    return None
            except asyncio.IncompleteReadError:
                return None
            except asyncio.LimitOverrunError:
                most = f"{LARGEST_OTHER:,} bytes"
                raise Problem(413, f"the line of an event has more than {most}", code="too_large") from None
        head = parse_object(line)
        kind, data = head.get("type"), head.get("data") or {}
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise invalid("type", "an event needs a type, and its data must be an object")
        try:
            async with asyncio.timeout(EVENT_S):
                return kind, {**data, **await self._rest(head)}
        except TimeoutError:
            raise Problem(408, f"the rest of the event did not arrive in {EVENT_S:g} s", code="timeout") from None
        except asyncio.IncompleteReadError:
            return None

    async def _rest(self, head: Mapping[str, Any]) -> dict[str, Any]:
        """The data after the line. The payload is read and dropped."""
        size = length_in(head, "data_length", LARGEST_OTHER)
        payload = length_in(head, "payload_length", LARGEST_PAYLOAD)
        data = parse_object(await self.reader.readexactly(size)) if size else {}
        while payload:
            payload -= len(await self.reader.readexactly(min(payload, READ)))
        return data

    async def act(self, kind: str, data: dict[str, Any]) -> None:
        """Acts on one event. Those of other services, such as recognisers, mean nothing here."""
        if kind == "describe":
            await self.say("info", await info(self.state))
        elif kind == "ping":
            await self.say("pong", {"text": data.get("text")})
        elif kind == "synthesize" and not self.streaming:
            self.whole(data)
        elif kind == "synthesize-start":
            self.begin(data)
        elif kind in ("synthesize-chunk", "synthesize-stop"):
            if not self.streaming:
                raise invalid("type", f"{kind} without synthesize-start")
            if kind == "synthesize-chunk":
                self.text(data.get("text"))
            else:
                self.streaming = False
                self.done()

    def whole(self, data: Mapping[str, Any]) -> None:
        """synthesize, except after chunks: there it repeats their text for servers that cannot stream."""
        asked = asked_of({"input": data.get("text"), **fields_of(data)}, self.state.options.max_chars)
        if not asked.text.strip():
            raise invalid("text", "the text is empty")
        utterance = self.queue(asked, live=False)
        utterance.text = asked.text
        utterance.add(END)

    def begin(self, data: Mapping[str, Any]) -> None:
        """synthesize-start"""
        if self.streaming:
            raise invalid("type", "synthesize-start came before the synthesize-stop of the previous text")
        self.asked, self.streaming = asked_of(fields_of(data), self.state.options.max_chars, live=True), True

    # ---- what the server says

    async def say(self, kind: str, data: Mapping[str, Any] | None = None, payload: bytes = b"") -> None:
        """Sends an event, or raises Gone."""
        await self.out(packed(kind, data or {}, payload))

    async def refuse(self, error: Exception) -> None:
        """An error event. What is not the client's fault goes to the log."""
        if not isinstance(error, OmniError):
            self.state.log(f"{type(error).__name__}: {error}")
        about = described(error)
        await self.say("error", {"text": about["message"], "code": about["code"]})

    async def failed(self, utterance: LiveUtterance, error: Exception) -> None:
        """Ends the connection."""
        await self.refuse(error)
        raise Gone

    async def ended(self, utterance: LiveUtterance, total: int) -> None:
        """The event after the sound of text that arrived in parts."""
        if utterance.live:
            await self.say("synthesize-stopped")

    def sound(self, utterance: LiveUtterance, call: SpeechCall) -> Sound:
        """What sends the sound of an utterance."""
        return EventSound(self, utterance, call)


@dataclass
class EventSound(Sound):
    """The sound of one utterance as events."""

    shape: dict[str, int] = field(default_factory=dict)
    start: bytes = b""  # the event before the first sound, until it is sent

    async def send(self) -> None:
        """audio-start, audio-chunk ..., audio-stop"""
        encoding = encoder(self.call, self.utterance.asked)
        self.shape = {"rate": encoding.rate, "width": WIDTH, "channels": CHANNELS}
        self.start = packed("audio-start", self.shape, b"")
        try:
            async for chunk in chunks(self.call):
                if chunk.samples.size:
                    await self._out(await encoding.feed(chunk.samples))
            if rest := await encoding.finish():
                await self._out(rest)
            await self._event(packed("audio-stop", {}, b""))
        finally:
            await encoding.close()

    async def _pass(self, data: bytes) -> None:
        await self._event(packed("audio-chunk", self.shape, data))

    async def _event(self, event: bytes) -> None:
        """Sends audio-start together with the next event: a client that woke up for it alone would take a core from
        the first sound."""
        before, self.start = self.start, b""
        await self.session.out(before + event)


def fields_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The voice of an event in the fields of a request."""
    voice = data.get("voice") or {}
    if not isinstance(voice, dict):
        raise invalid("voice", "voice is not an object")
    name = voice.get("name") or voice.get("speaker")
    return {"response_format": "pcm", "voice": name, "language": voice.get("language")}


async def info(state: ServerState) -> dict[str, Any]:
    """What `describe` asks: clients remember the voices, so the first model is loaded for it."""
    await state.models.ready(state.models.all[0])
    about = {"attribution": {"name": PROGRAM, "url": ""}, "installed": True, "version": VERSION}
    spoken = {model.name: languages_of(model.speech) for model in state.models.loaded}
    anything = sorted({code for codes in spoken.values() for code in codes})
    voices = []
    for voice in (await known_voices(state))["data"]:
        words = voice.get("about")
        voices.append({
            "name": voice["id"], "description": f"{voice['name']}, {words}" if words else voice["name"], **about,
            "languages": spoken.get(str(voice.get("model")), anything), "speakers": [{"name": voice["id"]}],
        })  # fmt: skip
    program = {"name": PROGRAM, "description": "Speech from text", **about, "voices": voices,
               "supports_synthesize_streaming": True}  # fmt: skip
    return {"tts": [program], **{other: [] for other in ("asr", "handle", "intent", "wake", "mic", "snd")}}


def languages_of(model: Any) -> list[str]:
    """The codes of the languages of a model."""
    return [code for code, name in LANGUAGES.items() if name in model.languages]


def sending(writer: asyncio.StreamWriter) -> Send:
    """Sends events, and waits while the client is slow."""

    async def send(message: Any) -> None:
        writer.write(message)
        await writer.drain()

    return send


def conversation(
    state: ServerState, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> WyomingConnection:
    """The conversation on a connection."""
    return WyomingConnection(state, client, writer.transport, sending(writer), reader=reader)
