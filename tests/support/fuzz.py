"""Damaged input: for everything that reads other people's files, and for the doors of the server.

Each case comes from a seed, so that it can be run again alone. A reader must return or raise an OmniError, within
SLOW_S of processor time and HANGS_S in all; the server must answer with a status below 500, or 502, 503 or 507, and go
on answering /health.
"""

import base64
import io
import json
import os
import random
import resource
import shutil
import signal
import socket
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from safetensors.numpy import save

from omnitts_cli.audio.read import read_clip
from omnitts_cli.bench import report, workload
from omnitts_cli.books.cache import UnitCache
from omnitts_cli.books.cast import read_cast
from omnitts_cli.books.reader import read_book
from omnitts_cli.cli.codec import read_codes
from omnitts_cli.errors import OmniError
from omnitts_cli.families.known import family_of
from omnitts_cli.fleet.content import Keys
from omnitts_cli.fleet.job import words_in
from omnitts_cli.fleet.journal import Entry, Lookup, RowJournal
from omnitts_cli.fleet.manifest import open_manifest
from omnitts_cli.fleet.plan import Naming, beside, plan_of
from omnitts_cli.fleet.rows import RowRules
from omnitts_cli.fleet.segments import records_of
from omnitts_cli.request import Request
from omnitts_cli.server.guard import read_keys
from omnitts_cli.settings import file, presets
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech import servers, voice_files
from omnitts_cli.speech.chat_file import ChatFile
from omnitts_cli.speech.remote import RemoteEngine
from omnitts_cli.text.inputs import TextOptions, pieces_of_document
from omnitts_cli.text.lexicon import load_lexicon
from omnitts_cli.text.spell_out import plain_letters
from omnitts_cli.voices import Cloned, Named
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.find import TINY
from omnitts_cli.weights.folder import check_folder
from omnitts_cli.weights.sums import known_sums

SLOW_S, HANGS_S = 10.0, 60.0
MOST_MIB = 600  # that one case may add to the peak of the process
WORDS = [
    b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\r\n", b"\n\n", b'"', b"\\", b"{", b"}", b"<", b"%00", b"-1", b"0",
    b"1e999", b"NaN", b"null", b"true", b"[" * 3000, b"{" * 3000, b"9" * 5000, b"1" * 30, b"=" * 900, b"../" * 5,
    b"/dev/zero", b"&#x110000;", b"<a " * 500, b"![" * 500, b"|-" * 500, b"*" * 2000, b"(555) " * 60, b"1 " * 300,
    b"a." * 2000, "√1 ".encode() * 200, b"\xed\xa0\x80", b"\xf0\x9f\x98\x80" * 50, b"\x1b[2J",
    "\u202e".encode(), "ﷺ".encode() * 200, b"Content-Length: 99\r\n",
]  # fmt: skip


def damaged(data: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """The data with a few random changes."""
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randint(0, len(data))
        end = min(len(data), at + draw.choice((0, 1, 2, 8, 100, 5000)))
        how = draw.randrange(7)
        if how == 0:
            data = data[:at]
        elif how == 1:
            data = data[:at] + data[end:]
        elif how == 2:
            data = data[:at] + draw.choice(WORDS) + data[end:]
        elif how == 3:
            data = data[:at] + draw.randbytes(end - at) + data[end:]
        elif how == 4:
            data = data[:at] + data[at:end] * draw.choice((2, 50)) + data[end:]
        elif how == 5:
            other = draw.choice(others)
            data = data[:at] + other[draw.randint(0, len(other)) :]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    return data[: 1 << 20]


# ---- readers: what they get, and what reads it


Read = Callable[[bytes, Path], object]


def as_file(name: str, *reads: Callable[[Path], object]) -> Read:
    """Reads a file of that name, in each of these ways."""

    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        for one in reads[:-1]:
            with suppress(OmniError):
                one(path)
        reads[-1](path)

    return read


def model_file(name: str) -> Read:
    def read(data: bytes, folder: Path) -> None:
        model = folder / "model"
        if not model.exists():
            shutil.copytree(TINY, model, copy_function=os.symlink)
        path = model / name
        path.unlink()
        path.write_bytes(data)
        try:
            family_of(check_folder(model)).read_config(model)
            for part in (model, model / "speech_tokenizer"):
                Checkpoint.open(part).names()
        finally:
            path.unlink()
            path.symlink_to(TINY / name)

    return read


def document(form: Any) -> Read:
    def read(data: bytes, folder: Path) -> None:
        for number, piece in enumerate(pieces_of_document(io.BytesIO(data), form, TextOptions(), "x")):
            if number < 20 and piece.speech:
                with suppress(OmniError):
                    plain_letters(piece.text)

    return read


def book(name: str) -> Read:
    return lambda data, folder: read_book([(name, data)], "auto", None, None, lines=True)


def unit(suffix: str) -> Read:
    """A finished part of a book, of which one file is damaged; the sound keeps its size, as on a bad disk."""

    def read(data: bytes, folder: Path) -> None:
        with closing(UnitCache(folder / "units")) as cache:
            for name, content in unit_files().items():
                path = folder / "units" / "00" / name
                path.parent.mkdir(exist_ok=True)
                if name.endswith(suffix):
                    content = data[: len(content)].ljust(len(content), b"\0") if suffix == ".flac" else data
                path.write_bytes(content)
            found = cache.get("00unit")
            cache.words("00unit", "me")
            if found is not None:
                found.sound()

    return read


def unit_files() -> dict[str, bytes]:
    sound = clip_bytes("FLAC")
    about = {"schema": 1, "bytes": len(sound), "rate": 16_000, "seconds": 1.0, "sentences": [[0.0, 1.0, "Hi."]]}
    return {
        "00unit.flac": sound,
        "00unit.json": json.dumps({**about, "details": {"seed": 1}}).encode(),
        "00unit.words": json.dumps({"by": "me", "words": [[[0.0, 0.5, "Hi."]]]}).encode(),
    }


def segment(data: bytes, folder: Path) -> None:
    """A part of a journal in a bucket. Its checksum is right, so what is in it was made, not damaged."""
    records_of(data)
    records_of(zlib.compress(data, 1))


def planned(name: Path) -> Any:
    work = name.parent / "work"
    work.mkdir(exist_ok=True)
    found = open_manifest(str(name), None, work, None, True)
    rules = RowRules(base=found.base, typed=found.typed, by_line=found.by_line, name=str(name))
    with closing(found.source):
        return plan_of(found, rules, Keys(TextIn(), Speech(), {"format": "flac"}, 1), Naming(".flac"), work)


def manifest(suffix: str) -> Read:
    return as_file(f"m.{suffix}", lambda path: list(planned(path).bad_rows()))


def plan(what: str) -> Read:
    def read(data: bytes, folder: Path) -> None:
        name = folder / "rows.jsonl"
        name.write_bytes(ROWS)
        path = planned(name).path
        (path if what == "bin" else beside(path, what)).write_bytes(data)
        again = planned(name)
        assert again.count == 2 and len(again.rows) == 2, "a damaged plan was used"
        list(again.bad_rows())

    return read


def journal(what: str) -> Read:
    def read(data: bytes, folder: Path) -> None:
        work = folder / "journals"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for name, content in journals().items():
            (work / name).write_bytes(data if name.startswith(what) else content)
        RowJournal(work).close()
        lookup = Lookup(work)
        for index in range(len(lookup.records)):
            lookup.details(index)
        lookup.close()

    return read


def journals() -> dict[str, bytes]:
    """The journal of two rows."""
    with tempfile.TemporaryDirectory() as name:
        made = RowJournal(Path(name))
        details = b'{"output": "x.flac", "sha256": "00"}'
        made.append([Entry((1, 2), 3 + row, row, 1, details, length=5) for row in range(2)])
        made.close()
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def server_of_via(data: bytes, folder: Path) -> None:
    """The whole answer of a server to `--via`: its list of models, or its events."""
    with answering(data) as address:
        with suppress(OmniError):
            servers.model_there(address, "tiny", "custom_voice")
        found, news = threading.Event(), list[Any]()

        def take(one: Any) -> None:
            news.append(one)
            if getattr(one, "last", True):
                found.set()

        about = {"sample_rate": 24_000, "frame_rate": 12.5, "hidden": 64, "kinds": ["named"], "speakers": {},
                 "slots": 4, "languages": ["english"], "dtype": "float32", "longest_piece": None,
                 "plain_letters": False, "device": "cpu"}  # fmt: skip
        engine = RemoteEngine(address, {"id": "tiny", "omnitts": about}, None)
        engine.submit(Request("Hello.", voice=Named("henry"), seed=1), take)
        assert found.wait(HANGS_S), "no end"
        engine.close()
        bugs = [one for one in news if isinstance(one, BaseException)]
        assert not bugs, bugs


@contextmanager
def answering(data: bytes) -> Iterator[Any]:
    """The address of a server that answers everything with these bytes, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(HANGS_S)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    link, _ = listening.accept()
                    with link, suppress(OSError):
                        link.settimeout(1)
                        link.recv(65_536)
                        link.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield servers.Address.of(f"http://127.0.0.1:{listening.getsockname()[1]}")


ROWS = b'{"id": "a", "text": "One."}\n{"id": "a", "text": "Two."}\n'
TOML = b'voice = "henry"\nspeed = 1.2\n[say]\nseed = 3\n[presets.mine]\nabout = "x"\nvolume = -3\n[serve]\nport = 1\n'
MARKDOWN = b"---\ntitle: T\n---\n# Head\n\nText *with* `code` [link](x) ![alt](y).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [ ] item[^1]\n\n[^1]: note\n"  # noqa: E501
HTML = b"<html><body><h1>T</h1><p>One &amp; two<br>three</p><ul><li>x</li></ul><img alt='a'><script>x</script></body>"
SSML = (
    b'<speak><p>Hi <break time="300ms"/> <sub alias="you">u</sub></p><say-as interpret-as="date">1/2</say-as></speak>'
)
SRT = b"1\n00:00:01,000 --> 00:00:02,500\nHello <i>there</i>.\n\n2\n00:00:03,000 --> 00:00:04,000\n- One.\n- Two.\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + (
    b'data: {"type": "speech.audio.delta", "audio": "AAAAAAAAAAA="}\n\n: comment\n\n'
    b'data: {"type": "speech.audio.done", "finish_reason": "end"}\n\n'
)
CARD = {
    "format": 1, "identity": "x", "device": "cpu", "dtype": "float32", "asked": {"device": "cpu"}, "exact": None,
    "slots": 4, "sample_rate": 24_000, "frame_rate": 12.5, "hidden": 64, "longest_piece": 110, "plain_letters": True,
    "kinds": ["named"], "speakers": {"henry": "a man"}, "languages": ["english"],
}  # fmt: skip
MODELS = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    + json.dumps(
        {"object": "list", "data": [{"id": "tiny", "state": "ready", "tasks": ["CustomVoice"], "omnitts": CARD}]}
    ).encode()
)


def clip_bytes(form: str) -> bytes:
    """A recording of a second."""
    import soundfile

    sound = (np.sin(np.arange(16_000) / 20) * (np.arange(16_000) % 4000 > 800) * 0.3).astype(np.float32)
    file = io.BytesIO()
    soundfile.write(file, sound, 16_000, format=form)
    return file.getvalue()


def table_bytes() -> bytes:
    """A manifest in Parquet; no bytes without pyarrow."""
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError:
        return b""
    file = io.BytesIO()
    write_table(pyarrow.table({"id": ["a", "b"], "text": ["One.", "Two."], "seed": [1, 2]}), file)
    return file.getvalue()


def codes_bytes() -> bytes:
    return save({"codes": np.zeros((5, 4), np.int64)})


def voice_bytes() -> bytes:
    made = Cloned(np.zeros(16, np.float32), np.zeros((5, 4), np.int64), "words")
    return voice_files.to_bytes(voice_files.SavedVoice("x", made, {"model": "tiny", "consent": "me"}))


def epub_bytes() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        container = '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>'
        archive.writestr("META-INF/container.xml", container)
        item = '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>'
        package = f'<manifest>{item}</manifest><spine><itemref idref="a"/></spine>'
        archive.writestr("b.opf", f"<package><metadata><title>T</title></metadata>{package}</package>")
        archive.writestr("a.xhtml", HTML)
    return file.getvalue()


SETTINGS = (
    lambda path: file.read(path).check_values(), lambda path: file.read(path).presets(), presets.read,
    lambda path: file.refuse_places(file.read(path), path),
)  # fmt: skip


def readers() -> dict[str, tuple[list[bytes], Read]]:
    """Name -> the good inputs from which damaged ones are made, and what reads them."""
    config = (TINY / "config.json").read_bytes()
    head = (TINY / "model.safetensors").read_bytes()[: 1 << 16]
    two, codec = journals(), "speech_tokenizer/config.json"
    return {
        "settings": ([TOML], as_file("omnitts.toml", *SETTINGS)),
        "voice": ([voice_bytes()], as_file("x.voice", voice_files.read, voice_files.about)),
        "config.json": ([config], model_file("config.json")),
        "codec config": ([(TINY / codec).read_bytes()], model_file(codec)),
        "tokenizer": ([(TINY / "tokenizer_config.json").read_bytes()], model_file("tokenizer_config.json")),
        "merges": ([(TINY / "merges.txt").read_bytes()], model_file("merges.txt")),
        "vocab": ([(TINY / "vocab.json").read_bytes()], model_file("vocab.json")),
        "generation": ([(TINY / "generation_config.json").read_bytes()], model_file("generation_config.json")),
        "weights": ([head], model_file("model.safetensors")),
        "text": ([MARKDOWN, b"One. Two.\n\nThree."], document("text")),
        "md": ([MARKDOWN], document("md")),
        "html": ([HTML], document("html")),
        "ssml": ([SSML], document("ssml")),
        "srt": ([SRT], document("srt")),
        "epub": ([epub_bytes()], document("epub")),
        "book": ([epub_bytes()], book("x.epub")),
        "book in markdown": ([MARKDOWN], book("x.md")),
        "clip": ([clip_bytes(form) for form in ("WAV", "FLAC", "OGG", "MP3")], lambda data, _: read_clip(data)),
        "codes": ([codes_bytes()], as_file("x.safetensors", lambda path: read_codes(str(path)))),
        "benchmark": ([b'{"schema": 1, "model": "tiny", "levels": [{"concurrency": 1, "requests": 2}]}'],
                      as_file("old.json", report.read, lambda path: workload.read_texts(path, None))),
        "keys": ([b"# clients\nann:secret\nben:other\n"], as_file("keys", lambda path: read_keys(str(path), None))),
        "sums": ([b'{"/a/b": [1, 2, 3, 4, "' + b"0" * 64 + b'"]}'], as_file("sums.json", known_sums)),
        **{f"unit{name[6:]}": ([content], unit(name[6:])) for name, content in unit_files().items()},
        "lexicon": ([b"GIF\tjiff\nSQL\tsequel\n# note\n"],
                    as_file("x.tsv", lambda path: load_lexicon([path]).apply("words of a text"))),
        "cast": ([b'{"ANNA": {"voice": "clara"}, "BEN": {"description": "a man", "speed": 1.2}}'],
                 as_file("cast.json", lambda path: read_cast(str(path)))),
        "chat": ([b'{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b", "ids": [1]}\n'],
                 as_file("talk.jsonl", ChatFile.open)),
        "jsonl": ([ROWS], manifest("jsonl")),
        "csv": ([b'id,text,voice\na,"One, ""two""",henry\nb,Three.,\n'], manifest("csv")),
        "tsv": ([b"text\tid\nOne.\ta\nTwo.\tb\n"], manifest("tsv")),
        "parquet": ([table_bytes()], manifest("parquet")),
        "plan": ([ROWS, b'{"schema": 2, "rows": 2, "bad": 1, "models": [], "sum": 1}' + bytes(200)], plan("bin")),
        "bad rows": ([b'{"row": 2, "line": 2, "id": "a", "code": "x", "message": "y"}\n'], plan("bad")),
        "voices of a plan": ([b'[["own", "", ""], "x"]\n'], plan("voices")),
        "small files": ([b"flac", b"123456"], as_file("to", words_in)),
        "journal": ([two.get("journal-main.bin") or bytes(512)], journal("journal")),
        "details": ([two.get("details-main.jsonl") or b"{}\n"], journal("details")),
        "segment": ([len(two).to_bytes(4, "little") + bytes(200)], segment),
        "via: models": ([MODELS], server_of_via),
        "via: events": ([EVENTS], server_of_via),
    }  # fmt: skip


def read_case(name: str, seed: int, folder: Path) -> None:
    """One damaged file for one reader; AssertionError if it is not held."""
    inputs, read = known()[name]
    draw = random.Random(f"{name} {seed}")
    everything = [one for good, _ in known().values() for one in good]
    data = damaged(draw.choice(inputs), draw, everything)
    before, began = peak_mib(), time.process_time()
    try:
        with ended_after(SLOW_S, HANGS_S):
            read(data, folder)
    except OmniError:
        pass
    except Exception as error:
        raise AssertionError(f"{name} {seed}: {type(error).__name__}: {str(error)[:300]}") from error
    took, grown = time.process_time() - began, peak_mib() - before
    assert grown < MOST_MIB, f"{name} {seed}: {grown} MiB"
    assert took < SLOW_S, f"{name} {seed}: {took:.1f} s"


_KEPT: list[Any] = []


def known() -> dict[str, tuple[list[bytes], Read]]:
    """`readers`, made once."""
    if not _KEPT:
        _KEPT.append(readers())
        with tempfile.TemporaryDirectory() as folder:
            for inputs, read in _KEPT[0].values():
                with suppress(OmniError):
                    read(inputs[0], Path(folder))  # imports what it needs
    return _KEPT[0]  # type: ignore[no-any-return]


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


@contextmanager
def ended_after(slow_s: float, hangs_s: float) -> Iterator[None]:
    """Raises TimeoutError in the block after this processor time, or this time in all; only in the main thread."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError("it hangs" if number == signal.SIGALRM else f"it takes more than {slow_s:g} s")

    timers = {signal.SIGALRM: (signal.ITIMER_REAL, hangs_s), signal.SIGPROF: (signal.ITIMER_PROF, slow_s)}
    before = {number: signal.signal(number, late) for number in timers}
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- doors: damaged requests to a server

SPEECH = {"input": "Hi.", "voice": "a", "response_format": "pcm", "seed": 1, "max_new_tokens": 4, "stream": True,
          "lexicon": {"hi": "hello"}, "speed": 1.0, "language": "en", "timestamps": "word", "retries": 0}  # fmt: skip
PART = b'--e\r\nContent-Disposition: form-data; name="%s"\r\n\r\n'
FORM = PART % b"name" + b"fuzz\r\n" + PART % b"consent" + b"me\r\n"


def http(method: str, path: str, kind: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def requests() -> list[bytes]:
    """Good requests, one for each door."""
    items = {"items": [SPEECH, {"input": "There."}], "max_new_tokens": 4}
    upload = FORM + PART % b'voice_file"; filename="a' + voice_bytes() + b"\r\n--e--\r\n"
    recorded = FORM + PART % b'audio_sample"; filename="a' + clip_bytes("FLAC") + b"\r\n--e--\r\n"
    cloned = {**SPEECH, "voice": None, "ref_audio": base64.b64encode(clip_bytes("OGG")).decode(), "ref_text": "words"}
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    socket_head = b"GET /v1/audio/speech/stream HTTP/1.1\r\nHost: localhost\r\n" + upgrade + key
    said: list[dict[str, Any]] = [
        {"type": "session.config", "response_format": "pcm", "max_new_tokens": 4},
        {"type": "input.text", "text": "Hi."},
        {"type": "input.done"},
        {"type": "session.close"},
    ]
    return [
        http("POST", "/v1/audio/speech", "application/json", json.dumps(SPEECH).encode()),
        http("POST", "/v1/audio/speech", "application/json", json.dumps({**SPEECH, "stream": False}).encode()),
        http("POST", "/v1/audio/speech", "application/json", json.dumps(cloned).encode()),
        http("POST", "/v1/audio/speech/batch", "application/json", json.dumps(items).encode()),
        http("POST", "/v1/audio/voices", "multipart/form-data; boundary=e", upload),
        http("POST", "/v1/audio/voices", "multipart/form-data; boundary=e", recorded),
        http("DELETE", "/v1/audio/voices/fuzz", "text/plain", b""),
        http("GET", "/v1/audio/voices", "text/plain", b""),
        http("GET", "/v1/models", "text/plain", b""),
        *(http("GET", path, "text/plain", b"") for path in ("/v1/models/tiny", "/metrics", "/", "/health", "/ready")),
        socket_head + b"".join(frame(json.dumps(one).encode()) for one in said),
    ]


def frame(data: bytes) -> bytes:
    """A text frame of a WebSocket client, masked with zeros."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + data


def resized(data: bytes) -> bytes:
    """The request with the length that its body has, so that it is not refused for that alone."""
    head, edge, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + edge + body


def door_case(url: str, seed: int) -> int:
    """One damaged request; returns the status, 0 if there was none. AssertionError for a status that is not held."""
    draw = random.Random(f"door {seed}")
    good = _KEPT_REQUESTS or _KEPT_REQUESTS.extend(requests()) or _KEPT_REQUESTS
    data = damaged(draw.choice(good), draw, good)
    if draw.random() < 0.7 and b"Upgrade" not in data:
        data = resized(data)
    where = urlsplit(url)
    answer = b""
    with socket.create_connection((where.hostname, where.port), timeout=HANGS_S) as link:
        with suppress(OSError):
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
            while len(answer) < 1 << 22 and (part := link.recv(1 << 16)):
                answer += part
    status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") and answer[9:12].isdigit() else 0
    assert status < 500 or status in (502, 503, 507), f"door {seed}: {answer[:300]!r}"
    assert b'"code": "internal"' not in answer and b"Traceback" not in answer, f"door {seed}: {answer[:300]!r}"
    return status


_KEPT_REQUESTS: list[bytes] = []
