"""The command as a test calls it: in this process, with a home of its own, and everything it says caught."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import warm
from golden_set import checkpoint

from omnitts_cli.cli.app import run

PYTHON = [sys.executable, "-m", "omnitts_cli"]


@dataclass
class Done:
    """What a call left behind."""

    code: int
    out: bytes
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The last JSON object on stdout."""
        return self.objects[-1]

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.decode().splitlines()]

    def ended(self, code: int, *said: str) -> "Done":
        """Itself, if it ended with this code and said all of that on stderr."""
        missing = [words for words in said if words not in self.err]
        assert self.code == code and not missing, f"code {self.code}, not said {missing}: {self.err}"
        return self


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with nothing in it, and an empty folder to work in."""
    for name in list(os.environ):
        if name.startswith(("OMNITTS_", "XDG_")) or name in ("NO_COLOR", "FORCE_COLOR", "HF_HUB_OFFLINE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))  # where nobody's server listens
    monkeypatch.setenv("OMNITTS_THREADS", "1")  # threads that wait for each other crawl on a busy machine
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


Omnitts = Callable[..., Done]
Started = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def omnitts(home: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Omnitts:
    """`omnitts("say", "hi", stdin=b"")` in this process."""

    def call(*arguments: str, stdin: bytes = b"") -> Done:
        path = home / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            code = run(list(arguments))
        out, err = capfdbinary.readouterr()
        return Done(code, out, err.decode("utf-8", "replace"))

    return call


@pytest.fixture
def landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the embedded voice, with a random stand-in of English and two voices in its place."""
    from omnitts_cli.weights import find, store

    folder = tmp_path / "embedded" / "tiny"
    shutil.copytree(checkpoint("custom_voice"), folder)
    config = json.loads((folder / "config.json").read_text())
    config["talker_config"]["spk_id"] = {"henry": 1082, "clara": 1081}
    config["talker_config"]["spk_is_dialect"] = {"henry": False, "clara": False}
    voices = {"henry": "a calm man", "clara": "a friendly woman"}
    config["omnitts"] = {
        "kinds": ["named"], "languages": ["english"], "voices": voices, "style": False, "longest_piece": 110,
        "plain_letters": True,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(find, "TINY", folder)
    monkeypatch.setattr(store, "TINY", folder)
    return folder


@pytest.fixture
def no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without a voice in it."""
    from omnitts_cli.weights import find, store

    for module in (find, store):
        monkeypatch.setattr(module, "TINY", tmp_path / "nowhere")


@pytest.fixture
def silent_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any sound output."""
    from omnitts_cli.cli import doctor, sound_out
    from omnitts_cli.errors import DeviceError

    def refuse(*_: object) -> None:
        raise DeviceError("there is no sound output on this machine", hint="-o speech.wav")

    for module in (sound_out, doctor):
        monkeypatch.setattr(module, "open_speaker", refuse)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that a test starts; none outlives it."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def started(home: Path, processes: list[subprocess.Popen[bytes]]) -> Started:
    """`started("say", ...)`: the command as a process of its own; with fresh=True it is a new interpreter too."""

    def start(*arguments: str, fresh: bool = False, **options: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        kind = subprocess.Popen if fresh else warm.Process
        process = kind([*PYTHON, *arguments], **{**pipes, **options})
        processes.append(process)
        return process

    return start


def interrupted_in(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, call: int = 1) -> Iterator[int]:
    """Sends SIGINT at the beginning of a call of a function. Returns the counter of its calls, which starts at 1."""
    plain, calls = getattr(place, name), itertools.count(1)

    def interrupted(*arguments: Any, **named: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(*arguments, **named)

    monkeypatch.setattr(place, name, interrupted)
    return calls
