"""The CPU's library is compiled where there is a compiler, and its name says of which sources."""

import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from omnitts_cli.kernels.cpu import build, library

HERE = Path(build.__file__)
HOUSE = Path(__file__).parents[3]


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["build"])
    assert build.compiler() is None and build.main() == 1
    assert capsys.readouterr().err == "no C compiler found (looked for cc, gcc, clang, ziglang)\n"


def test_zig_is_a_compiler_too_and_the_only_one_on_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without `-mcpu=baseline` it would use all that this processor has, in every variant."""
    monkeypatch.setattr(build, "find_spec", lambda name: object())
    monkeypatch.setattr(build.shutil, "which", lambda name: name)
    assert build.compiler() == ("cc",)
    monkeypatch.setattr(build.sys, "platform", "win32")
    assert build.compiler()[1:] == ("-P", "-m", "ziglang", "cc", "-mcpu=baseline")
    assert build.library().suffix == ".dll"
    with pytest.raises(build.BuildError, match="not gcc"):
        build.build("gcc", target=tmp_path / "native.dll")


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho out of order; exit 3\n")
    broken.chmod(0o755)
    (tmp_path / "to").mkdir()
    with pytest.raises(build.BuildError, match="out of order"):
        build.build(str(broken), target=tmp_path / "to" / "native.so")
    assert list((tmp_path / "to").iterdir()) == []


def test_the_name_goes_with_the_sources(tmp_path: Path) -> None:
    copied = tmp_path / "native"
    shutil.copytree(build.FOLDER, copied, ignore=shutil.ignore_patterns("*.so"))
    before = build.library(copied).name
    assert before == build.library().name
    (copied / "language.c").write_text("// changed\n")
    assert build.library(copied).name != before


def test_an_installer_needs_the_standard_library_only() -> None:
    lines = (
        "import runpy, sys; runpy.run_path(sys.argv[1]); print('torch' in sys.modules, 'omnitts_cli' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", lines, str(HERE)], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


class Hook:
    """Stands in for hatchling, which is installed only where packages are built."""

    def __init__(self) -> None:
        self.root, self.app, self.warnings = str(HOUSE), self, list[str]()

    def display_warning(self, words: str) -> None:
        self.warnings.append(words)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    interface = ModuleType("hatchling.builders.hooks.plugin.interface")
    interface.BuildHookInterface = Hook
    for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    return runpy.run_path(str(HOUSE / ".ci" / "hatch_build.py"))["CPULibrary"]()


def test_an_install_without_a_compiler_goes_on(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("false", "no-such-compiler"):
        monkeypatch.setenv("CC", command)
        built: dict[str, Any] = {"force_include": {}, "pure_python": True}
        hook.initialize("standard", built)
        assert built == {"force_include": {}, "pure_python": True}
    assert len(hook.warnings) == 2 and all("The CPU library is left out" in words for words in hook.warnings)


PRETEND = """#!/bin/sh
while [ "$1" != -o ]; do shift; done; : > "$2"
"""


@pytest.mark.parametrize(
    ("system", "accepted", "tag"),
    [
        ("linux", ["manylinux_2_36_x86_64", "manylinux2014_x86_64", "linux_x86_64"], "py3-none-linux_x86_64"),
        ("darwin", ["macosx_14_0_arm64", "macosx_13_0_universal2"], "py3-none-macosx_14_0_arm64"),
        ("win32", ["win_amd64"], None),
    ],
)
def test_the_tag_of_a_wheel_is_one_that_its_installer_accepts(
    system: str, accepted: list[str], tag: str | None, hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows no library is built, so the wheel has no platform tag."""
    root, command = tmp_path / "a path with spaces", tmp_path / "cc"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(HERE.parent, root / "omnitts_cli/kernels/cpu", ignore=ignored)
    command.write_text(PRETEND)
    command.chmod(0o755)
    monkeypatch.setenv("CC", str(command))
    monkeypatch.setitem(hook.initialize.__globals__, "platform_tags", lambda: accepted)
    monkeypatch.setattr(sys, "platform", system)
    hook.root, built = str(root), {"force_include": {}, "pure_python": True}
    hook.initialize("standard", built)
    assert built.get("tag") == tag and built["pure_python"] == (tag is None) == bool(hook.warnings)
    assert len(built["force_include"]) == len(list(root.rglob("*.so"))) == (tag is not None)
    assert tag or "on Windows only zig" in hook.warnings[0]


@pytest.mark.parametrize("tag", [*build.TARGETS, "any"])
def test_a_wheel_to_publish_takes_no_library_that_lies_in_the_folder(
    tag: str, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every system the command of zig is run, and its library is the only one inside."""
    lines: list[list[str]] = []

    class Compiled:
        returncode, stderr = 0, ""

        def __init__(self, line: list[Any], **about: Any) -> None:
            lines.append([str(word) for word in line])
            Path(line[line.index("-o") + 1]).touch()

        def communicate(self) -> tuple[bytes, None]:
            return b"", None

    monkeypatch.setattr(subprocess, "Popen", Compiled)
    monkeypatch.setattr(subprocess, "run", Compiled)
    monkeypatch.setenv("OMNITTS_WHEEL", tag)
    built: dict[str, Any] = {"force_include": {}, "pure_python": True}
    hook.initialize("standard", built)
    if tag == "any":
        assert built == {"force_include": {}, "pure_python": True} and not lines
        return
    target = build.TARGETS[tag]
    assert built["tag"] == f"py3-none-{tag}" and not built["pure_python"]
    ((source, inside),) = built["force_include"].items()
    assert Path(inside).name == build.library(target=target).name and build.FOLDER not in Path(source).parents
    assert len(lines) == len(build.jobs(target.machine)) + 1
    assert all(target.triple in line and line[1:5] == ["-P", "-m", "ziglang", "cc"] for line in lines)
    hook.finalize("standard", built, "")
    assert not Path(source).exists()


@pytest.mark.slow
def test_a_wheel_is_for_one_platform_and_any_python(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if build.compiler() is None:
        pytest.skip("there is no compiler")
    monkeypatch.delenv("CC", raising=False)
    built: dict[str, Any] = {"force_include": {}, "pure_python": True}
    hook.initialize("standard", built)
    assert list(built["force_include"]) == [str(build.library())] and not built["pure_python"]
    assert built["tag"].startswith("py3-none-") and "any" not in built["tag"] and not hook.warnings


@pytest.mark.slow
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_both_compilers(command: str, tmp_path: Path) -> None:
    if shutil.which(command) is None:
        pytest.skip(f"there is no {command}")
    made = build.build(command, ("-Wall", "-Wextra", "-Werror"), tmp_path / "native.so")
    assert os.listdir(tmp_path) == ["native.so"]
    library = ctypes.CDLL(str(made))
    assert all(hasattr(library, f"frame_{variant}") for variant in build.variants())


@pytest.mark.slow
def test_two_at_once(tmp_path: Path) -> None:
    if build.compiler() is None:
        pytest.skip("there is no compiler")
    lines = f"from pathlib import Path; import runpy; runpy.run_path({str(HERE)!r})['build'](target=Path('native.so'))"
    running = [subprocess.Popen([sys.executable, "-c", lines], cwd=tmp_path) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert os.listdir(tmp_path) == ["native.so"]
    ctypes.CDLL(str(tmp_path / "native.so"))


SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
EMULATED = ("aarch64", "riscv64", "s390x")  # s390x is big-endian
DRIVERS = {
    **{f"gcc-{name}-sanitized": ("gcc", (*flags, *SANITIZED)) for name, flags in build.X86.items()},
    "gcc-avx2-threads": ("gcc", ("-O1", "-g", "-fsanitize=thread", *build.X86["avx2"])),
    "clang": ("clang", ("-O3",)),
    "musl": ("musl-gcc", ("-O3", "-static")),
    **{name: (f"{name}-linux-gnu-gcc", ("-O3", "-static")) for name in EMULATED},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRIVERS)
def test_it_runs_without_python(name: str, tmp_path: Path) -> None:
    """Sanitized for each instruction set, threads watched, with clang, with musl; Arm, RISC-V and z emulated."""
    command, flags = DRIVERS[name]
    run = [f"qemu-{name}"] if name in EMULATED else []
    if not all(map(shutil.which, [command, *run])):
        pytest.skip(f"needs {command} {' '.join(run)}")
    if "sanitized" in name and name.split("-")[1] not in library.usable():
        pytest.skip("not of this processor")
    made, fixed = str(tmp_path / "driver"), ("-std=gnu11", "-pthread", "-ffp-contract=fast", "-DVARIANT=driven")
    source = [f"-I{build.FOLDER}", str(Path(__file__).with_name("driver.c")), "-o", made, "-lm"]
    subprocess.run([command, *fixed, *flags, *source], check=True)
    done = subprocess.run([*run, made], capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
