"""POST /v1/audio/speech: whole, streamed as it is made, or as server-sent events."""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnitts_cli.audio import wav
from omnitts_cli.server.asked import Asked, asked_of
from omnitts_cli.server.body import Gone, Receive, Scope, Send, read_json
from omnitts_cli.server.encode import MEDIA, Encoding
from omnitts_cli.server.fields import TASKS
from omnitts_cli.server.problems import described, status_of
from omnitts_cli.server.speak import begin, chunks, watched
from omnitts_cli.server.state import ServerState, SpeechCall
from omnitts_cli.server.whole import made
from omnitts_cli.text.subtitles import Sentence, Word, joined

EVENTS = "text/event-stream; charset=utf-8"


async def post_speech(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one request."""
    await answer(state, await read_json(scope, receive), scope, receive, send)


async def answer(state: ServerState, values: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request of these fields."""
    asked = asked_of(values, state.options.max_chars)
    if asked.sentences and not asked.sse:  # an answer of plain audio has no place for times
        asked = replace(asked, words=False, ignored=(*asked.ignored, "timestamps"))
    with state.call(scope["omnitts.client"], scope.get("omnitts.transport")) as call:
        outcome = "error"
        try:
            with watched(call, receive):
                await begin(state, call, asked)
                await (whole if asked.whole else events if asked.sse else streamed)(call, asked, send)
            outcome = "ok"
        except (Gone, asyncio.CancelledError):
            outcome = "gone"
            raise
        except Exception as error:
            outcome = str(status_of(error))
            raise
        finally:
            report(state, call, asked, outcome)


async def streamed(call: SpeechCall, asked: Asked, send: Send) -> None:
    """Sound as it is made. The headers leave with the first of it."""
    encoding, started = encoder(call, asked), False
    try:
        async for chunk in chunks(call):
            if not chunk.samples.size:
                continue
            data = await encoding.feed(chunk.samples)
            if not data:
                continue
            if not started:
                started = True
                await send(start(call, asked, encoding.media, encoding.rate))
            await deliver(call, send, data)
        rest = await encoding.finish()
        if not started:
            await send(start(call, asked, encoding.media, encoding.rate))
        await send({"type": "http.response.body", "body": rest, "more_body": False})
    finally:
        await encoding.close()


async def events(call: SpeechCall, asked: Asked, send: Send) -> None:
    """The same sound as server-sent events."""
    out: Events = (Chunks if asked.chunks else Events)(call, asked, send)
    encoding = encoder(call, out.encoded)
    out.rate = encoding.rate
    try:
        async for chunk in chunks(call):
            if chunk.samples.size:
                await out.sound(await encoding.feed(chunk.samples))
        await out.sound(await encoding.finish())
    except Exception as error:
        if not out.started or isinstance(error, Gone):
            raise
        await out.failed(error)
    else:
        await out.done()
    finally:
        await encoding.close()


@dataclass
class Events:
    """An answer of server-sent events, those of OpenAI."""

    call: SpeechCall
    asked: Asked
    send: Send
    rate: int = 0
    started: bool = False

    @property
    def encoded(self) -> Asked:
        """The request as its encoder sees it."""
        return self.asked

    async def sound(self, data: bytes) -> None:
        """An event with a part of the sound, if there is one."""
        if data:
            sound = base64.b64encode(data).decode()
            await self.event({"type": "speech.audio.delta", "audio": sound, "response_format": self.asked.form})

    async def failed(self, error: Exception) -> None:
        """The last event of sound that is incomplete."""
        await self.event({"type": "speech.audio.error", "error": described(error)}, more=False)

    async def done(self) -> None:
        """The last event."""
        await self.event({"type": "speech.audio.done", **facts(self.call, self.asked)}, more=False)

    async def event(self, values: dict[str, Any], more: bool = True) -> None:
        """An event with its name."""
        await self.line(f"event: {values['type']}\ndata: {json.dumps(values)}\n\n", more)

    async def line(self, text: str, more: bool = True) -> None:
        """A part of the body; the headers leave with the first."""
        if not self.started:
            self.started = True
            await self.send(start(self.call, self.asked, EVENTS, self.rate))
        await deliver(self.call, self.send, text.encode(), more)


@dataclass
class Chunks(Events):
    """The events of SGLang-Omni, for requests with its fields: each WAV chunk is a file, and [DONE] comes last."""

    index: int = 0

    @property
    def encoded(self) -> Asked:
        """WAV is encoded as samples, of which each chunk becomes a file."""
        return replace(self.asked, form="pcm") if self.asked.form == "wav" else self.asked

    async def sound(self, data: bytes) -> None:
        """A chunk of the sound."""
        if data:
            form = self.asked.form
            whole = wav.header(self.rate, "pcm16", len(data)) + data if form == "wav" else data
            sound = base64.b64encode(whole).decode()
            about = {"format": form, "mime_type": MEDIA[form], "sample_rate": self.rate}
            await self.chunk({"audio": {"data": sound, **about}, "finish_reason": None})

    async def failed(self, error: Exception) -> None:
        """The last chunk of sound that is incomplete."""
        await self.last({"audio": None, "finish_reason": "error", "error": described(error)})

    async def done(self) -> None:
        """The last chunk, which has no sound."""
        why = "stop" if reason(self.call) == "end" else "length"
        await self.last({"audio": None, **facts(self.call, self.asked), "finish_reason": why})

    async def last(self, values: dict[str, Any]) -> None:
        """A chunk, and the end."""
        await self.chunk(values)
        await self.line("data: [DONE]\n\n", more=False)

    async def chunk(self, values: dict[str, Any]) -> None:
        """One event."""
        about = {"id": f"speech-{self.call.id}", "object": "audio.speech.chunk", "index": self.index}
        self.index += 1
        await self.line(f"data: {json.dumps(about | values)}\n\n")


async def whole(call: SpeechCall, asked: Asked, send: Send) -> None:
    """One answer of known length when everything is made and checked."""
    async with made(call, asked) as answer:
        seconds = answer.seconds
        headers = [
            (b"content-length", str(answer.size).encode()),
            (b"x-finish-reason", reason(call).encode()),
            (b"x-audio-seconds", f"{seconds:.3f}".encode()),
            (b"x-rtf", f"{(time.perf_counter() - call.began) / seconds if seconds else 0:.4f}".encode()),
            *token_headers(call),
        ]
        await send(start(call, asked, answer.media, answer.rate, headers))
        for data in answer.blocks():
            await deliver(call, send, data)
        await deliver(call, send, b"", more=False)


def encoder(call: SpeechCall, asked: Asked) -> Encoding:
    """The encoder of an answer."""
    return Encoding(asked.form, stream_of(call).sample_rate, asked.sample_rate)


async def deliver(call: SpeechCall, send: Send, data: bytes, more: bool = True) -> None:
    """Sends a part of the body. Waits while the client is slow, which the sweep limits."""
    call.sending_since = began = time.perf_counter()
    try:
        await send({"type": "http.response.body", "body": data, "more_body": more})
    finally:
        call.sending_since = None
        call.held_s += time.perf_counter() - began


def stream_of(call: SpeechCall) -> Any:
    """The stream of a call that has begun."""
    assert call.stream is not None
    return call.stream


def start(
    call: SpeechCall, asked: Asked, media: str, rate: int, more: Sequence[tuple[bytes, bytes]] = ()
) -> dict[str, Any]:
    """The status line and the headers. They leave with the first sound, so an error can still be a status."""
    stream = stream_of(call)
    assert call.model is not None
    first = call.first_sound or time.perf_counter()
    headers = [
        (b"content-type", media.encode()),
        (b"x-sample-rate", b"%d" % rate),
        (b"x-request-id", call.id.encode()),
        (b"x-model", printable(call.model.name)),
        (b"x-voice", printable(voice_name(call))),
        (b"x-seed", b"%d" % stream.seed),
        (b"x-queue-ms", b"%.1f" % ((stream.account.queued_s or 0.0) * 1000)),
        (b"x-first-sound-ms", b"%.1f" % ((first - call.began) * 1000)),
        (b"cache-control", b"no-store"),
        *more,
    ]
    if ignored := [*asked.ignored, *call.ignored]:
        headers.append((b"x-ignored-fields", printable(", ".join(name[:60] for name in ignored)[:1000])))
    if found := call.notices:
        headers.append((b"x-notices", printable("; ".join(words[:200] for words in found)[:1000])))
    return {"type": "http.response.start", "status": 200, "headers": headers}


def voice_name(call: SpeechCall) -> str:
    """The voice that speaks, after aliases."""
    identity = stream_of(call).manner.request.voice
    return str(getattr(identity, "speaker", "") or call.voice)


def printable(text: str) -> bytes:
    """Text as the value of a header."""
    return text.encode("ascii", "backslashreplace").translate(None, bytes(range(32)) + b"\x7f")


def usage(call: SpeechCall) -> dict[str, Any]:
    """vLLM-Omni's counts of tokens: text, frames of the clip that is continued, frames made."""
    stream = stream_of(call)
    codes = getattr(stream.manner.request.voice, "codes", None)
    text, sound = stream.account.tokens, 0 if codes is None else len(codes)
    made = stream.account.frames
    return {
        "input_tokens": text + sound,
        "output_tokens": made,
        "total_tokens": text + sound + made,
        "input_token_details": {"text_tokens": text, "audio_tokens": sound},
    }


def token_headers(call: SpeechCall) -> list[tuple[bytes, bytes]]:
    """The same as headers."""
    counts = usage(call)
    details = counts.pop("input_token_details")
    counts |= {f"input_{name}": count for name, count in details.items()}
    return [(f"x-vllm-omni-{name.replace('_', '-')}".encode(), b"%d" % count) for name, count in counts.items()]


def reason(call: SpeechCall) -> str:
    """Why the speech ended."""
    return str(stream_of(call).account.stopped)


def facts(call: SpeechCall, asked: Asked) -> dict[str, Any]:
    """The fields of the last event of a stream."""
    stream = stream_of(call)
    account = stream.account
    found: dict[str, Any] = {
        "usage": usage(call),
        "finish_reason": account.stopped,
        "seed": stream.seed,
        "audio_s": round(stream.seconds, 3),
        "first_sound_ms": round(((call.first_sound or call.began) - call.began) * 1000, 1),
        "notices": call.notices,
        "ignored_fields": [*asked.ignored, *call.ignored],
    }
    return found | times(call, asked)


def times(call: SpeechCall, asked: Asked) -> dict[str, Any]:
    """The times of sentences, and of their words, if they were asked for."""
    if not asked.sentences:
        return {}
    found = joined(call.timer.sentences if call.timer else stream_of(call).account.sentences)
    if not asked.words:
        return {"sentences": list(map(timed, found))}
    return {"sentences": [timed(one) | {"words": list(map(timed, one.words))} for one in found]}


def timed(part: Sentence | Word) -> dict[str, Any]:
    """A sentence or a word, and when it is spoken."""
    return {"text": part.text, "start_time": round(float(part.start_s), 3), "end_time": round(float(part.end_s), 3)}


def report(state: ServerState, call: SpeechCall, asked: Asked, outcome: str) -> None:
    """Counts the request, and logs one line about it."""
    wall = time.perf_counter() - call.began
    metrics, stream = state.metrics, call.stream
    model = call.model.name if call.model else "none"
    kind = TASKS.get(type(stream.manner.request.voice).__name__.lower(), "none") if stream else "none"
    metrics.requests.labels(model, kind, outcome).inc()
    seconds = stream.seconds if stream else 0.0
    if outcome != "ok":
        metrics.cancelled.labels(outcome).inc()
    if stream is not None:
        metrics.audio.inc(seconds)
        metrics.guard_hits.inc(stream.account.guard_hits)
        if stream.account.queued_s is not None:
            metrics.queue.observe(stream.account.queued_s)
    if call.first_sound is not None:
        metrics.first_sound.observe(call.first_sound - call.began)
    if seconds:
        metrics.rtf.observe((wall - call.held_s) / seconds)
    first = f", first sound {(call.first_sound - call.began) * 1000:.0f} ms" if call.first_sound else ""
    status = {"ok": "200", "gone": "499"}.get(outcome, outcome)
    text = f' "{asked.text[:200]}"' if state.options.log_texts else ""
    chars = stream.account.chars if stream else len(asked.text)
    for words in call.notices:
        state.log(f"{call.id} notice: {words[:200]}")
    state.log(f"{call.id} {call.client} {status} {model} {asked.form}: {chars} characters, "
              f"{seconds:.1f} s of sound in {wall:.2f} s{first}{text}")  # fmt: skip
