"""A fake `npu` device for PyTorch and a fake `torch_npu` to go with it: no hardware, no vendor's file.

Tensors say they are on npu:0 and compute on the CPU. What would go wrong on the real device fails here: float64, a
tensor left on the host, a host that waits inside a frame, results read before they have arrived. Moved memory and
streams out of order are the recording device's business (tests/support). A process can hold one such device, so
test_device.py starts one.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import fake_operators
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten
HOST = torch.device("cpu")

READS = {aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten.is_nonzero, aten._unique2}
"""Ops whose result, or its size, the host has to wait for."""

SPOILT = {torch.bool: True, torch.int64: -(2**40), torch.int32: -(2**20), torch.uint8: 77, torch.int8: 77}


class Hazard(AssertionError):
    """Something that works on a CPU and would not on a device with streams and graphs."""


class Recorded:
    """A captured step: ops over the tensors of the capture. What it made is spoilt before each replay."""

    capturing: Recorded | None = None

    def __init__(self) -> None:
        self.ops: list[tuple[Any, Any, Any, list[Tensor]]] = []

    def record(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        known = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        writes = any(a.alias_info and a.alias_info.is_write for a in func._schema.arguments)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        outs = [] if writes else [out for out in made if out.untyped_storage()._cdata not in known]
        if outs or writes:  # else a view
            self.ops.append((func, args, kwargs, outs))

    def run(self) -> None:
        with torch.no_grad():
            for out in (out for *_, outs in self.ops for out in outs):
                out.fill_(SPOILT.get(out.dtype, float("nan")))
            for func, args, kwargs, outs in self.ops:
                results = [leaf for leaf in tree_leaves(func(*args, **kwargs)) if isinstance(leaf, Tensor)]
                for out, result in zip(outs, results, strict=False):
                    out.copy_(result)


class Waits:
    """How often the host waited for the device, and what shall become of it."""

    def __init__(self) -> None:
        self.mode, self.seen = 0, []

    def happens(self, what: str) -> None:
        if Recorded.capturing:
            raise Hazard(f"{what}: the host waits for the device inside a capture")
        self.seen.append(what)
        if self.mode == 1:
            warnings.warn(f"called a synchronizing NPU operation: {what}", stacklevel=2)
        if self.mode == 2:
            raise RuntimeError(f"called a synchronizing NPU operation: {what}")


waits = Waits()


class NPUTensor(torch.Tensor):
    """Wraps a CPU tensor, `raw`."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> NPUTensor:
        if raw.dtype == torch.float64:
            raise TypeError("float64 on an NPU: its operators know no such type")
        made = torch.Tensor._make_wrapper_subclass(
            cls, raw.shape, strides=raw.stride(), dtype=raw.dtype, device=torch.device("npu", 0)
        )
        made.raw = raw
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(func, args, kwargs or {})

    def record_stream(self, stream: Stream) -> None:
        assert isinstance(stream, Stream)

    def __deepcopy__(self, memo: Any) -> NPUTensor:
        return NPUTensor(self.raw.clone())


def unwrap(leaf: Any) -> Any:
    if isinstance(leaf, NPUTensor):
        return leaf.raw
    return HOST if isinstance(leaf, torch.device) and leaf.type == "npu" else leaf


def dispatch(func: Any, args: Any, kwargs: Any) -> Any:
    packet = func.overloadpacket
    if packet is aten._to_copy:
        return to_copy(*args, **kwargs)
    if packet is aten.copy_ and isinstance(args[0], NPUTensor) != isinstance(args[1], NPUTensor):
        return copy_across(*args, **kwargs)
    refuse(func, args, kwargs)
    known = {id(leaf.raw): leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, NPUTensor)}
    args, kwargs = tree_map(unwrap, (args, kwargs))
    result = func(*args, **kwargs)
    if Recorded.capturing:
        Recorded.capturing.record(func, args, kwargs, result)
    if packet is aten._local_scalar_dense:
        return result
    # an op that writes gives back what it was given
    return tree_map(lambda leaf: known.get(id(leaf), NPUTensor(leaf)) if isinstance(leaf, Tensor) else leaf, result)


def refuse(func: Any, args: Any, kwargs: Any) -> None:
    """What the device cannot do, or not without the host waiting."""
    indices = args[1] if func.overloadpacket in (aten.index, aten.index_put, aten.index_put_) else ()
    if func.overloadpacket in READS or any(i is not None and i.dtype == torch.bool for i in indices):
        waits.happens(str(func))
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, Tensor) and not isinstance(leaf, NPUTensor) and leaf.ndim:
            raise RuntimeError(f"{func}: expected all tensors on npu:0, found one on the host")
        if leaf is torch.float64:
            raise TypeError(f"{func} makes float64 on an NPU")
    if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in str(func):
        raise Hazard(f"{func} draws from a hidden generator")


def to_copy(x: Tensor, *, dtype: Any = None, device: Any = None, non_blocking: bool = False, **rest: Any) -> Tensor:
    away = device is not None and torch.device(device).type == "cpu"
    if isinstance(x, NPUTensor) and not away:
        raw = unwrap(x)
        result = aten._to_copy.default(raw, dtype=dtype, **{k: v for k, v in rest.items() if k == "memory_format"})
        if Recorded.capturing:
            Recorded.capturing.record(aten._to_copy.default, (raw,), {"dtype": dtype}, result)
        return NPUTensor(result)
    if isinstance(x, NPUTensor):
        waits.happens("a copy to the host")
        return unwrap(x).to(dtype or x.dtype, copy=True)
    from_host(x, non_blocking)
    return NPUTensor(x.to(dtype or x.dtype, copy=True))


def from_host(x: Tensor, non_blocking: bool) -> None:
    if Recorded.capturing:
        raise Hazard("a copy from the host inside a capture: its values would be baked in")
    if not (non_blocking and getattr(x, "pinned", False)) and x.ndim:
        waits.happens("a copy from pageable memory")


def copy_across(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    if isinstance(to, NPUTensor):
        from_host(source, non_blocking)
        unwrap(to).copy_(source)
    elif non_blocking and getattr(to, "pinned", False):
        if Recorded.capturing:
            raise Hazard("a copy to the host inside a capture")
        current_stream().later(Arrival(to, unwrap(source).clone()))
    else:
        waits.happens("a copy to the host")
        to.copy_(unwrap(source))
    return to


class Arrival:
    """A copy to pinned memory under way. The memory holds rubbish until somebody has waited for it."""

    def __init__(self, to: Tensor, value: Tensor) -> None:
        self._to, self._value = to, value
        to.view(torch.uint8).fill_(0xA5) if to.dtype != torch.bool else to.fill_(True)

    def arrive(self) -> None:
        self._to.copy_(self._value)


class Stream:
    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        made = super().__new__(cls)
        made.priority, made.arrivals = priority, []
        return made

    def later(self, arrival: Arrival) -> None:
        self.arrivals.append(arrival)

    def wait_event(self, event: Event) -> None:
        assert event.recorded, "a stream waits for an event that nobody recorded"

    def synchronize(self) -> None:
        waits.happens("Stream.synchronize")
        finish(self.arrivals)


def finish(arrivals: list[Arrival]) -> None:
    while arrivals:
        arrivals.pop(0).arrive()


class Event:
    """Asked for the first time it says "not yet"; that is how devices are."""

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        made = super().__new__(cls)
        made.recorded, made.asked = False, 0
        return made

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or current_stream()
        self.recorded, self._arrivals = True, list(stream.arrivals)
        stream.arrivals.clear()
        self._stream = stream

    def query(self) -> bool:
        self.asked += 1
        if self.asked > 1:
            finish(self._arrivals)
        return self.asked > 1

    def synchronize(self) -> None:
        if Recorded.capturing:
            raise Hazard("an event is awaited inside a capture")
        finish(self._arrivals)


DEFAULT = Stream()
_current = [DEFAULT]


def current_stream(device: Any = None) -> Stream:
    return _current[-1]


@contextmanager
def stream(stream: Stream) -> Iterator[None]:
    _current.append(stream)
    yield
    assert _current.pop() is stream


def synchronize(device: Any = None) -> None:
    waits.happens("synchronize")


MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: str | int) -> None:
    waits.mode = MODES.get(debug_mode, debug_mode)


def get_sync_debug_mode() -> int:
    return waits.mode


def mem_get_info(device: Any = None) -> tuple[int, int]:
    return 1 << 30, 1 << 31


def max_memory_allocated(device: Any = None) -> int:
    return 1 << 20


def device_count() -> int:
    return 1


def get_device_name(device_name: Any = None) -> str:
    return "Ascend 910 of the imagination"


def set_device(device: Any) -> None:
    assert torch.device(device).type == "npu"


def is_bf16_supported(including_emulation: bool = False) -> bool:
    return True


def get_cann_version(module: str = "CANN") -> str:
    return "8.5.0"


def graph_pool_handle() -> object:
    return object()


class NPUGraph:
    def __init__(self) -> None:
        self.recorded = Recorded()

    def replay(self) -> None:
        if current_stream() is DEFAULT:
            raise Hazard("a replay in the default stream")
        self.recorded.run()


class graph:
    def __init__(self, npu_graph: NPUGraph, pool: Any = None, stream: Stream | None = None) -> None:
        self._graph, self._stream = npu_graph, stream or Stream()

    def __enter__(self) -> None:
        synchronize()
        _current.append(self._stream)
        Recorded.capturing = self._graph.recorded

    def __exit__(self, *exc: Any) -> None:
        Recorded.capturing = None
        assert _current.pop() is self._stream


NAMES = (
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "Stream",
    "Event",
    "stream",
    "current_stream",
    "synchronize",
    "set_sync_debug_mode",
    "get_sync_debug_mode",
    "mem_get_info",
    "max_memory_allocated",
    "device_count",
    "get_device_name",
    "set_device",
    "is_bf16_supported",
)
_kept: list[Any] = []


def install(version: str = "2.13.0") -> ModuleType:
    """Make this process one with an NPU: device, module, operators, metadata. Once per process."""
    backend_registration._setup_privateuseone_for_python_backend("npu")
    torch_npu, npu, utils = (ModuleType(name) for name in ("torch_npu", "torch_npu.npu", "torch_npu.npu.utils"))
    for name in NAMES:
        setattr(npu, name, globals()[name])
    utils.get_cann_version = get_cann_version
    npu.utils, torch_npu.npu, torch_npu.__version__ = utils, npu, version
    for module in (torch_npu, npu, utils):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        sys.modules[module.__name__] = module
    _kept.append(fake_operators.register(torch_npu, version))
    _kept.append(_factories())
    # a parameter's wrapper cannot be told that it holds another tensor now
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    _pinned_memory()
    known = importlib.metadata.version
    ours = torch.__version__.split("+")[0]
    importlib.metadata.version = lambda name: ours if name == "torch_npu" else known(name)
    return torch_npu


def _factories() -> torch.library.Library:
    """Ops that make tensors from nothing: the dispatcher asks the device, not a tensor, for them."""
    library = torch.library.Library("aten", "IMPL")

    def make(func: Callable[..., Tensor]) -> Callable[..., NPUTensor]:
        def made(*args: Any, **kwargs: Any) -> NPUTensor:
            kwargs = {name: value for name, value in kwargs.items() if name in ("dtype", "memory_format")}
            result = NPUTensor(func(*args, **kwargs))
            if Recorded.capturing:
                Recorded.capturing.record(func, args, kwargs, result.raw)
            return result

        return made

    for name in ("empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step"):
        packet, _, overload = name.partition(".")
        library.impl(name, make(getattr(getattr(aten, packet), overload or "default")), "PrivateUse1")
    library.impl("_to_copy", to_copy, "PrivateUse1")
    return library


def _pinned_memory() -> None:
    """Host memory that the device may read and write by itself; here, a mark on the tensor."""
    empty = torch.empty

    def pinned_empty(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Tensor:
        made = empty(*args, **kwargs)
        if pin_memory:
            made.pinned = True
        return made

    def pin(self: Tensor) -> Tensor:
        copied = self.clone()
        copied.pinned = True
        return copied

    torch.empty, torch.Tensor.pin_memory = pinned_empty, pin
