"""CUDA as a device: its numbers, its kernels, and why it may not be usable. PyTorch for AMD cards (ROCm) calls them
CUDA too; they run the plain operations, because every kernel here is written and tested for NVIDIA's cards.
"""

import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from omnitts_cli.devices.accelerator import Accelerator, AcceleratorStream
from omnitts_cli.errors import DeviceError
from omnitts_cli.kernels import choose
from omnitts_cli.kernels.cuda import nvrtc
from omnitts_cli.kernels.hardware import Hardware
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.settings import environment

COPIES_FROM = 16 << 30
"""Memory from which weights may be kept twice: 1.7B takes 9.8 GiB then, instead of 3.5."""


def no_triton() -> str:
    """Why Triton cannot be used; "" if it can."""
    try:
        import triton  # noqa: F401
    except ImportError as error:  # a build of torch without it
        return str(error)
    return ""


def is_rocm() -> bool:
    """Whether this PyTorch is for AMD's cards."""
    return torch.version.hip is not None


class CUDAStream(AcceleratorStream):
    api, new_graph = torch.cuda, torch.cuda.CUDAGraph

    def __init__(self, device: torch.device, urgent: bool) -> None:
        super().__init__(device, urgent)
        self._at = (torch.cuda.current_device() if device.index is None else device.index, self._pool)
        # this stream uses the pool until it ends: a pool without a user is closed for good
        torch._C._cuda_beginAllocateCurrentThreadToPool(*self._at)
        torch._C._cuda_endAllocateToPool(*self._at)
        weakref.finalize(self, torch._C._cuda_releasePool, *self._at).atexit = False

    @contextmanager
    def _into_pool(self) -> Iterator[None]:
        torch.cuda.empty_cache()  # the allocator gives nothing back while memory comes from a pool
        torch._C._cuda_beginAllocateCurrentThreadToPool(*self._at)
        try:
            yield
        finally:
            torch._C._cuda_endAllocateToPool(*self._at)
            torch._C._cuda_releasePool(*self._at)


class CUDADevice(Accelerator):
    few_graphs = False
    exact = False
    api = torch.cuda
    waited = "called a synchronizing CUDA operation"  # torch also warns once that counting is experimental

    def __init__(self, index: int = 0) -> None:
        if not torch.cuda.is_available():
            reason, step = unusable_reason()
            raise DeviceError(f"cuda:{index} is not usable: {reason}", hint=f"{step}   or   -d cpu")
        if index >= torch.cuda.device_count():
            names = ", ".join(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count()))
            raise DeviceError(f"cuda:{index} does not exist; this machine has {names}", hint="-d cuda:0")
        self.name = f"cuda:{index}"
        self.card = torch.cuda.get_device_name(index)
        self.torch_device = torch.device("cuda", index)
        # cards before sm_80 emulate bfloat16, slower than float32; float16 overflows in the predictor
        native = torch.cuda.is_bf16_supported(including_emulation=False)
        self.dtype = torch.bfloat16 if native else torch.float32
        torch.cuda.set_device(self.torch_device)
        if self.ops().codec is None:
            # the codec runs in torch's own layers; TF32 keeps 10 mantissa bits and is several times faster
            torch.backends.cuda.matmul.allow_tf32 = True
            torch.backends.cudnn.allow_tf32 = True

    def ops(self) -> Ops:
        return choose.ops(self.hardware)

    @property
    def hardware(self) -> Hardware:
        off = environment.variable(environment.NATIVE) == "0"
        if is_rocm():
            return Hardware("cuda", "an AMD card", off=off, exact=self.exact)
        capability = torch.cuda.get_device_capability(self.torch_device)
        lacking = {"triton": no_triton(), "nvrtc": nvrtc.why_not()}
        here = frozenset(name for name, reason in lacking.items() if not reason)
        whole = self.most_bytes or torch.cuda.mem_get_info(self.torch_device)[1]
        card, small = "sm_{}{}".format(*capability), whole < COPIES_FROM
        return Hardware("cuda", card, capability, here, off, self.exact, small, lacking)

    def versions(self) -> list[str]:
        major, minor = torch.cuda.get_device_capability(self.torch_device)
        try:
            import triton

            compiler = f"triton {triton.__version__}"
        except ImportError:
            compiler = "no triton"
        built = f"ROCm {torch.version.hip}" if is_rocm() else f"CUDA {torch.version.cuda}"
        libraries = f"torch {torch.__version__}", built, compiler, "no NVRTC" if is_rocm() else nvrtc.version()
        switched = environment.variable(environment.NATIVE) or "1"
        return [self.card, f"capability {major}.{minor}", *libraries, f"{environment.NATIVE}={switched}"]

    def make_exact(self) -> None:
        """From now on `ops` has only operations whose sums do not depend on the number of rows."""
        used, reason = self.persistent_kernels()
        if not used:
            raise DeviceError(f"--exact is not possible on {self.name}: {reason}", hint="leave out --exact")
        self.exact = True

    def persistent_kernels(self) -> tuple[bool, str]:
        """Whether the persistent kernels can be used, and the reason if not, for `doctor`."""
        if is_rocm() or self.hardware.card != choose.HOPPER:
            return False, f"written for H100 and H200, not for {self.card}"
        reason = choose.named("fuse_step").variants[0].refuses_hardware(self.hardware)
        return not reason, reason

    def plain_because(self) -> tuple[str, str | None] | None:
        """Why the plain operations run here, and what to type about it; None if Triton's kernels do."""
        if is_rocm():
            return "no kernel here is written for AMD cards", "omnitts doctor -d cpu   compares"
        if self.hardware.capability < choose.TRITON_FROM:
            needed, has = (".".join(map(str, one)) for one in (choose.TRITON_FROM, self.hardware.capability))
            return f"they need compute capability {needed}, and this card has {has}", None
        if "triton" not in self.hardware.libraries:
            package = "triton-windows" if sys.platform == "win32" else "triton"
            return "Triton, which compiles the kernels, is not installed", f"pip install {package}"
        return None

    def limit(self, size_bytes: int | None) -> None:
        """The allocator keeps to it. What the driver takes for itself, some hundred MiB, is not counted."""
        self.most_bytes = size_bytes
        if size_bytes is not None:
            whole = torch.cuda.mem_get_info(self.torch_device)[1]
            torch.cuda.set_per_process_memory_fraction(min(1.0, size_bytes / whole), self.torch_device)

    def free_bytes(self) -> int:
        """Without the gaps between tensors that the allocator keeps: large tensors do not fit into them."""
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info(self.torch_device)[0]
        kept = torch.cuda.memory_reserved(self.torch_device)
        return free if self.most_bytes is None else max(0, min(free, self.most_bytes - kept))

    def stream(self, urgent: bool = False) -> CUDAStream:
        return CUDAStream(self.torch_device, urgent)

    def is_out_of_memory(self, error: BaseException) -> bool:
        """cuBLAS raises a plain RuntimeError with this name in its message."""
        return isinstance(error, torch.cuda.OutOfMemoryError) or (
            isinstance(error, RuntimeError) and "CUBLAS_STATUS_ALLOC_FAILED" in str(error)
        )


def unusable_reason() -> tuple[str, str]:
    """Why torch cannot use a CUDA device, and what to do about it."""
    if is_rocm():
        built = f"torch {torch.__version__} (ROCm {torch.version.hip})"
        return f"{built} finds no AMD card that it can use", "check that rocm-smi lists the card"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} was built without CUDA", "install a CUDA build of PyTorch"
    built = f"torch {torch.__version__} (CUDA {torch.version.cuda})"
    if torch.cuda.device_count():
        return f"{built} cannot use the driver", "update the NVIDIA driver, or install a PyTorch build that fits it"
    step = "check that nvidia-smi lists the GPU and that CUDA_VISIBLE_DEVICES does not hide it"
    return f"{built} finds no device or driver", step
