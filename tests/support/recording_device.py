"""A device that records, for tests: streams are real queues, captured steps replay from fixed addresses.

Whatever happens inside a stream is caught op by op. A captured step is a list of ops over the tensors of
its recording, replayed without the Python around it: values that were baked in stay baked in, outputs
land where they landed, and what an op leaves behind is spoilt before each replay. With `late`, streams
lag behind the host and behind each other at random, as streams do, and only events put them in order.

It fails when a step reads a value on the host, uses a hidden generator, makes float64, moves its inputs,
or reads another stream's fresh memory without keeping it alive.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops

aten = torch.ops.aten

READS = {aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten.is_nonzero, aten._unique2}
"""Ops whose result, or its size, the host has to wait for."""

EMPTY = {aten.empty, aten.empty_like, aten.new_empty, aten.empty_strided, aten.new_empty_strided}

PACES = (0.02, 0.3, 1.0)  # some streams are slow

SPOILT = {torch.bool: True, torch.int64: -(2**40), torch.int32: -(2**20), torch.uint8: 77}
"""What stands in results before they are computed; NaN elsewhere."""

HOST_METHODS = {"item", "tolist", "numpy", "cpu", "nonzero", "__bool__", "__int__", "__float__", "__index__"}
"""Tensor methods that make the host wait for a device."""


class HostRead(AssertionError):
    """The host asked for a value that the device has yet to compute."""


class Hazard(AssertionError):
    """Something that works on a CPU and would not on a device with streams and graphs."""


def tensors_of(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


def storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@dataclass
class Home:
    """Which stream made a tensor's memory, and which others promised to be done before it goes."""

    stream: "Stream"
    kept: set[int] = field(default_factory=set)


@dataclass
class Op:
    """One call; `outs` are where its results belong, empty for ops that write their arguments."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: list[Tensor]

    def run(self) -> None:
        result = self.func(*self.args, **self.kwargs)
        if len(self.outs) == 1 and isinstance(result, Tensor):
            self.outs[0].copy_(result)
        elif self.outs:
            for out, one in zip(self.outs, tensors_of(result), strict=False):
                out.copy_(one)


class Catch(TorchDispatchMode):
    """Sees every op once, however many modes are stacked; `on` decides what becomes of it."""

    inside = False

    def __init__(self, on: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._on = on

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if Catch.inside:
            return func(*args, **(kwargs or {}))
        Catch.inside = True
        try:
            return self._on(func, args, kwargs or {})
        finally:
            Catch.inside = False


def refuse_reads(func: Any, args: Any) -> None:
    indices = args[1] if func.overloadpacket in (aten.index, aten.index_put, aten.index_put_) else ()
    if func.overloadpacket in READS or any(i is not None and i.dtype == torch.bool for i in indices):
        raise HostRead(f"{func} inside a stream: the host would wait for the device")
    if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in str(func):  # no dropout here
        raise Hazard(f"{func} draws from a hidden generator")


def refuse_float64(func: Any, result: Any) -> None:
    """Operators of an NPU do not take this type, and no step needs it."""
    if any(tensor.dtype == torch.float64 for tensor in tensors_of(result)):
        raise Hazard(f"{func} makes float64")


def fresh(result: Any, known: set[int]) -> list[Tensor]:
    """The results of a call if it made new memory; none if it gave views of its arguments."""
    outs = tensors_of(result)
    new = [out for out in outs if storage(out) not in known]
    assert len(new) in (0, len(outs)), "half a view is not foreseen"
    return new


def writes(func: Any) -> bool:
    """Whether the op changes its arguments."""
    return any(a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments)


class Graph:
    """A recorded step."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.ops: list[Op] = []
        self._made: set[int] = set()
        self._given: dict[int, tuple[Tensor, int]] = {}
        self._keep: list[Any] = []
        with Catch(self._record):
            step()
        self._spoilt: dict[torch.dtype, list[Tensor]] = {}
        for op in self.ops:
            for out in op.outs:
                self._spoilt.setdefault(out.dtype, []).append(out)
        self.ops = [op for op in self.ops if op.func.overloadpacket not in EMPTY]  # nothing to be done again

    def _record(self, func: Any, args: Any, kwargs: Any) -> Any:
        refuse_reads(func, args)
        result = func(*args, **kwargs)
        refuse_float64(func, result)
        self._keep.append((args, kwargs, result))
        inputs = tensors_of((args, kwargs))
        known = {storage(t) for t in inputs}
        for tensor in inputs:
            if storage(tensor) not in self._made:
                self._given[id(tensor)] = (tensor, tensor.data_ptr())
        if writes(func):
            self.ops.append(Op(func, args, kwargs, []))
            return result
        outs = fresh(result, known)
        if outs:
            self._made |= {storage(out) for out in outs}
            self.ops.append(Op(func, args, kwargs, outs))
        return result

    def run(self) -> None:
        for tensor, address in self._given.values():
            if tensor.data_ptr() != address:
                raise Hazard("a tensor that a captured step reads has moved")
        for dtype, outs in self._spoilt.items():
            if dtype.is_floating_point:
                torch._foreach_add_(outs, float("nan"))  # whatever was there
            else:
                for out in outs:
                    out.fill_(SPOILT[dtype])
        for op in self.ops:
            op.run()


@dataclass(eq=False)
class Event:
    done: bool = False

    def run(self) -> None:
        self.done = True


@dataclass(eq=False)
class Wait:
    event: Event

    def run(self) -> None:
        assert self.event.done


class Fetch:
    def __init__(self, device: "RecordingDevice", tensors: tuple[Tensor, ...]) -> None:
        self._device, self._tensors = device, tensors
        self._arrays: list[np.ndarray] | None = None

    def run(self) -> None:
        self._arrays = [tensor.numpy().copy() for tensor in self._tensors]
        self._tensors = ()

    def done(self) -> bool:
        self._device.pass_time()
        return self._arrays is not None

    def result(self) -> list[np.ndarray]:
        self._device.run_until(lambda: self._arrays is not None)
        assert self._arrays is not None
        return self._arrays


class Stream:
    def __init__(self, device: "RecordingDevice") -> None:
        self._device = device
        self.queue: deque[Any] = deque()
        self._modes: list[Catch] = []

    def __enter__(self) -> "Stream":
        self._modes.append(Catch(self._caught))
        self._modes[-1].__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._modes.pop().__exit__(*exc)

    def _send(self, work: Any) -> None:
        if self._device.late:
            self.queue.append(work)
        else:
            self._device.running(work)

    def _caught(self, func: Any, args: Any, kwargs: Any) -> Any:
        self._device.sent += 1
        refuse_reads(func, args)
        inputs = tensors_of((args, kwargs))
        for tensor in inputs:
            home = getattr(tensor, "home", None)
            if home is not None and home.stream is not self and id(self) not in home.kept:
                raise Hazard(f"{func} reads memory of another stream that was not kept alive")
        if writes(func):
            self._send(Op(func, args, kwargs, []))
            return args[0] if func._schema.returns else None
        result = func(*args, **kwargs)  # late streams: for the shape; the values may be yesterday's
        refuse_float64(func, result)
        outs = fresh(result, {storage(t) for t in inputs})
        homes = [t.home for t in inputs if hasattr(t, "home")]
        for tensor in tensors_of(result):
            if outs:
                tensor.home = Home(self)
            elif homes:
                tensor.home = homes[0]
        if outs and self._device.late:
            self.queue.append(Op(func, args, kwargs, outs))
        return result

    def record_event(self) -> Event:
        event = Event()
        self._send(event)
        return event

    def wait_event(self, event: object) -> None:
        assert isinstance(event, Event)
        self._send(Wait(event))

    def keep_alive(self, *tensors: Tensor) -> None:
        for tensor in tensors:
            if hasattr(tensor, "home"):
                tensor.home.kept.add(id(self))

    def follow(self, other: "Stream", *tensors: Tensor) -> None:
        self.keep_alive(*tensors)
        self.wait_event(other.record_event())

    def hurry(self, fetch: Fetch) -> None: ...

    def fetch(self, *tensors: Tensor) -> Fetch:
        fetch = Fetch(self._device, tensors)
        self._send(fetch)
        return fetch

    def capture(self, step: Callable[[], None], keeps: bool = False) -> Callable[[], None]:
        self._device.synchronize()
        step()  # a warm-up, as devices need one
        graph = Graph(step)
        self._device.graphs += 1

        def replay() -> None:
            self._device.replays += 1
            self._send(graph)

        return replay


def sends_a_number(name: str, args: Any) -> bool:
    """`x[index] = 0`, where the index is a tensor or picks one number: the 0 is copied to the device, and awaited."""
    if name != "__setitem__" or isinstance(args[2], Tensor):
        return False
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    one = len(index) == args[0].dim() and all(isinstance(part, int) for part in index)
    return one or any(isinstance(part, Tensor) for part in index)


class Watch(TorchFunctionMode):
    """Counts what would make the host wait, while it is the host's turn."""

    def __init__(self, device: "RecordingDevice") -> None:
        super().__init__()
        self._device, self.count = device, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        to_host = name == "to" and "cpu" in map(str, (*args[1:], *(kwargs or {}).values()))
        if sends_a_number(name, args) or (not self._device.at_work and (name in HOST_METHODS or to_host)):
            self.count += 1
        return func(*args, **(kwargs or {}))


class RecordingDevice:
    """`late`: streams run when somebody waits for them, in an order that `seed` draws."""

    name = "recording"
    torch_device = torch.device("cpu")
    dtype = torch.float32
    few_graphs = False

    def __init__(self, late: bool = False, seed: int = 0, captures: bool = True, pads: bool = True) -> None:
        self.late, self.captures, self.pads = late, captures, pads
        self._dice = random.Random(seed)
        self._streams: list[Stream] = []
        self._pace: list[float] = []
        self.at_work = False
        self.sent = self.graphs = self.replays = 0

    def ops(self) -> Ops:
        return plain.OPS

    def stream(self, urgent: bool = False) -> Stream:
        self._streams.append(Stream(self))
        self._pace.append(self._dice.choice(PACES))
        return self._streams[-1]

    def deal_again(self, seed: int) -> None:
        """Another order of events and other streams slow, for an engine that is used again."""
        self._dice.seed(seed)
        self._pace = [self._dice.choice(PACES) for _ in self._streams]

    def workers(self) -> None:
        return None

    def to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(array)).clone()

    def synchronize(self) -> None:
        self.run_until(lambda: not any(stream.queue for stream in self._streams))

    def free_bytes(self) -> int:
        return 1 << 30

    def peak_bytes(self) -> int:
        return 0

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)

    @contextmanager
    def count_syncs(self) -> Iterator[Callable[[], int | None]]:
        with Watch(self) as watch:
            yield lambda: watch.count

    def running(self, work: Any) -> None:
        """One piece of a stream's work, now."""
        before = self.at_work, Catch.inside
        self.at_work = Catch.inside = True
        try:  # the device's own work is not recorded
            with torch.no_grad(), torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
                work.run()
        finally:
            self.at_work, Catch.inside = before

    def pass_time(self) -> None:
        """The streams get on a little while the host looks elsewhere."""
        while self._dice.random() < 0.7 and self._turn():
            pass

    def run_until(self, ready: Callable[[], bool]) -> None:
        while not ready():
            assert self._turn(), "the host waits for something that no stream will ever do"

    def _turn(self) -> bool:
        able = [
            index
            for index, stream in enumerate(self._streams)
            if stream.queue and not (isinstance(stream.queue[0], Wait) and not stream.queue[0].event.done)
        ]
        if not able:
            return False
        index = self._dice.choices(able, [self._pace[i] for i in able])[0]
        self.running(self._streams[index].queue.popleft())
        return True
