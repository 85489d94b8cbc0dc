"""Child processes: each imports what its parent would, and nothing from the folder that the command was started in."""

import asyncio
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli import child
from omnitts_cli.audio.encode import choose_format
from omnitts_cli.fleet.part import SoundRecipe, Writers
from omnitts_cli.server import clips
from omnitts_cli.server.engines import Engines
from omnitts_cli.speech import tts

PACKAGE = Path(child.__file__).parent
LIBRARIES = ("numpy", "soundfile", "soxr", "torch", "omnitts_cli", "sitecustomize", "usercustomize")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder holds a file for every module that a child might import. Each leaves a mark when it is."""
    mark = tmp_path / "executed"
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in (*sys.stdlib_module_names, *LIBRARIES):
        (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r} + ' ')\nraise SystemExit(9)\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path, "relative"])  # as in `python -c`
    return mark


def decoded() -> None:
    async def work() -> bytes:
        process = await clips.start()
        out, _ = await process.communicate(b"no sound")
        return out

    assert b"error" in asyncio.run(work())


def written() -> None:
    writers = Writers(1, SoundRecipe(choose_format(None, "wav", model_rate=24_000), 24_000))
    try:
        path = Path.cwd().parent / "out.wav"
        writers.make(path, [np.zeros(24_000, np.float32)])
        assert path.stat().st_size > 48_000
    finally:
        writers.close()


def listed() -> None:
    done = subprocess.run(child.command("omnitts_cli.fleet.listing", ".", ".py", ""), capture_output=True, check=True)
    assert len(done.stdout) > 1000


def opened() -> None:
    engines = Engines()
    try:
        with engines.open("random:toy", device="cpu", threads=1, slots=1, opener=tts.load) as model:
            assert model.speak("Hello.", seed=1).samples.size
    finally:
        engines.close()


@pytest.mark.parametrize("start", [decoded, written, listed, opened])
def test_no_child_imports_from_the_current_folder(hostile: Path, start: Callable[[], None]) -> None:
    start()
    assert not hostile.exists(), hostile.read_text()


def test_the_command_itself_does_not_either(hostile: Path) -> None:
    """`python -m omnitts_cli` begins with the current folder on its path, and the package then takes it away."""
    code = "import os, sys; from omnitts_cli.__main__ import main; sys.path.insert(0, os.getcwd()); main()"
    done = subprocess.run(child.python(code, "voices", "list", "--json"), capture_output=True, check=False)
    assert done.returncode == 0 and b"henry" in done.stdout, done.stderr[-500:]
    assert not hostile.exists(), hostile.read_text()


def test_every_process_of_this_package_starts_there() -> None:
    """Whoever names the interpreter could forget what `child` does."""
    files = [path for path in PACKAGE.rglob("*.py") if "training" not in path.parts]  # that runs from a checkout only
    named = [path for path in files if "sys.executable" in path.read_text("utf-8")]
    build = PACKAGE / "kernels" / "cpu" / "build.py"  # runs before the package is installed
    assert sorted(named) == [PACKAGE / "child.py", build]
    assert runpy.run_path(str(build))["ZIG"][:2] == (sys.executable, "-P")


def test_relative_entries_of_the_path_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["", "relative", "/usr/lib/somewhere"])
    assert child.trusted() == ["/usr/lib/somewhere"]
