"""A small server that speaks OpenAI's /v1/audio/speech: streams a script, keeps its own clock, and can misbehave."""

import base64
import json
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import numpy as np

RATE = 24_000


@dataclass(frozen=True)
class Plan:
    """What one request gets: (seconds after the request, samples) for each packet, and how it goes wrong."""

    packets: Sequence[tuple[float, int]] = ((0.05, 4800), (0.10, 4800))
    wrong: str = ""
    silent: int = 0  # samples of silence at the front


@dataclass
class Seen:
    """One request as the server saw it."""

    path: str
    fields: dict[str, Any]
    headers: dict[str, str]
    plan: Plan
    came: float
    sent: list[float] = field(default_factory=list)
    done: float = 0.0


class SpeechServer:
    """Requests get the plans in turn."""

    def __init__(self, *plans: Plan) -> None:
        self.plans, self.seen = plans or (Plan(),), list[Seen]()
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                server.answer(self)

            def log_message(self, *args: object) -> None:
                return None

        self._httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._httpd.daemon_threads = True
        self._thread = threading.Thread(target=self._httpd.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._httpd.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._httpd.shutdown()
        self._httpd.server_close()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        came = time.perf_counter()
        fields = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            plan = self.plans[len(self.seen) % len(self.plans)]
            seen = Seen(handler.path, fields, dict(handler.headers), plan, came)
            self.seen.append(seen)
        handler.close_connection = True
        if plan.wrong in REFUSALS:
            return refuse(handler, plan.wrong)
        stream(handler, seen)
        seen.done = time.perf_counter()


REFUSALS = {
    "busy": (503, "application/json", b'{"error":\n {"message": "the queue  is full"}}\n'),
    "json": (200, "application/json", b'{"error": "no such voice"}'),
    "events": (200, "text/event-stream", b"data: {}\n\n"),
    "empty": (200, "audio/pcm", b""),
}


def refuse(handler: BaseHTTPRequestHandler, wrong: str) -> None:
    status, kind, body = REFUSALS[wrong]
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def stream(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
    """Chunked where the client asked for a stream, else whole with its length."""
    plan, wav = seen.plan, seen.fields["response_format"] == "wav"
    chunked, events = bool(seen.fields.get("stream")), seen.fields.get("stream_format") == "sse"
    total = sum(samples for _, samples in plan.packets)
    handler.send_response(200)
    sound = "audio/wav" if wav else f"audio/pcm;rate={RATE}"
    handler.send_header("Content-Type", "text/event-stream" if events else sound)
    if chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    else:
        handler.send_header("Content-Length", str(total * 2 + 44 * wav))
    handler.end_headers()

    def put(data: bytes) -> None:
        data = as_event(data) if events else data
        handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n" if chunked else data)
        handler.wfile.flush()

    if wav:
        put(header(0xFFFFFFFF if chunked and plan.wrong != "short wav" else total * 2))
    pcm = tone(total, plan.silent)
    at = 0
    for index, (after_s, samples) in enumerate(plan.packets):
        time.sleep(max(0.0, seen.came + after_s - time.perf_counter()))
        if plan.wrong == "cut" and index:
            handler.wfile.write(b"2580\r\n" + bytes(10))
            return
        if plan.wrong in ("short wav", "short length") and index == len(plan.packets) - 1:
            samples //= 2
        seen.sent.append(time.perf_counter())
        put(pcm[at : at + samples].tobytes())
        at += samples
    if events:
        put_last(handler, LAST[plan.wrong])
    if plan.wrong == "half sample":
        put(b"\1")
    if chunked and plan.wrong != "no end":
        handler.wfile.write(b"0\r\n\r\n")


def put_last(handler: BaseHTTPRequestHandler, line: bytes) -> None:
    handler.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


def as_event(data: bytes) -> bytes:
    delta = {"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()}
    return b"data: " + json.dumps(delta).encode() + b"\n\n"


LAST = {
    "": b'data: {"type": "speech.audio.done"}\n\n',
    "no done": b"\n",
    "event error": b'data: {"type": "speech.audio.error", "error": {"message": "no room"}}\n\n',
}
"""The last event of a stream."""


def tone(samples: int, silent: int) -> np.ndarray:
    pcm = (9000 * np.sign(np.sin(np.arange(samples) / 9 + 1))).astype("<i2")
    pcm[:silent] = 0
    return pcm


def header(data_bytes: int) -> bytes:
    form = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    riff = b"RIFF" + struct.pack("<I", min(36 + data_bytes, 0xFFFFFFFF)) + b"WAVEfmt " + struct.pack("<I", 16) + form
    return riff + b"data" + struct.pack("<I", data_bytes)
