"""Runs the persistent CUDA kernels on a CPU, each thread as a fiber (cuda_emulator.h): tests without a GPU.

The kernels' own source is compiled by a C++ compiler; inline PTX becomes calls. What it cannot show is time, and memory
that other programs see later than this one wrote it.
"""

import ctypes
import getpass
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

HEADER = Path(__file__).with_name("cuda_emulator.h")
FOLDER = Path(tempfile.gettempdir()) / f"omnitts-emulated-{getpass.getuser()}"
CALLS = (  # what an instruction becomes
    (r"^$|setmaxnreg|fence|prefetch|griddepcontrol|wgmma\.commit_group", "nothing"),
    (r"wgmma\.mma_async.*f32\.f16", "multiply_halves"),
    (r"wgmma\.mma_async", "multiply"),
    (r"wgmma\.wait_group", "meet_lanes"),
    (r"barrier\.cluster", "meet_cluster"),
    (r"cluster_ctarank", "rank"),
    (r"mapa", "place_there"),
    (r"st\.async", "send"),
    (r"createpolicy", "zero"),
    (r"mbarrier\.try_wait", "try_wait"),
    (r"expect_tx", "expect"),
    (r"cp\.async\.bulk\.tensor", "copy_box"),
    (r"cp\.async\.bulk.*multicast", "copy_to_both"),
    (r"cp\.async\.bulk", "copy"),
    (r"cp\.async\.commit_group", "commit"),
    (r"cp\.async\.wait_group (\d+)", "wait_group"),
    (r"cp\.async\.wait_all", "wait_all"),
    (r"cp\.async\.cg", "copy16"),
    (r"mbarrier\.arrive.*shared::cluster", "arrive_there"),
    (r"mbarrier\.arrive", "arrive"),
    (r"mbarrier\.init.*\],(\d+)", "init"),
    (r"mbarrier\.init", "init"),
    (r"bar\.sync 1,(\d+)", "meet"),
    (r"bar\.sync 1,%0", "meet"),
    (r"cvt\.rn\.bf16x2", "round"),
    (r"cvt\.rn\.(?:satfinite\.)?f16x2", "round_halves"),
    (r"cvt\.f32\.f16", "single"),
    (r"sin\.approx", "sine"),
    (r"ld\.shared\.v4", "load_shared"),
    (r"st\.shared", "store_shared"),
    (r"ld\.(?:relaxed|global)", "load"),
    (r"st\.relaxed", "store"),
    (r"red\.relaxed.*add\.u64", "add"),
    (r"m16n8k16", "product16"),
    (r"m16n8k8", "product8"),
    (r"trap|st\.volatile", "trap"),
)


def compiler() -> str | None:
    """A C++ compiler for this processor, if there is one and the emulator knows the processor."""
    return shutil.which("c++") if platform.machine() == "x86_64" else None


in_the_emulator = pytest.mark.skipif(compiler() is None, reason="needs a C++ compiler on x86-64")


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """Pairs of text and the inside of the `asm` statement that follows it; the last is empty."""
    begin = 0
    for found in re.finditer(r"\basm\s*(?:volatile\s*)?\(", text):
        end, depth, quoted = found.end(), 1, False
        while depth:
            quoted ^= text[end] == '"'
            depth += 0 if quoted else {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield text[begin : found.start()], text[found.end() : end - 1]
        begin = end
    yield text[begin:], ""


def call_of(statement: str) -> str:
    """An `asm` statement's inside as a call: outputs first, then inputs."""
    template = "".join(re.findall(r'"([^"]*)"', re.split(r'"\s*:', statement)[0] + '"'))
    name, count = next((name, found) for pattern, name in CALLS if (found := re.search(pattern, template)))
    operands = re.findall(r'"[=+]?[rlfh]"\s*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)', statement)
    if name in ("nothing", "meet_lanes", "meet_cluster", "trap"):
        operands = []
    return f"emu_{name}({', '.join([*operands, *count.groups()])})"


def translated(text: str) -> str:
    """CUDA C++ with inline PTX -> C++ for the emulator."""
    return "".join(before + (call_of(statement) if statement else "") for before, statement in pieces(text))


class EmulatedKernel:
    """Stands in for `nvrtc.Kernel`. `order` is the seed of the order in which threads run; 0: in turn."""

    order = 0
    replaced: Mapping[str, str] = {}
    """Lines of the source to be replaced, such as the number of layers."""

    def __init__(
        self,
        source: Path,
        name: str,
        defines: Mapping[str, int],
        arch: str,
        grid: int,
        block: int,
        shared_bytes: int,
        early: bool = False,
        cluster: int = 1,
    ) -> None:
        text = source.read_text()
        for line, other in self.replaced.items():
            assert text.count(line) == 1, line
            text = text.replace(line, other)
        while found := re.search(r'^#include "(.*)"$', text, flags=re.M):
            text = text.replace(found[0], (source.parent / found[1]).read_text())
        text = re.sub(r"^extern __shared__.*$", "", text, flags=re.M)
        macros = "".join(f"#define {key} {value}\n" for key, value in defines.items())
        whole = f"""{macros}{HEADER.read_text()}
{translated(text)}
static void run() {{ call({name}, argument); }}
extern "C" const char *launch(const void *with, unsigned grid, unsigned block, unsigned bytes, unsigned order,
                              unsigned cluster) {{
  return launch_grid({name}, run, with, grid, block, bytes, order, cluster);
}}
"""
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        library = FOLDER / f"{hashlib.sha256(whole.encode()).hexdigest()[:24]}.so"
        if not library.exists():
            made, code = library.with_suffix(f".{os.getpid()}"), library.with_suffix(f".{os.getpid()}.cpp")
            code.write_text(whole)
            command = [str(compiler()), "-std=c++17", "-O2", "-w", "-shared", "-fPIC", "-o", str(made), str(code)]
            subprocess.run(command, check=True)
            made.replace(library)
            code.unlink()
        self._launch = ctypes.CDLL(str(library)).launch
        self._launch.restype = ctypes.c_char_p
        self._sizes, self._cluster = (grid, block, shared_bytes), cluster

    def launch(self, arguments: ctypes.Structure, grid: int = 0) -> None:
        fixed, *sizes = self._sizes
        why = self._launch(ctypes.byref(arguments), grid or fixed, *sizes, self.order, self._cluster)
        if why is not None:
            pytest.fail(why.decode())


def tensor_map(address: int, height: int, width: int, rows: int) -> ctypes.Array[ctypes.c_uint64]:
    """Stands in for `prefetched.tensor_map`: `struct Box` of the header."""
    return (ctypes.c_uint64 * 16)(address, width, height, rows)


class Overflow:
    """Stands in for `cuda.Overflow`, without pinned memory."""

    def __init__(self) -> None:
        self.flag = ctypes.c_int(0)
        self.address = ctypes.addressof(self.flag)

    def check(self) -> None:
        assert not self.flag.value
