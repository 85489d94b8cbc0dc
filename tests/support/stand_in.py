"""A stand-in for `omnitts serve`: the list of models and prepared pieces as events, on a Unix socket or a port.

It keeps what it was asked, and fails on request: it refuses, breaks off after some events, or says nothing.
"""

import base64
import itertools
import json
import os
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from typing import Any, Self

from omnitts_cli.audio.read import Recording
from omnitts_cli.errors import OmniError
from omnitts_cli.settings.environment import server_socket
from omnitts_cli.settings.table import Speech
from omnitts_cli.speech import reference, servers, voice_files, voices
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS
from omnitts_cli.text.language import LANGUAGES, language_code
from omnitts_cli.voices import Designed


class StandIn:
    """Serves one open model. `path`: of a Unix socket; None: a free port."""

    def __init__(self, tts: TTS, source: str, path: Path | None = None) -> None:
        about = servers.card(tts, source, "custom_voice", device="auto", dtype="auto")
        total = tts.engine.model.sha256
        self.entry: dict[str, Any] = {"id": source, "object": "model", "state": "ready", "sha256": total}
        self.entry["omnitts"] = about
        self.tts, self.path = tts, path
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.refusals: list[tuple[int, dict[str, str]]] = []  # answers of the next requests
        self.break_after: int | None = None  # events, then the connection closes
        self.silence_s = 0.0  # before each answer
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                stand_in.list_models(self)

            def do_POST(self) -> None:
                stand_in.speak(self)

            def address_string(self) -> str:
                return "client"

            def log_message(self, *args: object) -> None:
                return None

        class Unix(socketserver.ThreadingUnixStreamServer):
            daemon_threads, request_queue_size = True, 64

            def handle_error(self, *args: object) -> None:
                """A client that has gone is part of some tests."""

        class Tcp(socketserver.ThreadingTCPServer):
            daemon_threads, request_queue_size, allow_reuse_address = True, 64, True
            handle_error = Unix.handle_error

        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._server = Tcp(("127.0.0.1", 0), Handler) if path is None else Unix(str(path), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def list_models(self, handler: BaseHTTPRequestHandler) -> None:
        self.keys.append(handler.headers.get("Authorization"))
        time.sleep(self.silence_s)
        send(handler, 200, {"object": "list", "data": [self.entry]})

    def speak(self, handler: BaseHTTPRequestHandler) -> None:
        fields = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.asked.append(fields)
        self.keys.append(handler.headers.get("Authorization"))
        time.sleep(self.silence_s)
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return send(handler, status, {"error": {"message": f"refused with {status}"}}, headers)
        assert fields["prepared"] and (fields["response_format"], fields["stream_format"]) == ("pcm_f32", "sse")
        stream = self.stream(fields)
        try:
            first = next(stream, None)  # headers leave with the first sound
        except OmniError as error:
            return send(handler, 400, {"error": {"message": error.message}})
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        events = 0
        try:
            for chunk in itertools.chain([first] if first else [], stream):
                if events == self.break_after:
                    return
                events += 1
                if chunk.samples.size:
                    data = base64.b64encode(chunk.samples.astype("<f4").tobytes()).decode()
                    put(handler, {"type": "speech.audio.delta", "audio": data, "response_format": "pcm_f32"})
            if self.break_after is None:
                cut = stream.account.stopped
                reason = "guard" if cut == "limit" and "max_new_tokens" not in fields else cut
                put(handler, {"type": "speech.audio.done", "finish_reason": reason, "seed": stream.seed})
        except OSError:
            stream.close()

    def stream(self, fields: dict[str, Any]) -> Stream:
        speech = Speech(
            **{name: fields[name] for name in ("seed", "temperature", "top_k", "top_p", "repetition_penalty")
               if name in fields},
            max_frames=fields.get("max_new_tokens"),
            text_mode={True: "whole", False: "streamed", None: None}[fields.get("non_streaming_mode")],
            style=None if fields.get("task_type") == "VoiceDesign" else fields.get("instructions"),
        )  # fmt: skip
        code = language_code(fields["language"])
        return self.tts.piece(fields["input"], self.voice(fields), LANGUAGES[code] if code else None, speech)

    def voice(self, fields: dict[str, Any]) -> voices.Voice:
        model, given = self.tts.engine.model, fields.get("voice")
        if fields.get("task_type") == "VoiceDesign":
            return voices.Voice(Designed(fields["instructions"]))
        if "ref_audio" in fields and "omnitts-voice" in fields["ref_audio"][:50]:
            return voices.Voice(voice_files.of_bytes(decoded(fields["ref_audio"])).voice)
        if "ref_audio" in fields:
            import soundfile

            sound, rate = soundfile.read(BytesIO(decoded(fields["ref_audio"])), dtype="float32")
            recording = Recording(sound, rate, "clip", rate, 1, len(sound) / rate)
            return self.tts.clone(reference.Reference(recording, fields.get("ref_text")))
        return voices.voice_for(given, model)


def decoded(url: str) -> bytes:
    return base64.b64decode(url.partition(",")[2])


def put(handler: BaseHTTPRequestHandler, event: dict[str, Any]) -> None:
    handler.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
    handler.wfile.flush()


def send(
    handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any], headers: dict[str, str] | None = None
) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(data)),
        **(headers or {}),
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def on_own_socket(tts: TTS, source: str) -> StandIn:
    """A server where `--via auto` looks for one."""
    path = server_socket()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = StandIn(tts, source, path)
    os.chmod(path, 0o600)
    return made
