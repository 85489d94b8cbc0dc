"""A server as a target: POST /v1/audio/speech as in OpenAI's API: whole, streamed, or as server-sent events."""

import base64
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any, Self

import numpy as np

from omnitts_cli.bench.meter import RequestMeter
from omnitts_cli.bench.record import Result, Work
from omnitts_cli.bench.target import Closed, Ended, Gauge
from omnitts_cli.bench.wave import RawSamples, WavStream, WireError
from omnitts_cli.errors import DeviceError, ModelError, OmniError
from omnitts_cli.parse import json_object
from omnitts_cli.speech.servers import Address
from omnitts_cli.voices import Named

READ_BYTES = 1 << 16
TIMEOUT_S = 300.0
LIST_S = 10.0
SHOWN = 200  # characters of a server's error message
LARGEST_LIST = 1 << 22
FRAMES_PER_S = 12.5
SWITCH_S = 0.0005
"""With Python's 5 ms, a thread that has sound waits for one that computes: with 20 requests a second, 6 ms."""


@dataclass(frozen=True)
class Asking:
    """The HTTP request."""

    model: str | None  # None: the first that the server lists
    voice: str | None = None
    sound: str = "pcm"  # or wav
    stream: bool = True
    sample_rate: int = 24_000  # of pcm, unless the server sends it
    api_key: str | None = field(default=None, repr=False)
    body: Mapping[str, Any] = field(default_factory=dict)  # more fields of the request body

    def fields(self, work: Work) -> dict[str, Any]:
        """The body. A fixed number of frames is asked for with the fields that omnitts and nari-qwen3-tts read."""
        request = work.request
        voice = self.voice or (request.voice.speaker if isinstance(request.voice, Named) else "") or "default"
        asked: dict[str, Any] = {
            "model": self.model,
            "input": request.text,
            "voice": voice,
            "response_format": self.sound,
            "stream": self.stream,
            **({"stream_format": "audio"} if self.stream and "stream" not in self.body else {}),
        }
        if request.style is not None:
            asked["instructions"] = request.style
        if work.fixed:
            asked |= {"ignore_eos": True, "max_new_tokens": request.max_frames}
        return asked | dict(self.body)

    def headers(self) -> dict[str, str]:
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"Content-Type": "application/json", "Accept": "*/*", "User-Agent": "omnitts-bench", **key}


class ServerTarget:
    """One thread and one connection per request.

    The clock starts when the first byte of the request is sent; connecting comes before and counts as waiting in the
    client. Sound counts as received when the client has read it.
    """

    def __init__(self, address: Address, asking: Asking, *, keep: bool = False) -> None:
        self.broken: BaseException | None = None
        self.unusable: type[OmniError] = ModelError
        self.advice = f"curl {address}/v1/models   shows whether the server is there"
        self._address, self._asking, self._keep = address, asking, keep
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> Self:
        sys.setswitchinterval(SWITCH_S)
        return self

    def __exit__(self, *exc: Any) -> None:
        sys.setswitchinterval(self._switch_s)
        self.broken = Closed()  # unfinished requests end with the process

    @contextmanager
    def gauged(self) -> Iterator[Gauge]:
        yield Gauge()  # the server's device cannot be measured from here

    def send(self, work: Work, wanted: float, ended: Ended) -> None:
        threading.Thread(target=self._ask, args=(work, wanted, ended), daemon=True).start()

    def _ask(self, work: Work, wanted: float, ended: Ended) -> None:
        meter = RequestMeter(self._asking.sample_rate, time.perf_counter())
        result = Result(work, wanted, meter, self._keep)
        failure = None
        try:
            connection = self._address.connect(TIMEOUT_S, TIMEOUT_S)
            try:
                body = json.dumps(self._asking.fields(work)).encode()
                meter.submitted = time.perf_counter()
                connection.request("POST", self._address.path, body, self._asking.headers())
                self._listen(connection.getresponse(), result)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, WireError) as error:
            failure = said(error)
            if isinstance(error, ConnectionError):
                self.unusable = DeviceError  # nothing answers there
        if work.fixed:
            result.frames = round(result.meter.audio_s * FRAMES_PER_S)
        result.end(time.perf_counter(), None, failure)
        ended(result)

    def _listen(self, response: http.client.HTTPResponse, result: Result) -> None:
        if response.status != http.client.OK:
            raise WireError(f"HTTP {response.status}: {' '.join(response.read(4096).decode(errors='replace').split())}")
        kind = response.headers.get_content_type()
        if kind in ("application/json", "text/html", "text/plain"):
            raise WireError(f"the server sent {kind} instead of audio")
        decoder: Any = WavStream(self._asking.sample_rate) if self._is_wav(kind) else self._raw(response.headers)
        if kind == "text/event-stream":
            decoder = SoundEvents(decoder)
        while data := response.read1(READ_BYTES):
            now = time.perf_counter()
            pcm = decoder.feed(data)
            result.meter.sample_rate = decoder.sample_rate
            result.add(pcm, now)
        if response.length:  # fewer bytes than the header declared
            raise WireError(f"the audio ended {response.length} bytes too early")
        if result.meter.arrivals:
            decoder.finish()

    def _is_wav(self, kind: str) -> bool:
        return self._asking.sound == "wav" or kind in ("audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave")

    def _raw(self, headers: Message) -> RawSamples:
        """Raw samples; a sample rate in the headers overrides --wire-rate."""
        rate_header = headers.get_param("rate") or headers.get("X-Sample-Rate")
        rate = int(str(rate_header)) if rate_header is not None and str(rate_header).isdecimal() else 0
        return RawSamples(rate or self._asking.sample_rate)


class SoundEvents:
    """Server-sent events with sound in them, as OpenAI names them."""

    def __init__(self, sound: RawSamples | WavStream) -> None:
        self._sound, self._rest, self._done = sound, b"", False

    @property
    def sample_rate(self) -> int:
        return self._sound.sample_rate

    def feed(self, data: bytes) -> np.ndarray:
        *lines, self._rest = (self._rest + data).split(b"\n")
        parts = [self._sound_of(line[5:]) for line in lines if line.startswith(b"data:")]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _sound_of(self, text: bytes) -> np.ndarray:
        try:
            event = json_object(text)
            kind = event.get("type", "")
            sound = base64.b64decode(event["audio"]) if kind == "speech.audio.delta" else b""
        except (ValueError, KeyError, TypeError):
            kind, sound = "", b""
        if kind == "speech.audio.error":
            raise WireError(f"the server gave up: {' '.join(str(event.get('error')).split())}")
        if not kind.startswith("speech.audio."):
            raise WireError("the server sent text/event-stream instead of audio")
        self._done = self._done or kind == "speech.audio.done"
        return self._sound.feed(sound)

    def finish(self) -> None:
        if not self._done:
            raise WireError("the events ended without speech.audio.done")
        self._sound.finish()


def first_listed(address: Address, what: str, key: str | None) -> str | None:
    """The first name in a server's list of models or voices; None if it has no such list."""
    path = address.path.removesuffix("audio/speech") + {"models": "models", "voices": "audio/voices"}[what]
    try:
        connection = address.connect(LIST_S, LIST_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
            response = connection.getresponse()
            listed = json_object(response.read(LARGEST_LIST)) if response.status == http.client.OK else {}
        finally:
            connection.close()
        first = (listed["data"] if what == "models" else listed["voices"])[0]
        return str(first["id"] if isinstance(first, dict) else first)
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError):
        return None


def said(error: BaseException) -> str:
    """A failure in one short line, identical for identical failures so that they can be counted."""
    if isinstance(error, http.client.IncompleteRead):
        return "the connection closed before the end of the audio"
    if isinstance(error, TimeoutError):
        return f"no answer for {TIMEOUT_S:.0f} s"
    if isinstance(error, WireError):
        return str(error)[:SHOWN]
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    return f"{type(error).__name__}: {error}"[:SHOWN]
