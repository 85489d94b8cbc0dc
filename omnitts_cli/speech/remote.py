"""Remote: a running `omnitts serve` instead of an engine. Does not import torch.

The server makes the pieces; splitting, normalising, seeds, retries, gaps, speed and loudness stay here. So the sound is
that of a local run, byte for byte on a CPU in float32.
"""

import base64
import http.client
import io
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from omnitts_cli.audio.chunk import Chunk, Stopped
from omnitts_cli.audio.read import Recording
from omnitts_cli.errors import OmniError, UsageError
from omnitts_cli.parse import json_object
from omnitts_cli.request import BULK, Failed, Request
from omnitts_cli.settings import environment
from omnitts_cli.speech import reference as references
from omnitts_cli.speech import voice_files, voices
from omnitts_cli.speech.elsewhere import FarDevice, FarFacts, FarModel, FarPlan
from omnitts_cli.speech.loop import Callback, SpeechEngine
from omnitts_cli.speech.servers import (
    ANSWER_S,
    Address,
    headers,
    model_there,
    own_socket,
    refused,
    same_model,
    unreachable,
    within,
)
from omnitts_cli.speech.tts import TTS
from omnitts_cli.speech.voices import Voice, VoiceLike
from omnitts_cli.voices import Cloned, Designed, Named

BUSY_S = 30.0  # how long a server with a full queue is asked again
MOST_AT_ONCE = 16  # pieces of one command; a server admits fewer connections of one client than it has slots
LARGEST_EVENT, READ_BYTES = 64 << 20, 1 << 16
LONGEST_PIECE_S = 3600
NO_CODES = np.zeros((0, 0), np.int64)
VOICE_TYPE, WAV_TYPE = "application/x-omnitts-voice", "audio/wav"


def connect(
    via: str, model: str | None, variant: str, *, device: str, dtype: str, local: Callable[[], TTS], exact: bool = False
) -> "RemoteTTS | None":
    """Returns the model on a server. `via`: auto, or a URL. `exact`: it must have been started with --exact.

    auto: None unless this user's server has the very model that a local run would open; `local` opens that if the
    server fails later. With a URL, every failure is an OmniError.
    """
    if via == "auto":
        if (address := own_socket()) is None:
            return None
        found = same_model(address, model or environment.EMBEDDED, variant, device, dtype, exact)
        return None if found is None else RemoteTTS(address, found, local)
    address = Address.of(via, "--via")
    found = model_there(address, model, variant)
    if exact and not found["omnitts"].get("exact"):
        raise UsageError(
            f"the server at {address} was started without --exact", hint="omnitts serve --exact   or   --via off"
        )
    return RemoteTTS(address, found, None)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A voice that the server clones from this clip."""

    recording: Recording
    transcript: str | None

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Returns the fields of a request."""
        import soundfile

        file = io.BytesIO()
        soundfile.write(file, self.recording.sound, self.recording.rate, format="WAV", subtype="FLOAT")
        words = {"ref_text": self.transcript} if self.transcript else {}
        return {"task_type": "Base", "ref_audio": data_url(WAV_TYPE, file.getvalue()), **words}


class RemoteTTS(TTS):
    """A model on a server, with the methods of an open one."""

    def __init__(self, address: Address, entry: Mapping[str, Any], local: Callable[[], TTS] | None) -> None:
        super().__init__(RemoteEngine(address, entry, local))
        self.via = str(address)

    def _voice_for(self, voice: VoiceLike | None) -> Voice:
        if isinstance(voice, str) and voice_files.is_blend(voice) and voices.saved_voice(voice) is None:
            return Voice(Named(voice), voice)  # of voices of the model, which the server knows
        return super()._voice_for(voice)

    def _voice_of(self, found: references.Reference) -> Voice:
        voices.require("cloned", self.engine.model)
        identity: Any = Recorded(found.recording, found.transcript)
        return Voice(identity)


class RemoteEngine(SpeechEngine):
    """A SpeechEngine that has requests spoken by a server, each in a thread of its own. If `local` can open the same
    model, a request that the server fails is spoken by that, from where the server's sound ended.
    """

    def __init__(self, address: Address, entry: Mapping[str, Any], local: Callable[[], TTS] | None) -> None:
        self.address, self.name, about = address, entry["id"], entry["omnitts"]
        model = FarModel(
            entry["id"],
            FarFacts(about["sample_rate"], about["frame_rate"], about["hidden"]),
            frozenset(about["kinds"]),
            about["speakers"],
            tuple(about["languages"]),
            about["dtype"],
            entry.get("sha256"),
            about["longest_piece"],
            about["plain_letters"],
        )
        device = FarDevice(about["device"], exact=about.get("exact"))
        super().__init__(model, device, FarPlan(min(about["slots"], MOST_AT_ONCE)))
        self._local = local
        self._opened: TTS | None = None
        self._numbers = itertools.count(1)
        self._calls: dict[str, Call] = {}

    @property
    def queued(self) -> int:
        """Returns 0: the server has the queue."""
        return 0

    @property
    def running(self) -> int:
        """Returns how many requests have been sent and have not ended."""
        return len(self._calls)

    def stuck_s(self) -> float:
        """Returns 0: each request has its own time limits."""
        return 0.0

    def submit(
        self, request: Request, callback: Callback, *, live: bool = False, priority: int = BULK, client: str = ""
    ) -> str:
        """Submits a request and returns its name; `callback` is called on a thread of this engine."""
        if live:
            raise UsageError("--live does not work through a server", hint="--via off")
        with self._lock:
            self._refuse_closed()
            call = Call(self, replace(request, id=f"s{next(self._numbers)}"), callback, priority)
            self._calls[call.request.id], self._callbacks[call.request.id] = call, callback
        threading.Thread(target=call.run, name=f"omnitts {call.request.id}", daemon=True).start()
        return call.request.id

    def _pass_on(self, call: str, *given: Any) -> None:
        """To the thread of the request, which reads nothing while it is paused. There are no live requests to feed."""
        found = self._calls.pop(given[0], None) if call == "cancel" else self._calls.get(given[0])
        if found is not None:
            getattr(found, call)()

    def admitted_at(self, name: str) -> float | None:
        """Returns when the request was sent; None if it has ended."""
        call = self._calls.get(name)
        return None if call is None else call.began

    def forget(self, name: str) -> None:
        """Cancels a request now, without a lock."""
        self._ended(name)
        self._pass_on("cancel", name)

    def _end(self) -> None:
        """Closes the local model, if one was opened."""
        if self._opened is not None:
            self._opened.close()

    def ended(self, name: str) -> None:
        """Forgets a request."""
        with self._lock:
            self._ended(name)
            self._calls.pop(name, None)

    @property
    def only_remote(self) -> bool:
        """Returns whether no local model can take over."""
        return self._local is None

    def local(self) -> TTS | None:
        """Returns the same model, opened here; None if that is not wanted."""
        if self._local is None:
            return None
        with self._lock:
            if self._opened is None:
                self._opened = self._local()
            return self._opened


class Call:
    """One request on its way."""

    def __init__(self, engine: RemoteEngine, request: Request, callback: Callback, priority: int) -> None:
        self.request, self._engine, self._callback, self._priority = request, engine, callback, priority
        self.began = time.perf_counter()
        self._connection: http.client.HTTPConnection | None = None
        self._cancelled = False
        self._reading = threading.Event()
        self._reading.set()  # cleared while the request is paused
        self._samples = 0  # delivered
        self._here: tuple[TTS, str] | None = None  # the local model that has taken over, and the request's name there

    def cancel(self) -> None:
        """Ends it; the thread that reads wakes up."""
        self._cancelled = True
        self._reading.set()
        if self._here is not None:
            self._here[0].engine.forget(self._here[1])
        if (connection := self._connection) is not None and (sock := connection.sock) is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
            except OSError:
                pass

    def pause(self) -> None:
        """Reads nothing until `resume`."""
        self._reading.clear()
        if self._here is not None:
            self._here[0].engine.pause(self._here[1])

    def resume(self) -> None:
        """Reads on."""
        self._reading.set()
        if self._here is not None:
            self._here[0].engine.resume(self._here[1])

    def run(self) -> None:
        """Delivers the sound, or the failure."""
        try:
            for chunk in self._chunks():
                self._deliver(chunk)
                self._reading.wait()
        except OmniError as error:
            self._failed(error)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._failed(unreachable(self._engine.address, error))
        except Exception as error:  # raised again in the thread that waits for sound
            self._deliver(error)

    def _deliver(self, news: Any) -> None:
        if self._cancelled:
            return
        if not isinstance(news, Chunk) or news.last:
            self._engine.ended(self.request.id)
        else:
            self._samples += news.pcm.size
        self._callback(news)
        self._engine.after_step()

    def _failed(self, error: OmniError) -> None:
        """The rest is spoken here, or the request has failed."""
        if self._cancelled:
            return
        try:
            tts = self._engine.local()
            if tts is None:
                raise error
            request = replace(self.request, voice=spoken_here(self.request.voice, tts))
            self._here = tts, tts.engine.submit(request, self._skipping(self._samples), priority=self._priority)
        except OmniError as problem:
            self._deliver(Failed(self.request.id, problem))
        if self._cancelled:  # in the meantime
            self.cancel()

    def _skipping(self, samples: int) -> Callback:
        """Delivers local chunks without their first samples, which the server has delivered."""
        left = samples

        def pass_on(news: Any) -> None:
            nonlocal left
            if isinstance(news, Chunk):
                skipped = min(left, news.pcm.size)
                left -= skipped
                news = replace(news, pcm=news.pcm[skipped:], codes=NO_CODES)
            self._deliver(news)

        return pass_on

    def _chunks(self) -> Iterator[Chunk]:
        """The sound of the request, as the server sends it."""
        response = self._answer()
        most = LONGEST_PIECE_S * self._engine.model.facts.sample_rate
        try:
            for number, event in enumerate(events(response)):
                if event["type"] == "speech.audio.delta":
                    sound = np.frombuffer(base64.b64decode(event["audio"]), "<f4").astype(np.float32)
                    if self._samples + sound.size > most:
                        raise ValueError(f"the server sent more than {LONGEST_PIECE_S} s of sound for one piece")
                    yield Chunk(self.request.id, number, sound, NO_CODES)
                elif event["type"] == "speech.audio.done":
                    reason = event["finish_reason"]
                    stopped: Any = "limit" if reason == "guard" else reason
                    if stopped not in get_args(Stopped):
                        raise ValueError("the server's answer cannot be read")
                    yield Chunk(self.request.id, number, np.zeros(0, np.float32), NO_CODES, True, stopped)
                    return
                else:
                    raise refused(500, json.dumps(event).encode(), self._engine.address)
            raise http.client.IncompleteRead(b"")
        except (KeyError, TypeError) as error:
            raise ValueError("the server's answer cannot be read") from error
        finally:
            response.close()

    def _answer(self) -> http.client.HTTPResponse:
        """The response, once the server has room for the request."""
        body = json.dumps(self._fields()).encode()
        deadline = time.monotonic() + BUSY_S
        while True:
            connection = self._connection = self._engine.address.connect()
            if self._cancelled:
                raise OSError("cancelled")
            with within(connection, ANSWER_S):
                connection.request("POST", self._engine.address.path, body, headers())
                response = connection.getresponse()
                if response.status == http.client.OK:
                    return response
                error = refused(response.status, response.read(1 << 16), self._engine.address)
            wait = response.headers.get("Retry-After", "")
            connection.close()
            patient = self._engine.only_remote and wait.isdecimal() and time.monotonic() + int(wait) < deadline
            if response.status not in (429, 503) or not patient:
                raise error
            time.sleep(int(wait))

    def _fields(self) -> dict[str, Any]:
        """The body of the request. "prepared": the text is one piece, ready for the model."""
        request, sampling = self.request, self.request.sampling
        given = {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "repetition_penalty": sampling.repetition_penalty,
            "max_new_tokens": request.max_frames,
            "non_streaming_mode": None if request.text_mode is None else request.text_mode == "whole",
            "instructions": request.style,
            **voice_fields(request.voice),
        }
        return {
            "model": self._engine.name,
            "input": request.text,
            "language": request.language or "Auto",
            "seed": request.seed,
            "response_format": "pcm_f32",
            "stream_format": "sse",
            "prepared": True,
            "urgent": self._priority != BULK,
            **{name: value for name, value in given.items() if value is not None},
        }


def voice_fields(voice: Any) -> dict[str, Any]:
    """A voice as fields of a request."""
    if isinstance(voice, Recorded):
        return voice.fields
    if isinstance(voice, Designed):
        return {"task_type": "VoiceDesign", "instructions": voice.description}
    if isinstance(voice, Cloned):
        data = voice_files.to_bytes(voice_files.SavedVoice("voice", voice))
        return {"task_type": "Base", "ref_audio": data_url(VOICE_TYPE, data)}
    if not voice.speaker:
        return {}
    return {"voice": voice.speaker} if voice_files.is_blend(voice.speaker) else {
        "task_type": "CustomVoice", "voice": voice.speaker
    }  # fmt: skip


def spoken_here(voice: Any, tts: TTS) -> Any:
    """The voice of a request to a server, for an engine of this process."""
    if isinstance(voice, Recorded):
        return tts.clone(references.Reference(voice.recording, voice.transcript)).identity
    if isinstance(voice, Named) and voice_files.is_blend(voice.speaker):
        return voices.voice_for(voice.speaker, tts.engine.model).identity
    return voice


def data_url(kind: str, data: bytes) -> str:
    """Returns the data as a URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The events of a stream, each of one line."""
    if response.headers.get_content_type() != "text/event-stream":
        raise ValueError(f"the server sent {response.headers.get_content_type()} instead of events")
    for line in lines(response):
        if line.startswith(b"data:"):
            yield json_object(line[5:])


def lines(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of an answer. Each event must be whole within the time for an answer, whatever comes before it."""
    held, since = bytearray(), time.monotonic()
    while data := response.read1(READ_BYTES):
        start = len(held)
        held += data
        while (end := held.find(b"\n", start)) >= 0:
            line, held, start = bytes(held[:end]), held[end + 1 :], 0
            since = time.monotonic() if line.startswith(b"data:") else since
            yield line
        if len(held) > LARGEST_EVENT or time.monotonic() - since > ANSWER_S:
            raise ValueError(f"the server sent no whole event within {ANSWER_S:g} s or {LARGEST_EVENT >> 20} MiB")
