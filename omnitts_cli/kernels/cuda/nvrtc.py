"""Compiles CUDA C++ with NVRTC, which comes with torch, and launches it through the driver. No nvcc is needed.

Compiled kernels are kept in the user's cache folder. Their names hold a digest of everything they depend on, and
each file begins with the digest of its content, so a damaged file is compiled again.
"""

import ctypes
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


class CompileError(Exception):
    """A kernel that cannot be compiled, loaded or launched here."""


class _Attribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("padding", c_int), ("value", c_uint * 16))


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3), ("block", c_uint * 3), ("shared_bytes", c_uint), ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)), ("attribute_count", c_uint),
    )  # fmt: skip


def structure(name: str, pointers: str, *others: tuple[str, Any]) -> type[ctypes.Structure]:
    """The parameter of a kernel, as the kernel's source has it: pointers first."""
    return type(name, (ctypes.Structure,), {"_fields_": [*((p, c_void_p) for p in pointers.split()), *others]})


def place(x: Tensor | None) -> int:
    """The address of a tensor's data; 0 for none."""
    return 0 if x is None else x.data_ptr()


COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
EARLY = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
MOST_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The libraries of the driver and NVRTC."""
    major = (torch.version.cuda or "").split(".")[0]
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CompileError("the NVIDIA driver is missing: nvidia-smi shows whether it is installed") from error
    try:
        return driver, ctypes.CDLL(f"libnvrtc.so.{major}")
    except OSError as error:
        package = f"nvidia-cuda-nvrtc{'-cu12' * (major == '12')}"
        raise CompileError(f"NVRTC {major} is missing: pip install {package}") from error


def why_not() -> str:
    """Why nothing can be compiled here; empty if kernels can be compiled."""
    try:
        _libraries()
    except CompileError as error:
        return str(error)
    return ""


def version() -> str:
    """NVRTC and its version, or why there is none."""
    if reason := why_not():
        return f"no NVRTC: {reason}"
    major, minor = c_int(), c_int()
    _check("nvrtcVersion", _libraries()[1].nvrtcVersion(byref(major), byref(minor)))
    return f"NVRTC {major.value}.{minor.value}"


def _check(what: str, status: int) -> None:
    if status:
        raise CompileError(f"{what} failed with status {status}")


def compile_source(nvrtc: ctypes.CDLL, source: bytes, headers: Mapping[str, bytes], options: list[bytes]) -> bytes:
    """CUDA C++ -> a cubin. `headers`: the files that the source may include, by name."""
    program, size, count = c_void_p(), c_size_t(), len(headers)
    texts, names = (c_char_p * count)(*headers.values()), (c_char_p * count)(*(name.encode() for name in headers))
    status = nvrtc.nvrtcCreateProgram(byref(program), source, b"kernel.cu", count, texts, names)
    _check("nvrtcCreateProgram", status)
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (c_char_p * len(options))(*options))
        if status:
            nvrtc.nvrtcGetProgramLogSize(program, byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CompileError(log.value.decode(errors="replace"))
        _check("nvrtcGetCUBINSize", nvrtc.nvrtcGetCUBINSize(program, byref(size)))
        cubin = ctypes.create_string_buffer(size.value)
        _check("nvrtcGetCUBIN", nvrtc.nvrtcGetCUBIN(program, cubin))
        return cubin.raw
    finally:
        nvrtc.nvrtcDestroyProgram(byref(program))


def cache_folder() -> Path | None:
    """Where compiled kernels are kept; None in a source tree whose dependencies are not all installed."""
    try:
        import platformdirs
    except ImportError:
        return None
    return Path(platformdirs.user_cache_dir("omnitts", appauthor=False)) / "kernels"


def read_cached(file: Path) -> bytes | None:
    """The content of a cached file; None if it is missing or damaged."""
    try:
        kept = file.read_bytes()
    except OSError:
        return None
    digest, content = kept[:32], kept[32:]
    return content if content and hashlib.sha256(content).digest() == digest else None


def write_cached(file: Path, content: bytes) -> None:
    """Keep `content` for the next start. A folder that cannot be written to is not an error."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as made:
            made.write(hashlib.sha256(content).digest() + content)
        os.replace(made.name, file)
    except OSError:
        pass


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """The content of the cached file `name`, or what `make` returns, which is then cached."""
    folder = cache_folder()
    content = None if folder is None else read_cached(folder / name)
    if content is None:
        content = make()
        if folder is not None:
            write_cached(folder / name, content)
    return content


class Kernel:
    """A compiled kernel with a fixed grid, launched cooperatively: all its programs run at the same time. `cluster`:
    the number of programs that can access each other's shared memory. `early`: not cooperative, with any grid; a launch
    may begin before the previous kernel has ended (see early.cuh).
    """

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
        self._driver, nvrtc = _libraries()
        options = [f"--gpu-architecture={arch}".encode(), b"-std=c++17", b"--fmad=false"]  # see basics.cuh
        options += [f"-D{key}={value}".encode() for key, value in defines.items()]
        text = source.read_bytes()
        headers = {file.name: file.read_bytes() for file in sorted(source.parent.glob("*.cuh"))}
        version = c_int(), c_int()
        _check("nvrtcVersion", nvrtc.nvrtcVersion(byref(version[0]), byref(version[1])))
        depends = [text, *headers.values(), *options, f"{version[0].value}.{version[1].value}".encode()]
        cubin = cached(
            f"{name}-{hashlib.sha256(b'/'.join(depends)).hexdigest()[:32]}.cubin",
            lambda: compile_source(nvrtc, text, headers, options),
        )
        self._grid, self._block, self._shared_bytes, self._early = grid, block, shared_bytes, early
        self._cluster = cluster
        module, self._function, fits = c_void_p(), c_void_p(), c_int()
        driver = self._driver
        _check("cuModuleLoadData", driver.cuModuleLoadData(byref(module), cubin))
        _check("cuModuleGetFunction", driver.cuModuleGetFunction(byref(self._function), module, name.encode()))
        _check("cuFuncSetAttribute", driver.cuFuncSetAttribute(self._function, MOST_SHARED_BYTES, shared_bytes))
        _check(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                byref(fits), self._function, block, c_size_t(shared_bytes)
            ),
        )
        processors = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        if fits.value * processors < max(grid, 1):
            raise CompileError(f"{grid} programs do not fit on {processors} multiprocessors at once")

    def launch(self, arguments: ctypes.Structure, grid: int = 0) -> None:
        """Launch on torch's current stream; `arguments` is the kernel's only parameter. `grid` if it is not fixed."""
        values = (c_void_p * 1)(ctypes.addressof(arguments))
        attributes = (_Attribute * 2)(_Attribute(id=EARLY if self._early else COOPERATIVE), _Attribute(id=CLUSTER))
        attributes[0].value[0] = 1
        attributes[1].value[0], attributes[1].value[1], attributes[1].value[2] = self._cluster, 1, 1
        launch = _Launch(
            grid=(grid or self._grid, 1, 1),
            block=(self._block, 1, 1),
            shared_bytes=self._shared_bytes,
            stream=torch.cuda.current_stream().cuda_stream,
            attributes=attributes,
            attribute_count=2 if self._cluster > 1 else 1,
        )
        _check("cuLaunchKernelEx", self._driver.cuLaunchKernelEx(byref(launch), self._function, values, None))
