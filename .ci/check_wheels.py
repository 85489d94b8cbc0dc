"""Prints what is wrong with the files of a folder that would be published: `python .ci/check_wheels.py dist`.

The libraries for 64-bit Arm and for Windows run in emulators, where these are installed (Debian: qemu-user and
libc6-arm64-cross, wine64); nothing here runs the one for macOS, so its functions are only listed.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

MOST_BYTES = 100_000_000  # of a file that an index accepts
BUILD = runpy.run_path(str(Path(__file__).parents[1] / "omnitts_cli/kernels/cpu/build.py"))
STARTS = {  # of a library: its format and its processor
    "x86_64-linux": re.compile(rb"\x7fELF\x02\x01.{12}\x3e\x00", re.DOTALL),
    "aarch64-linux": re.compile(rb"\x7fELF\x02\x01.{12}\xb7\x00", re.DOTALL),
    "aarch64-macos": re.compile(rb"\xcf\xfa\xed\xfe\x0c\x00\x00\x01", re.DOTALL),
    "x86_64-windows": re.compile(rb"MZ.{,1000}PE\x00\x00\x64\x86", re.DOTALL),
}
GLIBC = re.compile(rb"\0GLIBC_(\d+)\.(\d+)")
SIGNATURE = b"\x1d\x00\x00\x00\x10\x00\x00\x00"  # the load command of macOS, without which it kills the process


def functions(machine: str) -> list[str]:
    """What a library for this processor has to export."""
    plain = [f"{name}_{set_}" for set_ in BUILD["variants"](machine) for name in ("stack", "choose", "frame", "decode")]
    parts = ("stack", "frame", "multiply", "text", "make", "sum")
    eight = [f"quantised_{name}_{set_}" for set_ in BUILD["quantised_variants"](machine) for name in parts]
    return ["native_origin", "native_variant", "native_quantised_variant", *plain, *eight]


def wrong_with(content: bytes, target: Any) -> list[str]:
    """What is wrong with a library for a target of build.py."""
    system = system_of(target)
    found = [] if STARTS[system].match(content) else [f"it is not for {system}"]
    mark = b"_" if system.endswith("macos") else b""
    missing = [name for name in functions(target.machine) if mark + name.encode() + b"\0" not in content]
    found += [f"it lacks {', '.join(missing)}"] if missing else []
    if system.endswith("linux"):
        allowed = tuple(map(int, target.triple.split(".")[1:]))
        newer = {f"{a}.{b}" for x, y in GLIBC.findall(content) if (a := int(x), b := int(y)) > allowed}
        found += [f"it needs glibc {' and '.join(sorted(newer))}"] if newer else []
    if system.endswith("macos") and SIGNATURE not in content[:4096]:
        found.append("it is not signed")
    return found if b"wheel " in content else [*found, "it does not say that it is from a wheel"]


def wrong_with_wheel(path: Path) -> list[str]:
    tag = path.stem.split("-", 4)[4]
    with zipfile.ZipFile(path) as wheel:
        inside = [name for name in wheel.namelist() if PurePosixPath(name).name.startswith("native-")]
        if tag == "any":
            return [f"{name} is in the wheel without a library" for name in inside]
        target = BUILD["TARGETS"].get(tag)
        if target is None:
            return [f"{tag} is not one of the systems that .ci/wheels builds for"]
        wanted = BUILD["library"](target=target).name
        if [PurePosixPath(name).name for name in inside] != [wanted]:
            return [f"it has {inside}, not {wanted}"]
        return wrong_with(wheel.read(inside[0]), target)


WINE = "/usr/lib/wine/wine64"
RUNNERS = {
    "x86_64-linux": ("/usr/bin/env",),
    "aarch64-linux": ("/usr/bin/qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
    "x86_64-windows": (WINE,),
}
DRIVER = Path(__file__).parents[1] / "tests/kernels/cpu/wheel_driver.c"


def digests(folder: Path) -> dict[str, list[str] | None]:
    """What each wheel's library computes, one line for each instruction set; None if it cannot run here."""
    found: dict[str, list[str] | None] = {}
    for wheel in sorted(folder.glob("*.whl")):
        target = BUILD["TARGETS"].get(tag := wheel.stem.split("-", 4)[4])
        if target is None:
            continue
        run = RUNNERS.get(system_of(target), ("",))
        if not all(map(os.path.exists, (run[0], *run[2:]))):
            found[tag] = None
            continue
        with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(wheel) as content:
            name = next(name for name in content.namelist() if PurePosixPath(name).name.startswith("native-"))
            library, driver = content.extract(name, work), Path(work, "driver.exe")
            shutil.copy(library, work)
            line = [*BUILD["ZIG"], "-target", target.triple, "-O2", DRIVER, "-o", driver]
            subprocess.run(line, check=True)
            quiet = {**os.environ, "WINEPREFIX": f"{work}/wine", "WINEDEBUG": "-all"}
            sets = BUILD["quantised_variants"](target.machine)
            line = [*run, f"./{driver.name}", f"./{PurePosixPath(name).name}", *sets]
            done = subprocess.run(line, cwd=work, env=quiet, capture_output=True, text=True, check=True)
            found[tag] = done.stdout.splitlines()[1:]
    return found


def system_of(target: Any) -> str:
    return "-".join(target.triple.split(".")[0].split("-")[:2])


def main(folder: Path) -> int:
    files = sorted(folder.iterdir())
    found = [f"{path.name}: {path.stat().st_size:,} bytes" for path in files if path.stat().st_size > MOST_BYTES]
    found += [f"{path.name}: {words}" for path in files if path.suffix == ".whl" for words in wrong_with_wheel(path)]
    made = {path.stem.split("-", 4)[4] for path in files if path.suffix == ".whl"}
    found += [f"there is no wheel for {tag}" for tag in sorted({*BUILD["TARGETS"], "any"} - made)]
    found += [] if any(path.name.endswith(".tar.gz") for path in files) else ["there is no sdist"]
    for path in files:
        sys.stdout.write(f"{path.stat().st_size / 1e6:5.1f} MB  {path.name}\n")
    ran = digests(folder)
    for tag, lines in ran.items():
        sys.stdout.write(f"{tag}: {', '.join(lines) if lines else 'not run here'}\n")
    if len({line.split()[1] for lines in ran.values() for line in lines or []}) > 1:
        found.append("libraries compute different results")
    sys.stdout.write("".join(f"WRONG: {words}\n" for words in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
