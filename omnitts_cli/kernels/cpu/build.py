"""Compile the C files of `native/` into one library: `python -m omnitts_cli.kernels.cpu [--compiler clang] [-- FLAGS]`.

Installing the package does the same where there is a compiler. The library lies beside its sources and has their hash
in its name, so one built from other sources is never loaded. Only the standard library is imported, because an
installer has nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "native"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=fast", "-fno-math-errno")
X86 = {
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma"),
    "avx2": ("-mavx2", "-mfma"),
    "plain": (),
}
"""Instruction sets compiled for x86-64, fastest first. `native/choose.c` says which one the processor has."""


class BuildError(Exception):
    """Raised on Windows, without a compiler, and when the compiler failed."""


def variants(machine: str | None = None) -> dict[str, tuple[str, ...]]:
    machine = (machine or platform.machine()).lower()
    return X86 if machine in ("x86_64", "amd64") else {"plain": ()}


def library(folder: Path = FOLDER) -> Path:
    """The path of the library for these sources."""
    content = hashlib.sha256(repr((FLAGS, X86)).encode())
    for source in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        content.update(source.name.encode() + source.read_bytes())
    return folder / f"native-{platform.machine().lower()}-{content.hexdigest()[:16]}.so"


def compiler() -> str | None:
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def build(command: str | None = None, extra: tuple[str, ...] = (), target: Path | None = None) -> Path:
    """Compile and link, then move the library into place in one step, so that builds may run at the same time."""
    if sys.platform == "win32":  # MinGW does not align the stack for AVX, and MSVC lacks vector types
        raise BuildError("the CPU library cannot be compiled on Windows")
    command = command or compiler()
    if command is None:
        raise BuildError(f"no C compiler found (looked for {', '.join(COMPILERS)})")
    target = target or library()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as work:
        objects, running = [], []
        for variant, flags in variants().items():
            for source in ("language.c", "codec.c"):
                made = Path(work, f"{source}.{variant}.o")
                line = [command, *FLAGS, *flags, *extra, f"-DVARIANT={variant}", "-c", FOLDER / source, "-o", made]
                running.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
                objects.append(made)
        said = [process.communicate()[0].decode(errors="replace") for process in running]
        if any(process.returncode for process in running):
            raise BuildError(f"{command} failed:\n" + "".join(said))
        linked = Path(work, target.name)
        line = [command, *FLAGS, *extra, "-shared", FOLDER / "choose.c", *objects, "-o", linked, "-lm"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"{command} failed:\n{done.stderr}")
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
    for old in FOLDER.glob("native-*.so"):
        if old != made:
            old.unlink(missing_ok=True)
    sys.stdout.write(f"{made}\n")
    return 0
