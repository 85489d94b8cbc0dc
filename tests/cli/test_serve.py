"""omnitts serve, up to the server itself: what it prints, what it hands on, and its exit code."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from command import Omnitts

from omnitts_cli.cli import serve as command

run = pytest.importorskip("omnitts_cli.server.run")


class Recorded:
    """Stands in for the server: it loads its models, and ends with `code`."""

    code = 0
    made: ClassVar[list["Recorded"]] = []

    def __init__(self, options: Any, guard: Any, models: Any, load: Any, sockets: Any, **more: Any) -> None:
        self.guard, self.ready = guard, more["ready"]
        self.models, self.load = models, load
        self.made.append(self)

    def run(self) -> int:
        with self.load(self.models[0]) as opened:
            self.rate = opened.sample_rate
        self.ready()
        return self.code


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> type[Recorded]:
    monkeypatch.setattr(run, "HttpServer", Recorded)
    monkeypatch.setattr(Recorded, "made", [])
    return Recorded


def test_the_address_is_printed_before_the_model_loads(
    omnitts: Omnitts, served: type[Recorded], tmp_path: Path
) -> None:
    socket = tmp_path / "s.sock"
    done = omnitts("serve", "-m", "random:toy", "-d", "cpu", "--port", "0", "--socket", str(socket))
    assert done.code == 0 and done.out.startswith(b"http://127.0.0.1:")
    assert f"unix:{socket}" in done.err and done.err.rstrip().endswith("ready")
    assert served.made[0].rate > 0 and served.made[0].guard.uploads and not socket.exists()


def test_the_exit_code_is_the_servers(omnitts: Omnitts, served: type[Recorded], tmp_path: Path) -> None:
    served.code = 143
    keys = tmp_path / "keys"
    keys.write_text("ann:secret")
    options = ("--socket", "off", "--api-key-file", str(keys), "--allow-upload", "off")
    done = omnitts("serve", "-m", "random:toy", "-d", "cpu", "--port", "0", "--json", *options)
    assert done.code == 143 and done.objects[0]["status"] == "listening" and len(done.objects[0]["urls"]) == 1
    assert list(served.made[0].guard.keys.values()) == ["ann"] and not served.made[0].guard.uploads


def test_missing_packages_are_named(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "REQUIRED", {"not_there": "not-there", "nor_this": "nor-this"})
    omnitts("serve").ended(2, "needs not-there, nor-this, which are not installed", "pip install not-there nor-this")
