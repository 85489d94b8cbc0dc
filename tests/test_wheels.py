"""The wheels that would be published: their tags, what is inside, and that an installed one speaks."""

import runpy
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from omnitts_cli.kernels.cpu import build

HOUSE = Path(__file__).parents[1]
TAGS = list(build.TARGETS)


@pytest.fixture
def checks() -> dict[str, Any]:
    return runpy.run_path(str(HOUSE / ".ci" / "check_wheels.py"))


def pretended(checks: dict[str, Any], tag: str, start: bytes, *more: bytes) -> bytes:
    """What looks like a library: its first bytes, and the names of its functions."""
    target = build.TARGETS[tag]
    mark = b"_" if "macos" in target.triple else b""
    names = [mark + name.encode() for name in checks["functions"](target.machine)]
    return b"\0".join([start, *names, b"wheel Clang", *more, b""])


ELF = b"\x7fELF\x02\x01" + bytes(12)
STARTS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": ELF + b"\x3e\0",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": ELF + b"\xb7\0",
    "macosx_11_0_arm64": struct.pack("<II", 0xFEEDFACF, 0x0100000C) + struct.pack("<II", 0x1D, 16),
    "win_amd64": b"MZ" + bytes(100) + b"PE\0\0\x64\x86",
}


@pytest.mark.parametrize("tag", TAGS)
def test_a_library_that_does_not_fit_its_wheel(checks: dict[str, Any], tag: str) -> None:
    target, wrong = build.TARGETS[tag], checks["wrong_with"]
    assert wrong(pretended(checks, tag, STARTS[tag]), target) == []
    for other in set(TAGS) - {tag}:
        assert wrong(pretended(checks, tag, STARTS[other]), target)
    assert wrong(pretended(checks, tag, STARTS[tag]).replace(b"wheel", b"here"), target)
    best = next(iter(build.quantised_variants(target.machine)))
    assert best in wrong(pretended(checks, tag, STARTS[tag]).replace(best.encode(), b"older"), target)[0]
    newer = wrong(pretended(checks, tag, STARTS[tag], b"GLIBC_2.29", b"GLIBC_2.2.5"), target)
    assert newer == (["it needs glibc 2.29"] if "linux" in tag else [])


def test_a_wheel_has_the_library_of_its_system(checks: dict[str, Any], tmp_path: Path) -> None:
    def wheel(tag: str, name: str | None, content: bytes = b"") -> Path:
        path = tmp_path / f"omnitts_cli-0.1.0-py3-none-{tag}.whl"
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("omnitts_cli/__init__.py", "")
            if name:
                made.writestr(f"omnitts_cli/kernels/cpu/native/{name}", content)
        return path

    wrong, target = checks["wrong_with_wheel"], build.TARGETS["win_amd64"]
    named = build.library(target=target).name
    assert named.endswith(".dll")
    assert wrong(wheel("any", None)) == [] and wrong(wheel("any", named)) and wrong(wheel("win_amd64", None))
    assert wrong(wheel("linux_x86_64", named)), "an index refuses this tag"
    assert wrong(wheel("win_amd64", "native-amd64-0123456789abcdef.dll")), "of other sources"
    assert wrong(wheel("win_amd64", named, pretended(checks, "win_amd64", STARTS["win_amd64"]))) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_wheels_are_made_and_an_installed_one_speaks(tmp_path: Path) -> None:
    """`.ci/wheels` checks names, tags, sizes and symbols, and runs libraries in emulators, where there are any."""
    done = subprocess.run([HOUSE / ".ci" / "wheels"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" MB  ") == len(TAGS) + 2
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    home = subprocess.run([python, "-c", "import site; print(*site.getsitepackages())"], capture_output=True, text=True)
    others = [path for path in sys.path if path.endswith("site-packages")]
    Path(home.stdout.strip(), "others.pth").write_text("\n".join(others))  # all that it depends on, torch among it
    machine = "aarch64" if build.library().name.startswith("native-aarch64") else "x86_64"
    wheel = next((HOUSE / "dist").glob(f"*-manylinux_*_{machine}.whl"))
    install = [python, "-m", "pip", "install", "--no-index", "--ignore-installed", "--no-deps", wheel]
    subprocess.run(install, cwd=tmp_path, check=True, capture_output=True)

    def omnitts(*words: str) -> str:
        line = [tmp_path / "venv" / "bin" / "omnitts", *words]
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
        return subprocess.run(line, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True).stdout

    assert "cpu library: compiled, from the wheel" in omnitts("doctor", "--offline", "-d", "cpu")
    omnitts("say", "-d", "cpu", "Hello, world.", "-o", "hello.wav")
    assert (tmp_path / "hello.wav").stat().st_size > 20_000
