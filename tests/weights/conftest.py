"""A hub on the loopback: it answers as the Hub does, and as a Hub on a bad day does."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from patience import LONG_S

from omnitts_cli.weights.released import Released, ReleasedFile

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "someone/a-voice"


def made(size: int, seed: int) -> bytes:
    """Bytes that repeat nowhere, so that a wrong place shows."""
    return b"".join(hashlib.sha256(b"%d %d" % (seed, n)).digest() for n in range(size // 32 + 1))[:size]


def git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def voice_files() -> dict[str, bytes]:
    """What a repository of a speech model holds, and things in it that must stay where they are."""
    return {
        "config.json": b'{"model_type": "qwen3_tts", "auto_map": {"AutoModel": "modeling.Evil"}}',
        "generation_config.json": b"{}",
        "tokenizer_config.json": b"{}",
        "vocab.json": b"{}",
        "merges.txt": b"#version: 0.2\n",
        "model.safetensors": made(300_000, 1),
        "speech_tokenizer/config.json": b"{}",
        "speech_tokenizer/model.safetensors": made(100_000, 2),
        "modeling.py": b"open('marker', 'w')",
        "pytorch_model.bin": b"\x80\x04.",
        "README.md": b"# a voice",
        "checkpoint-1/model.safetensors": b"no",
        "../escape.json": b"{}",
    }


@dataclass
class Fault:
    """What goes wrong with requests of `method` whose path ends with `path`, `times` times."""

    method: str
    path: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    send: int | None = None  # so many bytes of the body, then the line is cut
    stall: bool = False  # then silence
    ignore_range: bool = False
    replace: bytes | None = None
    times: int = 1


@dataclass
class Hub:
    """The repository served, what was asked, and what is to go wrong."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=voice_files)
    commit: str = COMMIT
    faults: list[Fault] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # "GET path" or "GET path from 1234"
    waits: list[float] = field(default_factory=list)  # what would have been slept
    sent_bytes: int = 0
    closing: threading.Event = field(default_factory=threading.Event)

    def fails(self, method: str, path: str, **how: object) -> None:
        self.faults.append(Fault(method, path, **how))  # type: ignore[arg-type]

    def fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.method == method and path.endswith(fault.path):
                fault.times -= 1
                return fault
        return None

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.files[path]).hexdigest()

    def released(self, name: str, **sums: str) -> Released:
        """What the table of releases would say of it; `sha256`: another sum of the weights."""
        files = tuple(
            ReleasedFile(path, len(content), sums.get("sha256", self.sha256(path)) if self.large(path) else None)
            for path, content in self.files.items()
            if path in ("config.json", "model.safetensors", "speech_tokenizer/model.safetensors")
        )
        return Released(name, REPO, self.commit[:12], files)

    def large(self, path: str) -> bool:
        return path.endswith((".safetensors", ".bin"))

    def info(self) -> bytes:
        siblings = []
        for path, content in self.files.items():
            entry: dict[str, object] = {"rfilename": path, "size": len(content), "blobId": git_name(content)}
            if self.large(path):
                entry["lfs"] = {"sha256": self.sha256(path), "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        return json.dumps({"id": REPO, "modelId": REPO, "sha": self.commit, "siblings": siblings}).encode()

    def asked_for(self, path: str) -> list[str]:
        return [line for line in self.asked if line.startswith("GET") and path in line.split(" from ")[0]]


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer("HEAD")

    def do_GET(self) -> None:
        self.answer("GET")

    def answer(self, method: str) -> None:
        path = unquote(urlsplit(self.path).path)
        start = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(start[1]) if start else 0
        if REPO in path:  # the library asks for things of its own, too
            self.hub.asked.append(f"{method} {path}" + (f" from {first}" if first else ""))
        fault = self.hub.fault(method, path) or Fault(method, path)
        if fault.status:
            return self.reply(fault.status, fault.headers, fault.body, fault)
        if path.startswith("/api/models/"):
            return self.reply(200, {"Content-Type": "application/json"}, self.hub.info(), fault)
        file = path.split(f"/resolve/{self.hub.commit}/", 1)[-1]
        content = self.hub.files.get(file)
        if content is None:
            return self.reply(404, {"X-Error-Code": "EntryNotFound"}, b"", fault)
        headers = {"X-Repo-Commit": self.hub.commit, "ETag": f'"{git_name(content)}"'}
        if self.hub.large(file):
            headers |= {"X-Linked-ETag": f'"{self.hub.sha256(file)}"', "X-Linked-Size": str(len(content))}
        if fault.replace is not None:
            content = fault.replace
        if first and not fault.ignore_range:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
            return self.reply(206, headers, content[first:], fault)
        return self.reply(200, headers, content, fault)

    def reply(self, status: int, headers: dict[str, str], body: bytes, fault: Fault) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: fault.send])
            self.hub.sent_bytes += len(body[: fault.send])
        if fault.stall:
            self.wfile.flush()
            self.hub.closing.wait(20)
        if fault.send is not None or fault.stall:
            self.close_connection = True


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A running hub that huggingface_hub takes for the real one, with an empty cache in tmp_path/hub."""
    from huggingface_hub import constants, file_download, utils

    # made with the proxies of before; the name differs between versions
    forget_connections = getattr(utils, "close_session", None) or utils.reset_sessions  # type: ignore[attr-defined]
    served = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": served}))
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", served.url)
    template = "/{repo_id}/resolve/{revision}/{filename}"
    for module in (constants, file_download):  # older versions keep a copy
        monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", served.url + template, raising=False)
    # http_get writes whole pieces only; a broken one is lost
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", LONG_S)
    monkeypatch.setattr("omnitts_cli.weights.hub.ANSWER_S", LONG_S)
    monkeypatch.setattr("omnitts_cli.weights.fetch.WORTH_A_TRY_BYTES", 1024)
    monkeypatch.setattr(time, "sleep", served.waits.append)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    forget_connections()
    yield served
    served.closing.set()
    server.shutdown()
    server.server_close()
    forget_connections()
