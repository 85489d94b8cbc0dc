"""Compile the C files of `native/` into one library: `python -m omnitts_cli.kernels.cpu [--compiler clang] [-- FLAGS]`.

Installing the package from its sources does the same where there is a compiler; wheels of `.ci/wheels` have the library
inside. The library lies beside its sources and has their hash in its name, so one built from other sources is never
loaded. Only the standard library is imported, because an installer has nothing else.
"""

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "native"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-pthread", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno")
AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", *AVX2)
X86: dict[str, tuple[str, ...]] = {"avx512": AVX512, "avx2": AVX2, "plain": ()}
ARM: dict[str, tuple[str, ...]] = {"plain": ()}
QUANTISED_X86: dict[str, tuple[str, ...]] = {
    "avx512vnni": (*AVX512, "-mavx512vnni"),
    "avxvnni": (*AVX2, "-mavxvnni"),
    "avx2": AVX2,
    "plain": (),
}
QUANTISED_ARM: dict[str, tuple[str, ...]] = {
    "dotprod": ("-mcpu=generic+dotprod",),
    "plain": (),
}  # zig knows no -march of Arm
"""Instruction sets that are compiled, fastest first. `native/choose.c` says which one the processor has."""
ONE_ORDER = ("-ffp-contract=off",)
"""For 8 bits: results have the same bits on every instruction set, so no product may be fused with a sum."""
OLDER = ("avx512vnni", "avxvnni", "dotprod")
"""Sets that an older compiler may not know; then the library has none of them."""
ZIG = (sys.executable, "-P", "-m", "ziglang", "cc")
"""A clang for every system, from the package ziglang. Without a target it would use all that this processor has."""


class Target(NamedTuple):
    """A system for which a wheel is made: what Python calls its processor, and what zig calls it."""

    machine: str
    triple: str
    suffix: str = ".so"
    flags: tuple[str, ...] = ()


TARGETS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": Target("x86_64", "x86_64-linux-gnu.2.17"),
    "manylinux_2_17_aarch64.manylinux2014_aarch64": Target("aarch64", "aarch64-linux-gnu.2.17"),
    "macosx_11_0_arm64": Target("arm64", "aarch64-macos.11.0", flags=("-Wl,-install_name,native.so",)),
    "win_amd64": Target("amd64", "x86_64-windows-gnu", ".dll"),
}
"""By the platform tags of their wheels."""


class BuildError(Exception):
    """Raised without a compiler, and when the compiler failed."""


def variants(machine: str | None = None) -> dict[str, tuple[str, ...]]:
    """Of language.c and codec.c."""
    return X86 if _kind(machine) == "x86" else ARM


def quantised_variants(machine: str | None = None) -> dict[str, tuple[str, ...]]:
    """Of quantised.c."""
    kind = _kind(machine)
    return QUANTISED_X86 if kind == "x86" else QUANTISED_ARM if kind == "arm" else {"plain": ()}


def _kind(machine: str | None) -> str:
    machine = (machine or platform.machine()).lower()
    return "x86" if machine in ("x86_64", "amd64") else "arm" if machine in ("aarch64", "arm64") else "other"


def jobs(machine: str | None = None) -> list[tuple[str, str, tuple[str, ...]]]:
    """What is compiled: a source, a variant, and its flags."""
    plain = [(source, name, flags) for name, flags in variants(machine).items() for source in ("language.c", "codec.c")]
    return plain + [("quantised.c", name, flags + ONE_ORDER) for name, flags in quantised_variants(machine).items()]


def library(folder: Path = FOLDER, target: Target | None = None) -> Path:
    """The path of the library for these sources on this machine, or on that of a wheel."""
    here = Target(platform.machine().lower(), "", ".dll" if sys.platform == "win32" else ".so")
    machine, suffix = (target or here).machine, (target or here).suffix
    content = hashlib.sha256(repr((FLAGS, jobs(machine))).encode())
    for source in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        content.update(source.name.encode() + source.read_bytes())
    return folder / f"native-{machine}-{content.hexdigest()[:16]}{suffix}"


def compiler() -> tuple[str, ...] | None:
    """On Windows zig alone: MinGW does not align the stack for AVX, and MSVC lacks vector types."""
    found: list[tuple[str, ...]]
    found = [] if sys.platform == "win32" else [(path,) for name in COMPILERS if (path := shutil.which(name))]
    if find_spec("ziglang"):
        found.append((*ZIG, "-mcpu=baseline"))
    return found[0] if found else None


def build(command: str | None = None, extra: tuple[str, ...] = (), target: Path | None = None) -> Path:
    """Compile for this machine."""
    if sys.platform == "win32" and command:
        raise BuildError(f"on Windows only zig can compile the CPU library, not {command}")
    words = (command,) if command else compiler()
    if words is None:
        looked = "ziglang" if sys.platform == "win32" else ", ".join((*COMPILERS, "ziglang"))
        raise BuildError(f"no C compiler found (looked for {looked})")
    return _build(words, extra, target or library(), platform.machine(), OLDER)


def build_for(tag: str, folder: Path) -> Path:
    """Compile for the wheel with this platform tag, all instruction sets and without warnings."""
    target = TARGETS[tag]
    flags = ('-DORIGIN="wheel"', "-Wall", "-Wextra", "-Werror", "-s", *target.flags)
    return _build((*ZIG, "-target", target.triple), flags, folder / library(target=target).name, target.machine)


def _build(
    command: tuple[str, ...], extra: tuple[str, ...], target: Path, machine: str, optional: tuple[str, ...] = ()
) -> Path:
    """Compile and link, then move the library into place in one step, so that builds may run at the same time."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as work:
        running = []
        for source, variant, flags in jobs(machine):
            made = Path(work, f"{source}.{variant}.o")
            files = "-c", str(FOLDER / source), "-o", str(made)
            line = [*command, *FLAGS, *flags, *extra, f"-DVARIANT={variant}", *files]
            running.append((variant, made, subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)))
        said = [process.communicate()[0].decode(errors="replace") for *_, process in running]
        if any(process.returncode and variant not in optional for variant, _, process in running):
            raise BuildError(f"{' '.join(command)} failed:\n" + "".join(said))
        objects = [str(made) for _, made, process in running if not process.returncode]
        linked = Path(work, target.name)
        line = [*command, *FLAGS, *extra, "-shared", str(FOLDER / "choose.c"), *objects, "-o", str(linked), "-lm"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{' '.join(command)} failed:\n{done.stderr}")
        linked.replace(target)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description="Compile the CPU library of omnitts.")
    parser.add_argument("--compiler", help="default: the first of " + ", ".join(COMPILERS))
    parser.add_argument("flags", nargs="*", help="more flags for the compiler, after --")
    options = parser.parse_args()
    try:
        made = build(options.compiler, tuple(options.flags))
    except (BuildError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for old in FOLDER.glob("native-*"):
        if old != made:
            old.unlink(missing_ok=True)
    sys.stdout.write(f"{made}\n")
    return 0
