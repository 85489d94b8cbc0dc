"""Keys of the server, and the addresses that need one. What a request may not do is in test_attacks.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from serving import start
from wire import Answer

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.server.guard import Guard, digest, is_loopback, read_keys
from omnitts_cli.server.problems import Problem


def test_keys_come_from_a_file_and_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# clients\n\nann: one \nbob:two:three\n")
    assert read_keys(str(file), "four") == {digest("one"): "ann", digest("two:three"): "bob", digest("four"): "key"}
    assert read_keys(None, None) == {}


@pytest.mark.parametrize(("content", "problem"), [("ann", "line 1"), ("a:1\n:2", "line 2"), ("#", "0 keys")])
def test_a_bad_file_of_keys(content: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(InputError, match=problem):
        read_keys(str(file), None)
    with pytest.raises(InputError, match="no such file"):
        read_keys(str(tmp_path / "missing"), None)


def test_an_open_address_needs_a_key() -> None:
    assert is_loopback("LOCALHOST") and is_loopback("[::1]") and is_loopback("127.9.9.9")
    assert not is_loopback("example.org") and not is_loopback("10.0.0.1")
    with pytest.raises(UsageError, match=r"10\.0\.0\.1 lets other machines in"):
        Guard.of("10.0.0.1", {}, insecure=False)
    assert Guard.of("10.0.0.1", {}, insecure=True).hosts == {"10.0.0.1"}
    assert Guard.of("0.0.0.0", {digest("k"): "k"}, insecure=False).any_host
    assert not Guard.of("0.0.0.0", {}, insecure=True, allowed=["Example.org"]).any_host


def test_a_browsers_question_is_answered_for_allowed_origins_only() -> None:
    with start(keys={digest("sesame"): "me"}, cors_origin=("https://page.test",)) as server:

        def asked(origin: str, **more: str) -> Answer:
            headers = {"Origin": origin, "Access-Control-Request-Method": "POST", **more}
            return server.request("OPTIONS", "/v1/audio/speech", headers=headers)

        answer = asked("https://page.test", **{"Access-Control-Request-Headers": "authorization,content-type"})
        assert (answer.status, answer.body) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == "https://page.test"
        allowed = {name.strip().lower() for name in answer.headers["access-control-allow-headers"].split(",")}
        assert {"authorization", "content-type"} <= allowed
        assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
        assert int(answer.headers["access-control-max-age"]) > 0
        assert asked("https://other.test").status == 403
        assert server.request("OPTIONS", "/v1/audio/speech").status == 405
        page = {"Origin": "https://page.test", "Authorization": "Bearer sesame"}
        spoken = server.request("POST", "/v1/audio/speech", {"input": "Hello."}, page)
        assert spoken.status == 200 and "X-Ignored-Fields" in spoken.headers["access-control-expose-headers"]
        refused = server.request("POST", "/v1/audio/speech", {"input": "Hello."}, {"Origin": "https://page.test"})
        assert refused.status == 401 and refused.headers["access-control-allow-origin"] == "https://page.test"


def refused_host(value: str) -> bool:
    scope = {"type": "http", "path": "/v1/models", "method": "GET", "client": ("127.0.0.1", 1),
             "headers": [(b"host", value.encode())]}  # fmt: skip
    try:
        Guard().check(scope)
    except Problem as problem:
        return problem.code == "host_not_allowed"
    return False


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000", "[::1]", "LOCALHOST:80"])
def test_hosts_of_this_machine(host: str) -> None:
    assert not refused_host(host)


@pytest.mark.parametrize(
    "host",
    ["localhost:8000@evil.com", "localhost:evil.com", "evil.com:localhost", "localhost#", "localhost/evil",
     "localhost?x", "localhost:123456", "[::1]evil.com", "[::1", "localhost evil", "", ":8000"],
)  # fmt: skip
def test_hosts_that_only_look_like_this_machine(host: str) -> None:
    assert refused_host(host)


@pytest.mark.parametrize(
    ("origin", "fine"),
    [("http://localhost:8000", True), ("https://localhost:8000", True), ("http://localhost:8000#x", False),
     ("http://localhost:8000?", False), ("http://localhost:8000/", False), ("http://x@localhost:8000", False),
     ("ftp://localhost:8000", False), ("null", False)],
)  # fmt: skip
def test_a_page_of_the_server_itself(origin: str, fine: bool) -> None:
    headers = [(b"host", b"localhost:8000"), (b"origin", origin.encode())]
    scope = {"type": "http", "path": "/v1/models", "method": "POST", "client": ("127.0.0.1", 1), "headers": headers}
    if fine:
        assert Guard().check(scope) == "127.0.0.1"
    else:
        with pytest.raises(Problem, match="may not use this server"):
            Guard().check(scope)


def test_a_key_is_compared_with_all_its_characters() -> None:
    guard = Guard({digest("sesame"): "me"})
    for value, fine in [("sesame", True), (" sesame ", True), ("\xa0sesame", False), ("sesame\xa0", False)]:
        headers = [(b"host", b"localhost"), (b"authorization", f"Bearer {value}".encode("latin-1"))]
        scope = {"type": "http", "path": "/v1/models", "method": "GET", "client": ("127.0.0.1", 1), "headers": headers}
        if fine:
            assert guard.check(scope) == "me"
        else:
            with pytest.raises(Problem, match="API key"):
                guard.check(scope)
