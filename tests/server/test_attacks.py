"""Attacks on the server, each a test. After every one of them the server still speaks, and no slot is taken."""

import base64
import gzip
import io
import json
import socket
import struct
import threading
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import pytest
import soundfile
import wire
from patience import LONG_S, eventually, first_sound_only
from served import Inside, Served, changed, command, serving
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as open_websocket
from wire import ask, connect, multipart, raw, rest

from omnitts_cli.server import clips

KEY = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {KEY}"}
JSON = {"Content-Type": "application/json"}
SPEECH = "/v1/audio/speech"
VOICES = "/v1/audio/voices"
SOCKET = "/v1/audio/speech/stream"
WORDS = {"input": "Go.", "response_format": "pcm", "seed": 1}

# What a request is refused with. A refusal is not a failure of the server.
REFUSED = range(400, 500)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """Loopback, no key."""
    with serving(tmp_path_factory.mktemp("open"), limits={"sweep_s": 0.05}) as served:
        yield served


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The command with a key, in a process of its own."""
    with command(tmp_path_factory.mktemp("locked"), keys={"me": KEY}) as served:
        yield served


@pytest.fixture
def server(open_server: Inside) -> Iterator[Inside]:
    """The open server; afterwards it must still speak, and nothing may be left in it."""
    yield open_server
    assert open_server.idle()
    assert ask(open_server.url, SPEECH, WORDS).status == 200


@pytest.fixture
def hasty(server: Inside) -> Iterator[Inside]:
    """The open server with short limits of time. Only for requests that never become complete: on a busy machine others
    could be too late.
    """
    with changed({"header_s": 0.6, "body_s": 0.8}):
        yield server


def refused(server: Inside, path: str, body: Any = None, *status: int, **more: Any) -> dict[str, Any]:
    """The error of a request that must be refused."""
    answer = ask(server.url, path, body, **more)
    assert answer.status in (status or REFUSED), answer.body[:300]
    return answer.error


def head_of(server: Served, path: str, *lines: str, method: str = "POST") -> bytes:
    """A request without its body. A Host in `lines` takes the place of the right one."""
    host = [] if any(line.startswith("Host:") for line in lines) else [f"Host: {server.host}"]
    kind = ["Content-Type: application/json"] if method == "POST" else []
    return "\r\n".join([f"{method} {path} HTTP/1.1", *host, *kind, *lines, "", ""]).encode()


def websocket(server: Served, **options: Any) -> Any:
    return open_websocket(
        server.url.replace("http", "ws", 1) + SOCKET, **{"proxy": None, "close_timeout": 0.3, **options}
    )


# ---- keys

PROTECTED = [
    ("POST", SPEECH), ("POST", SPEECH + "/batch"), ("GET", VOICES), ("POST", VOICES), ("DELETE", VOICES + "/ann"),
    ("GET", "/v1/models"), ("GET", "/metrics"), ("GET", "/nowhere"), ("GET", SOCKET),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_every_path_asks_for_the_key(locked: Served, method: str, path: str) -> None:
    answer = ask(locked.url, path, None, method=method)
    assert answer.status == 401 and answer.error["type"] == "authentication_error"
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/", "/health", "/ready"])
def test_what_is_open_says_nothing_about_the_server(locked: Served, path: str) -> None:
    answer = ask(locked.url, path)
    assert answer.status == 200
    for secret in ("random:toy", KEY, "omnitts_cli/", "torch"):
        assert secret.encode() not in answer.body


@pytest.mark.parametrize("value", [
    "", "Bearer", "Bearer ", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", f"Bearer {KEY.upper()}", f"Basic {KEY}", KEY,
    f"Bearer {KEY} {KEY}", f"Bearer me:{KEY}", "Bearer \u00ff\u00fe", "Bearer " + "x" * 8000, "Bearer null",
    f"Bearer \u00a0{KEY}", f"Bearer {KEY}\u00a0",
])  # fmt: skip
def test_a_wrong_key_is_refused(locked: Served, value: str) -> None:
    answer = ask(locked.url, SPEECH, WORDS, headers={"Authorization": value})
    assert answer.status == 401
    assert answer.error["message"] == "the API key is missing or wrong", "it says nothing about the key that was given"


def test_the_right_key_opens_and_two_of_them_are_refused(locked: Served) -> None:
    assert ask(locked.url, SPEECH, WORDS, headers=BEARER).status == 200
    assert ask(locked.url, "/v1/models", headers={"authorization": f"bearer  {KEY} "}).status == 200
    keys = ["Authorization: Bearer x", f"Authorization: Bearer {KEY}"]
    head = head_of(locked, "/v1/models", "Connection: close", *keys, method="GET")
    assert wire.status(raw(locked.url, head)) in (400, 401)


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "token"])
def test_a_key_in_the_address_is_not_accepted(locked: Served, name: str) -> None:
    assert ask(locked.url, f"/v1/models?{name}={KEY}").status == 401


def test_the_key_is_never_logged(locked: Served) -> None:
    ask(locked.url, "/v1/models", headers=BEARER)
    ask(locked.url, "/v1/models", headers={"Authorization": "Bearer a-wrong-key"})
    with pytest.raises(Exception, match=r"40[13]"):
        websocket(locked, subprotocols=["omnitts.key.a-wrong-key"])
    assert KEY not in locked.log() and "a-wrong-key" not in locked.log()


def test_a_websocket_needs_the_key_before_the_handshake(locked: Served) -> None:
    with pytest.raises(Exception, match="401"):
        websocket(locked)
    with pytest.raises(Exception, match="401"):
        websocket(locked, subprotocols=["omnitts.key.wrong"])
    with pytest.raises(Exception, match="403"):
        websocket(locked, additional_headers=BEARER, origin="http://evil.example")
    with websocket(locked, subprotocols=[f"omnitts.key.{KEY}"]) as link:
        assert link.ping().wait(LONG_S)
    with websocket(locked, additional_headers=BEARER) as link:
        assert link.ping().wait(LONG_S)


def test_a_body_is_not_read_before_the_key_is_known(locked: Served) -> None:
    with connect(locked.url) as link:
        link.sendall(head_of(locked, SPEECH, "Content-Length: 9000000"))
        link.settimeout(LONG_S)
        assert wire.status(link.recv(65536)) == 401


# ---- foreign pages

FOREIGN = [
    "https://evil.example", "http://127.0.0.1.evil.example", "null", "http://127.0.0.1:1", "file://",
    "http://localhost@evil.example", "http://[", "http://{host}#x", "http://{host}?", "http://{host}/",
    "http://x@{host}", "ftp://{host}",
]  # fmt: skip


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize(("method", "path"), [("POST", SPEECH), ("POST", VOICES), ("DELETE", VOICES + "/ann")])
def test_a_foreign_origin_is_refused(server: Inside, origin: str, method: str, path: str) -> None:
    given = {**JSON, "Origin": origin.replace("{host}", server.host)}
    answer = ask(server.url, path, json.dumps(WORDS).encode(), method=method, headers=given)
    assert answer.status == 403 and answer.error["type"] == "permission_error"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_websocket_of_a_foreign_page_is_refused(server: Inside, origin: str) -> None:
    with pytest.raises(Exception, match="403"):
        websocket(server, origin=origin.replace("{host}", server.host))


def test_the_page_of_the_server_itself_is_not_foreign(server: Inside) -> None:
    for origin in (server.url, server.url.replace("http", "https")):
        assert ask(server.url, SPEECH, WORDS, headers={"Origin": origin}).status == 200
    with websocket(server, origin=server.url) as link:
        assert link.ping().wait(LONG_S)


def test_a_preflight_allows_nothing(server: Inside) -> None:
    asked = {
        "Origin": "https://evil.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    answer = ask(server.url, SPEECH, method="OPTIONS", headers=asked)
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example:{port}",
    "127.0.0.1@evil.example", "evil.example@127.0.0.1", "", "[::1", "127.0.0.1:80:80", "\u0130", "169.254.169.254",
    "127.0.0.1/..", "0.0.0.0:{port}", "localhost:{port}@evil.com", "localhost:evil.com", "evil.com:localhost",
    "localhost#", "localhost?x", "localhost:123456", "[::1]evil.com", "localhost evil", ":{port}",
])  # fmt: skip
@pytest.mark.parametrize("path", ["/", SPEECH, VOICES, SOCKET])
def test_dns_rebinding_is_refused(server: Inside, host: str, path: str) -> None:
    lines = [f"Host: {host.replace('{port}', str(server.port))}", "Connection: close", "Content-Length: 0"]
    head = head_of(server, path, *lines, method="POST" if path == SPEECH else "GET")
    assert wire.status(raw(server.url, head)) in (400, 403)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:{port}", "127.0.0.1:1", "[::1]", "[::1]:{port}", "LOCALHOST:80"]
)
def test_loopback_names_are_served(server: Inside, host: str) -> None:
    host = host.replace("{port}", str(server.port))
    assert ask(server.url, "/v1/models", headers={"Host": host}).status == 200


@pytest.mark.parametrize("kind", [
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/jsonp",
    "text/json",
])  # fmt: skip
def test_a_form_of_a_foreign_page_is_no_json(server: Inside, kind: str) -> None:
    refused(server, SPEECH, json.dumps(WORDS).encode(), 415, headers={"Content-Type": kind})


# ---- bodies


def speech_body(**fields: Any) -> bytes:
    return json.dumps({**WORDS, **fields}).encode()


@pytest.mark.parametrize("body", [
    b"", b"{", b"null", b"[]", b'"x"', b"1", b"\xff\xfe", b'{"input": "a"', b'{"input": "a",}', b"{'input': 'a'}",
    b"\x00", b'{"input": "\xff"}', b"\xef\xbb\xbf" + b"{", b'{"input": "a"} x',
])  # fmt: skip
def test_what_is_not_json_is_refused(server: Inside, body: bytes) -> None:
    refused(server, SPEECH, body, 400, headers=JSON)


@pytest.mark.parametrize("depth", [33, 5_000, 1_000_000])
@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_deep_json_is_refused(server: Inside, depth: int, pair: tuple[str, str]) -> None:
    body = f'{{"input": "a", "x": {pair[0] * depth}1{pair[1] * depth}}}'.encode()
    refused(server, SPEECH, body, 400, headers=JSON)


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\x00", "Go.\x00\x1b[31m", "\u202ego", "\U0010ffff", "a" * 300, "\n" * 5000 + "go"]
)
def test_strange_text_never_breaks_the_server(server: Inside, text: str) -> None:
    assert ask(server.url, SPEECH, {**WORDS, "input": text, "max_new_tokens": 5}).status in (200, 400, 502)


def test_too_long_a_text_is_refused_at_once(server: Inside) -> None:
    assert "20,000" in refused(server, SPEECH, {**WORDS, "input": "a" * 20_001}, 400)["message"]


@pytest.mark.parametrize("text", [
    "1" * 20_000, "a." * 10_000, "(" * 20_000, "-" * 19_999 + "a", "\u0301" * 20_000, " ." * 10_000, "1," * 10_000,
    "http://" * 2_800, "I" * 20_000, "a\u200d" * 10_000,
], ids=lambda text: ascii(text[:8]))  # fmt: skip
def test_a_text_that_is_slow_to_split_does_not_stop_the_others(server: Inside, text: str) -> None:
    """Another client gets its answer meanwhile, while the first one still waits."""
    body = speech_body(input=text)
    with connect(server.url) as link:
        link.sendall(head_of(server, SPEECH, f"Content-Length: {len(body)}") + body)
        assert ask(server.url, "/health").status == 200
        assert ask(server.url, SPEECH, WORDS).status == 200


def test_a_giant_in_chunks_is_cut_off(server: Inside) -> None:
    part = b"x" * (1 << 20)
    with connect(server.url) as link:
        sent = 0
        try:
            link.sendall(head_of(server, SPEECH, "Transfer-Encoding: chunked"))
            for _ in range(64):
                link.sendall(b"100000\r\n" + part + b"\r\n")
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = rest(link)
    assert sent < 64 and wire.status(answer) in (0, 413)  # a reset may overtake the answer


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_compressed_body_is_not_unpacked(server: Inside, coding: str) -> None:
    bomb = gzip.compress(b" " * (32 << 20) + speech_body())
    refused(server, SPEECH, bomb, 400, 415, headers={**JSON, "Content-Encoding": coding})


# ---- slow ones, many ones


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "])
def test_headers_that_do_not_come_end_the_connection(hasty: Inside, start: bytes) -> None:
    with connect(hasty.url) as link:
        link.sendall(start)
        assert wire.status(rest(link)) in (0, 408)


def test_headers_byte_by_byte_do_not_extend_the_time(hasty: Inside) -> None:
    with connect(hasty.url) as link:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for byte in head_of(hasty, SPEECH):  # they take more than six times the limit
                link.sendall(bytes([byte]))
                time.sleep(0.05)


def test_a_second_request_on_a_connection_has_the_same_time(server: Inside) -> None:
    with connect(server.url) as link:
        link.sendall(head_of(server, "/health", method="GET"))
        assert link.recv(65536).startswith(b"HTTP/1.1 200")
        with changed({"header_s": 0.6}):
            link.sendall(b"GET /hea")
            assert wire.status(rest(link)) in (0, 408)


@pytest.mark.parametrize(("path", "kind", "framing", "begun"), [
    (SPEECH, b"application/json", "Content-Length: 1000", b"{"),
    (SPEECH, b"application/json", "Transfer-Encoding: chunked", b"1\r\n{\r\n"),
    (VOICES, b"multipart/form-data; boundary=x", "Content-Length: 1000", b""),
])  # fmt: skip
def test_a_slow_body_is_408(server: Inside, path: str, kind: bytes, framing: str, begun: bytes) -> None:
    with connect(server.url) as link, changed({"body_s": 0.2}):
        link.sendall(head_of(server, path, framing).replace(b"application/json", kind) + begun)
        assert wire.status(rest(link)) == 408


def test_a_65th_connection_of_a_peer_is_closed(tmp_path: Path) -> None:
    """Loopback is exempt: programs of this machine and reverse proxies share its address."""
    address = own_address()
    with serving(tmp_path, host="0.0.0.0", insecure=True) as served:
        url = f"http://{address}:{served.port}"
        links = [connect(url) for _ in range(64)]
        try:
            with connect(url) as extra:
                assert wire.status(rest(extra)) in (0, 429, 503)
            assert ask(served.url.replace("0.0.0.0", "127.0.0.1"), "/health").status == 200
        finally:
            for link in links:
                link.close()
        eventually(lambda: is_open(url))


def is_open(url: str) -> bool:
    """Whether a new connection gets an answer; one too many may be reset before the answer is read."""
    try:
        return ask(url, "/health").status == 200
    except OSError:
        return False


def own_address() -> str:
    """This machine's address in its network; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])


def test_connections_are_limited_in_all(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"connections": 40}) as served:
        links = [connect(served.url) for _ in range(40)]
        try:
            with connect(served.url) as extra:
                assert wire.status(rest(extra)) in (0, 429, 503)
        finally:
            for link in links:
                link.close()
        eventually(lambda: is_open(served.url))


def test_a_thousand_connections_one_after_the_other_leave_nothing(server: Inside) -> None:
    before = server.descriptors()
    for _ in range(1000):
        connect(server.url).close()
    eventually(lambda: server.descriptors() <= before + 2)


# ---- smuggling and garbage

SMUGGLED = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("lines", [
    ["Content-Length: 5", "Transfer-Encoding: chunked"], ["Content-Length: 5", "Content-Length: 6"],
    ["Content-Length: -1"], ["Content-Length: 0x5"], ["Content-Length: 1e3"], ["Content-Length: "],
    ["Transfer-Encoding: chunked, identity"], ["Transfer-Encoding: xchunked"], ["Content-Length : 5"],
    ["X: a\r\n folded"], ["\x01: a"], ["X: a\x00b"], ["Content-Length: 99999999999999999999999"],
], ids=lambda lines: ascii(" ".join(lines))[:40])  # fmt: skip
def test_ambiguous_requests_are_refused(server: Inside, lines: list[str]) -> None:
    answer = raw(server.url, head_of(server, SPEECH, *lines) + b"0\r\n\r\n" + SMUGGLED.encode())
    assert wire.status(answer) in (0, *REFUSED)
    assert answer.count(b"HTTP/1.1 200") == 0, "the smuggled request was answered"


HOSTS = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
GARBAGE = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "zeros": b"\x00" * 4096,
    "another method": b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
    "another version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "bare line ends": b"GET / HTTP/1.1\nHost: x\n\n",
    "one long word": b"A" * 70_000,
    "a long address": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a large header": f"{HOSTS}X-Big: {'a' * 40_000}\r\n\r\n".encode(),
    "many headers": (HOSTS + "".join(f"X-{n}: {'a' * 100}\r\n" for n in range(400)) + "\r\n").encode(),
    "tiny headers": (HOSTS + "X-Tiny: a\r\n" * 20_000 + "\r\n").encode(),
    "a large cookie": f"{HOSTS}Cookie: {'a=b; ' * 10_000}\r\n\r\n".encode(),
    "blank lines": b"\r\n" * 10_000,
}


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage_is_refused_or_closed(hasty: Inside, data: str) -> None:
    assert wire.status(raw(hasty.url, GARBAGE[data])) in (0, *REFUSED)


@pytest.mark.parametrize("head", [
    "GET / HTTP/1.1\r\n", "GET /v1/models HTTP/1.0\r\n", f"{HOSTS}Host: evil.example\r\n",
    "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1\r\n",
    "GET http://127.0.0.1/v1/models HTTP/1.1\r\nHost: evil.example\r\n",
])  # fmt: skip
def test_a_request_without_one_host_is_refused(server: Inside, head: str) -> None:
    """A host in the request line does not count."""
    assert wire.status(raw(server.url, f"{head}Connection: close\r\n\r\n".encode())) in (400, 403, 404)


@pytest.mark.parametrize("path", [
    "/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/static/../page.py",
    "/page.html", "/.git/config", "/v1", "/v1/audio/speech/", "/V1/AUDIO/SPEECH", "/docs", "/%00", "/%ff",
    "/a%0d%0aX-Evil:%201", "/*", "/v1/audio/voices/../../health?x",
])  # fmt: skip
def test_unknown_paths_are_404(server: Inside, path: str) -> None:
    answer = ask(server.url, path)
    assert answer.status in (404, 405) and "x-evil" not in answer.headers
    assert b"root:" not in answer.body and answer.error["code"]


@pytest.mark.parametrize(("method", "path", "allowed"), [
    ("GET", SPEECH, "POST"), ("PUT", SPEECH, "POST"), ("DELETE", "/v1/models", "GET, HEAD"),
    ("TRACE", "/", "GET, HEAD"), ("POST", "/", "GET, HEAD"), ("PATCH", VOICES, "GET, HEAD, POST"),
    ("GET", f"{VOICES}/anna", "DELETE"), ("POST", "/metrics", "GET, HEAD"),
])  # fmt: skip
def test_other_methods_are_405(server: Inside, method: str, path: str, allowed: str) -> None:
    answer = ask(server.url, path, method=method)
    assert answer.status == 405 and answer.headers["allow"] == allowed
    assert answer.error["code"] == "method_not_allowed"
    assert answer.error["message"] == f"{method} is not allowed on {path}: it takes {allowed}"


def test_unknown_fields_are_named_without_breaking_the_headers(server: Inside) -> None:
    evil = {"x\r\nX-Evil: 1": 1, "\u65e5": 2, "a" * 5000: 3, "\x1b[31m": 4, "plain": 5}
    answer = ask(server.url, SPEECH, {**WORDS, **evil})
    assert answer.status == 200 and "x-evil" not in answer.headers
    assert "plain" in answer.headers["x-ignored-fields"] and len(answer.headers["x-ignored-fields"]) < 2000


def test_neither_texts_nor_control_characters_reach_the_log(locked: Served) -> None:
    evil = "x\n2026-01-01 root logged in\x1b[2J\r\x07\u2028\u202e"
    refused(locked, SPEECH, {**WORDS, "model": evil}, headers=BEARER)
    refused(locked, SPEECH, {**WORDS, "voice": evil}, headers=BEARER)
    ask(locked.url, "/%0a2026-01-01%20root%20logged%20in%1b[2J", headers=BEARER)
    ask(
        locked.url,
        "/health",
        headers={"User-Agent": "a\x1b[2Jb", "X-Request-Id": "a\x1bb", "X-Forwarded-For": "6.6.6.6"},
    )
    ask(locked.url, SPEECH, speech_body(), headers={**JSON, **BEARER, "User-Agent": "\u00ff\u009b2J"})
    log = locked.log()
    assert "\n2026-01-01 root" not in log
    assert not set(log) & {"\x1b", "\r", "\x07", "\x9b", "\u2028", "\u202e"}
    assert "6.6.6.6" not in log
    ask(locked.url, SPEECH, {**WORDS, "input": "A secret sentence."}, headers=BEARER)
    ask(locked.url, SPEECH, {**WORDS, "input": "A secret sentence.", "voice": "nobody"}, headers=BEARER)
    assert "secret sentence" not in locked.log()


# ---- names that are paths


@pytest.fixture(scope="module")
def bait(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real saved voice outside the folder of the server."""
    from omnitts_cli.speech import voice_files
    from omnitts_cli.voices import Cloned

    path = tmp_path_factory.mktemp("outside") / "bait.voice"
    voice_files.write(voice_files.SavedVoice("bait", Cloned(np.zeros(32, np.float32))), path)
    return path


def test_the_path_of_a_voice_file_is_not_a_voice(server: Inside, bait: Path) -> None:
    with_bait = (str(bait), f"file://{bait}", f"ann:60,{bait}:40", f"../../{bait.name}", f"{bait.stem}.voice")
    for name in (*with_bait, "/etc/passwd", "~/x.voice"):
        error = refused(server, SPEECH, {**WORDS, "voice": name}, 400, 404)
        assert "No such file" not in error["message"] and "safetensors" not in error["message"].lower()


@pytest.mark.parametrize("model", [
    "/etc", "../..", "hf:someone/else", "hf:Qwen/Qwen3-TTS", "./", "1.7b", "https://evil.example/model",
    "random:1.7b",
])  # fmt: skip
def test_a_request_opens_no_other_model(server: Inside, model: str) -> None:
    assert refused(server, SPEECH, {**WORDS, "model": model}, 404)["code"] == "model_not_found"
    assert [model.name for model in server.server.state.models.all] == ["random:toy"]


def tone(seconds: float = 3.0, rate: int = 24000, form: str = "WAV") -> bytes:
    out = io.BytesIO()
    time_ = np.arange(int(rate * seconds)) / rate
    soundfile.write(
        out, 0.3 * np.sin(2 * np.pi * 200 * time_) * np.sin(2 * np.pi * time_), rate, format=form, subtype="PCM_16"
    )
    return out.getvalue()


def upload(server: Inside, name: str, clip: bytes | None = None, filename: str = "clip.wav", **fields: str) -> Any:
    given = {"name": name, "consent": "yes, by letter", **fields}
    body, kind = multipart(given.items(), [("audio_sample", filename, tone() if clip is None else clip)])
    return ask(server.url, VOICES, body, headers={"Content-Type": kind})


BAD_NAMES = [
    "../evil", "..", ".", "a/b", "a\\b", "/etc/evil", "evil\x00", "con", "nul.txt", "UPPER", "a" * 65, "", "-rf",
    "\u00e4", "a\n", "~", "a b", "%2e%2e%2fevil", "evil.", "\u2024\u2024/evil",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_are_paths_are_not_saved(server: Inside, name: str) -> None:
    before = server.files()
    answer = upload(server, name)
    assert answer.status == 400, answer.body
    assert server.files() == before


@pytest.mark.parametrize(
    "name", ["..%2fbait", "%2e%2e%2fbait.voice", "..", "%2fetc%2fpasswd", "a%00", "..%5cbait", "%c0%ae%c0%ae%2fbait"]
)
def test_names_that_are_paths_are_not_deleted(server: Inside, name: str) -> None:
    bait = server.voices.parent / "bait.voice"
    bait.write_bytes(b"keep")
    answer = ask(server.url, f"{VOICES}/{name}", method="DELETE")
    assert answer.status in REFUSED
    assert bait.read_bytes() == b"keep"


@pytest.mark.parametrize(
    "filename", ["../../evil.wav", "/etc/cron.d/evil", "evil.voice", "a\\..\\evil", "x" * 300 + ".wav"]
)
def test_the_name_of_an_uploaded_file_is_nothing(server: Inside, filename: str) -> None:
    assert upload(server, "fine", filename=filename).status == 200
    assert {path.name for path in server.files()} <= {"fine.voice", "bait.voice"}
    assert ask(server.url, f"{VOICES}/fine", method="DELETE").status == 200


def test_voices_are_not_replaced_or_deleted_unasked(server: Inside) -> None:
    assert ask(server.url, f"{VOICES}/ann", method="DELETE").status == 403
    assert upload(server, "ann").status == 409
    assert upload(server, "ann", replace="true").status in (403, 409)
    assert upload(server, "mine").status == 200
    before = (server.voices / "mine.voice").read_bytes()
    assert upload(server, "mine", tone(2.0)).status == 409
    assert (server.voices / "mine.voice").read_bytes() == before
    assert upload(server, "mine", tone(2.0), replace="true").status == 200
    assert (server.voices / "mine.voice").read_bytes() != before
    assert ask(server.url, f"{VOICES}/mine", method="DELETE").status == 200


# ---- clips


def data_url(clip: bytes, kind: str = "audio/wav") -> str:
    return f"data:{kind};base64,{base64.b64encode(clip).decode()}"


def clone(server: Inside, source: str, *status: int) -> dict[str, Any]:
    return refused(server, SPEECH, {**WORDS, "ref_audio": source}, *(status or (400, 413)))


def test_a_good_clip_is_cloned(server: Inside) -> None:
    for source in (data_url(tone()), base64.b64encode(tone()).decode(), data_url(tone(form="FLAC"), "audio/flac")):
        assert ask(server.url, SPEECH, {**WORDS, "ref_audio": source, "x_vector_only_mode": True}).status == 200


@pytest.mark.parametrize("source", [
    "file:///etc/passwd", "FILE:///etc/passwd", " file:///etc/passwd", "file:/etc/passwd",
    "file://localhost/etc/passwd", "/etc/passwd", "~/.ssh/id", "\\\\host\\share", "ftp://x/y", "gopher://x",
    "data:", "data:audio/wav,abc", "data:audio/wav;base64,!!!!", "jar:file:///x!/", "pipe:0", "concat:/etc/passwd",
    "subfile:/etc/passwd",
])  # fmt: skip
def test_clips_are_never_read_from_files(server: Inside, source: str) -> None:
    message = clone(server, source)["message"]
    assert "root:" not in message and "No such file" not in message and "Permission" not in message


class Listener:
    """A port that counts who calls."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.calls = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                link, _ = self.socket.accept()
            except OSError:
                return
            self.calls += 1
            link.close()


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.socket.close()


@pytest.mark.parametrize("address", [
    "http://127.0.0.1:{port}/a.wav", "https://127.0.0.1:{port}/a.wav", "https://localhost:{port}/",
    "HTTP://127.0.0.1:{port}/",
])  # fmt: skip
def test_no_address_is_fetched_unless_its_host_is_allowed(server: Inside, listener: Listener, address: str) -> None:
    clone(server, address.replace("{port}", str(listener.port)), 400, 403)
    assert listener.calls == 0


INSIDE = [
    "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "0x7f.1", "127.1", "10.0.0.1",
    "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]",
    "224.0.0.1", "[::]",
]  # fmt: skip


@pytest.fixture(scope="module")
def curious(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose owner has allowed hosts that are inside, as a name on the internet may resolve to them."""
    names = [name.strip("[]") for name in INSIDE]
    with serving(tmp_path_factory.mktemp("curious"), allow_ref_host=tuple(names)) as served:
        yield served


@pytest.mark.parametrize("host", INSIDE)
def test_private_addresses_are_not_fetched_even_from_allowed_hosts(
    curious: Served, listener: Listener, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(clips, "Pinned", lambda host, port, address: opened.append(address))
    clone(curious, f"https://{host}:{listener.port}/a.wav", 400, 403)
    assert listener.calls == 0 and opened == []


@pytest.mark.parametrize("address", [
    "http://localhost:{port}/a.wav", "https://localhost@evil.example/", "https://evil.example#@localhost/",
    "https://evil.example\\@localhost/", "https://user:pass@localhost:{port}/", "https:///a.wav",
    "https://localhost:99999/", "https://localhost:{port}\r\nX: y/",
])  # fmt: skip
def test_other_schemes_and_disguised_hosts_are_refused(curious: Served, listener: Listener, address: str) -> None:
    clone(curious, address.replace("{port}", str(listener.port)), 400, 403)
    assert listener.calls == 0


def wav_header(rate: int = 24000, channels: int = 1, claimed: int = 0x7FFFFFF0, data: bytes = b"\0" * 4800) -> bytes:
    head = (
        b"RIFF"
        + struct.pack("<I", 36 + min(claimed, 0xFFFFFFC0))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, channels, rate, rate * 2 & 0xFFFFFFFF, 2, 16)
    )
    return head + b"data" + struct.pack("<I", claimed) + data


def long_flac() -> bytes:
    """An hour of silence in a few dozen kilobytes."""
    out = io.BytesIO()
    with soundfile.SoundFile(out, "w", 8000, 1, "PCM_16", format="FLAC") as file:
        for _ in range(60):
            file.write(np.zeros(8000 * 60, np.int16))
    return out.getvalue()


def long_wav() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 1, 8000, 0, "NONE", ""))
        file.writeframes(b"\x80" * 8000 * 400)
    return out.getvalue()


BOMBS = {
    "hour of flac": long_flac,
    "400 s of wav": long_wav,
    "rate 0": lambda: wav_header(0),
    "rate 2^32-1": lambda: wav_header(0xFFFFFFFF),
    "65535 channels": lambda: wav_header(channels=65535),
    "no channels": lambda: wav_header(channels=0),
    "only a header": lambda: wav_header(data=b""),
    "empty": lambda: b"",
    "text": lambda: b"not audio at all " * 50,
    "zip": lambda: b"PK\x03\x04" + b"\0" * 500,
    "gzip of a wav": lambda: gzip.compress(tone()),
    "torn flac": lambda: tone(form="FLAC")[:200],
    "torn ogg": lambda: b"OggS" + b"\xff" * 4000,
    "mp3 noise": lambda: b"\xff\xfb\x90\x64" * 4000,
    "m4a noise": lambda: b"\0\0\0\x20ftypM4A " + b"\xff" * 4000,
    "nan": lambda: nan_wav(),
    "pickle": lambda: b"\x80\x04c__builtin__\neval\n",
    "silence": lambda: wav_header(claimed=96000, data=b"\0" * 96000),
}


def nan_wav() -> bytes:
    out = io.BytesIO()
    soundfile.write(out, np.full(48000, np.nan, np.float32), 24000, format="WAV", subtype="FLOAT")
    return out.getvalue()


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_and_broken_clips_are_refused(server: Inside, bomb: str) -> None:
    before = server.memory()
    clone(server, data_url(BOMBS[bomb]()))
    assert server.memory() - before < 256 << 20


PLAYLISTS = {
    "m3u8": "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10.0,\nhttp://127.0.0.1:{port}/a.ts\n#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile '/etc/passwd'\n",
    "concat http": "ffconcat version 1.0\nfile 'http://127.0.0.1:{port}/a.wav'\n",
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n",
    "dash": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period><AdaptationSet><Representation><BaseURL>http://127.0.0.1:{port}/</BaseURL></Representation></AdaptationSet></Period></MPD>',
    "rtsp": "rtsptext\nrtsp://127.0.0.1:{port}/\n",
}


@pytest.mark.parametrize("kind", PLAYLISTS)
def test_a_clip_that_is_a_playlist_fetches_nothing(server: Inside, listener: Listener, kind: str) -> None:
    text = PLAYLISTS[kind].replace("{port}", str(listener.port)).encode()
    message = clone(server, data_url(text, "application/vnd.apple.mpegurl"))["message"]
    assert listener.calls == 0 and "root:" not in message


def test_a_large_upload_is_refused(server: Inside) -> None:
    body, kind = multipart(
        [("name", "big"), ("consent", "y")], [("audio_sample", "a.wav", b"\0" * (10_100_000 + (64 << 10)))]
    )
    answer = ask(server.url, VOICES, body, headers={"Content-Type": kind})
    assert answer.status == 413 and not (server.voices / "big.voice").exists()


@pytest.mark.parametrize(
    "made",
    [
        lambda: multipart([(f"f{n}", "x") for n in range(100_000)]),
        lambda: multipart([("name", "a"), ("name", "b"), ("consent", "y")], [("audio_sample", "a", b"x")]),
        lambda: multipart([("name", "a"), ("consent", "y")], [("audio_sample", str(n), b"x") for n in range(1000)]),
        lambda: (b"", "multipart/form-data; boundary=x"),
        lambda: (b"--x\r\n", "multipart/form-data; boundary=x"),
        lambda: (b"x" * 5000, "multipart/form-data"),
        lambda: (b"x" * 5000, "multipart/form-data; boundary=" + "b" * 5000),
        lambda: (b"--x\r\n" + b"A: b\r\n" * 9000, "multipart/form-data; boundary=x"),
        lambda: (
            b'--x\r\nContent-Disposition: form-data; name="' + b"n" * 50_000 + b'"\r\n\r\ny\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
        lambda: multipart([("name", "a" * 60_000), ("consent", "y")], [("audio_sample", "a", b"x")]),
        lambda: multipart([("name", b"\xff\xfe"), ("consent", "y")], [("audio_sample", "a", b"x")]),
        lambda: multipart([("name", "a"), ("consent", "y")]),
        lambda: (speech_body(), "application/json"),
    ],
    ids=[
        "100,000 fields", "two names", "1000 files", "empty", "unfinished", "no boundary", "long boundary",
        "many part headers", "long field name", "long value", "not UTF-8", "no file", "JSON",
    ],
)  # fmt: skip
def test_hostile_forms_are_refused(server: Inside, made: Any) -> None:
    body, kind = made()
    before = server.files()
    answer = ask(server.url, VOICES, body, headers={"Content-Type": kind})
    assert answer.status in (400, 413, 415), answer.body[:200]
    assert server.files() == before


def test_a_voice_file_from_elsewhere_is_checked(server: Inside) -> None:
    pickled = b"\x80\x04\x95cposix\nsystem\n(S'touch evil'\ntR."
    huge = struct.pack("<Q", 1 << 40) + b"{}"
    lying = struct.pack("<Q", 60) + b'{"x":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4]}}'
    for data in (b"", pickled, huge, lying, b"\0" * 100):
        body, kind = multipart([("name", "evil"), ("consent", "y")], [("voice_file", "x.voice", data)])
        assert ask(server.url, VOICES, body, headers={"Content-Type": kind}).status == 400
    assert not (server.voices / "evil.voice").exists()


# ---- websockets


def received(link: Any, limit_s: float = LONG_S) -> dict[str, Any]:
    """The next text message."""
    while isinstance(message := link.recv(timeout=limit_s), bytes):
        pass
    return dict(json.loads(message))


CONFIG = json.dumps({"type": "session.config", "response_format": "pcm", "stream_audio": True, "seed": 1})


def test_bad_messages_get_an_error_and_the_session_goes_on(server: Inside) -> None:
    deep = '{"type": "session.config", "a": ' + "[" * 1000 + "]" * 1000 + "}"
    kinds = [{}, {"type": 5}, {"type": "no.such"}, {"type": "session.config", "speed": 9}, {"type": "input.text"}]
    with websocket(server) as link:
        for message in ("", "{", "[]", "null", deep, '{"type": "session.config", "speed": NaN}', b"\x00\x01",
                        *map(json.dumps, kinds)):  # fmt: skip
            link.send(message)
            assert received(link)["type"] == "error", message
        link.send('{"type": "input.done"}')
        assert received(link)["total_sentences"] == 0


def test_a_huge_message_ends_the_connection(server: Inside) -> None:
    with websocket(server) as link:
        with pytest.raises(ConnectionClosed) as closed:
            link.send(json.dumps({"type": "input.text", "text": "a" * (9 << 20)}))
            while True:
                assert received(link)["type"] == "error"
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009


def test_an_utterance_has_a_limit(server: Inside) -> None:
    with websocket(server) as link:
        link.send(CONFIG)
        try:
            for _ in range(25):
                link.send(json.dumps({"type": "input.text", "text": "word " * 200}))
            while (message := received(link))["type"] != "error":
                pass
            assert "20,000" in json.dumps(message)
        except ConnectionClosed as closed:
            assert closed.rcvd is not None and closed.rcvd.code in (1008, 1009)


def test_the_path_of_a_file_is_not_a_voice_of_a_websocket(server: Inside, bait: Path) -> None:
    with websocket(server) as link:
        link.send(json.dumps({"type": "session.config", "voice": str(bait)}))
        link.send(json.dumps({"type": "input.text", "text": "Go."}))
        link.send('{"type": "input.done"}')
        assert received(link)["type"] == "error"


def test_a_flood_of_messages_is_ended_or_survived(server: Inside) -> None:
    with websocket(server) as link:
        link.send(CONFIG)
        try:
            for _ in range(300):
                link.send('{"type": "input.done"}')
                link.send('{"type": "response.cancel"}')
        except ConnectionClosed:
            pass
        assert ask(server.url, "/health").status == 200


def test_a_websocket_that_leaves_without_a_goodbye_frees_its_slot(server: Inside) -> None:
    with websocket(server) as link:
        link.send(CONFIG)
        link.send(json.dumps({"type": "input.text", "text": "A long way home, and further still. " * 40}))
        link.send('{"type": "input.done"}')
        assert received(link)["type"] == "audio.start"
        link.socket.close()
    assert server.idle()


@pytest.mark.parametrize(
    "frame",
    [
        b"\x81\x05hello", b"\xc1\x85\0\0\0\0hello", b"\x83\x80\0\0\0\0", b"\x80\x80\0\0\0\0",
        b"\x89\xfe\x00\x80" + b"\0" * 132, b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0",
        b"\x81\x84\0\0\0\0\xff\xfe\xfd\xfc", b"\x88\x81\0\0\0\0\x01",
    ],
    ids=[
        "unmasked", "compressed", "reserved opcode", "continuation of nothing", "large ping", "2^63 bytes", "not UTF-8",
        "half a code",
    ],
)  # fmt: skip
def test_broken_frames_end_the_websocket(server: Inside, frame: bytes) -> None:
    lines = [
        "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13", "Sec-WebSocket-Extensions: permessage-deflate",
    ]  # fmt: skip
    with connect(server.url) as link:
        link.sendall(head_of(server, SOCKET, *lines, method="GET"))
        got = b""
        while b"\r\n\r\n" not in got:
            got += link.recv(4096)
        assert got.startswith(b"HTTP/1.1 101") and b"permessage-deflate" not in got
        link.sendall(frame)
        answer = got.partition(b"\r\n\r\n")[2] + rest(link)
    assert b"\x88" in answer or not answer


# ---- clients that leave, or do not take what they asked for


def test_a_client_that_leaves_frees_its_slot(server: Inside) -> None:
    for fields in ({}, {"stream": False}, {"stream_format": "sse"}, {"response_format": "mp3"}):
        body = speech_body(**{"input": "A long way home, and further still. " * 60, **fields})
        with connect(server.url) as link:
            link.sendall(head_of(server, SPEECH, f"Content-Length: {len(body)}") + body)
            eventually(server.live)  # it began
        assert server.idle(), f"{fields}: the slot is still taken"


def test_a_full_queue_says_so_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, max_queue=2, slots=1) as served:
        body = speech_body(ignore_eos=True, max_new_tokens=1500)  # one piece, which holds the only slot
        with (
            first_sound_only(served.engines()[0]),
            connect(served.url) as first,
            connect(served.url) as second,
            connect(served.url) as third,
        ):
            first.sendall(head_of(served, SPEECH, f"Content-Length: {len(body)}") + body)
            first.recv(100)  # it speaks
            for link in (second, third):
                link.sendall(head_of(served, SPEECH, f"Content-Length: {len(body)}") + body)
            eventually(lambda: served.server.state.waiting() == 2)
            answer = ask(served.url, SPEECH, WORDS)  # all others wait
            assert answer.status == 429 and int(answer.headers["retry-after"]) >= 1
            assert answer.error["type"] == "rate_limit_error"
        assert served.idle()
        assert ask(served.url, SPEECH, WORDS).status == 200


def test_damaged_requests(server: Inside) -> None:
    """A few cases of benchmarks/fuzz.py, which sends them for as long as it is told to."""
    log = len(server.log())
    statuses = {fuzz.door_case(server.url, seed) for seed in range(80)}
    assert {200, 400} <= statuses
    assert "Traceback" not in server.log()[log:]
