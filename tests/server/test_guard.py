"""Keys of the server, and the addresses that need one. What a request may not do is in test_attacks.py."""

from pathlib import Path

import pytest
from serving import start
from wire import Answer

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.server.guard import Guard, digest, is_loopback, read_keys
from omnitts_cli.settings.commands import Serving


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
        Guard.of(Serving(host="10.0.0.1"), {})
    assert Guard.of(Serving(host="10.0.0.1", insecure=True), {}).hosts == {"10.0.0.1"}
    assert Guard.of(Serving(host="0.0.0.0"), {digest("k"): "k"}).any_host
    assert not Guard.of(Serving(host="0.0.0.0", insecure=True, allowed_host=("Example.org",)), {}).any_host


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
