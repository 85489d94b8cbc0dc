"""fill: loads a checkpoint into a module that was built without values, through a family's rename table.

Missing or extra tensors, wrong shapes and wrong dtypes are reported from the headers, before any data is read.
Tensors go straight to the device, one at a time and in their final dtype.
"""

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

import torch
from torch import Tensor, nn

from omnitts_cli.models.sources import Derived, Join, Names, One, Source, Stack
from omnitts_cli.weights import arrays
from omnitts_cli.weights.arrays import refuse_others, unusable
from omnitts_cli.weights.checkpoint import Checkpoint


def fill(
    module: nn.Module,
    names: Names,
    files: Checkpoint,
    device: torch.device | str,
    dtype: torch.dtype,
    *,
    keep_float32: Sequence[str] = (),
    unused: Sequence[str] | None = (),
    ready: Mapping[str, Tensor] = MappingProxyType({}),
    host: Sequence[str] = (),
    changed: Callable[[str, Tensor], Tensor] = lambda name, value: value,
) -> None:
    """Load every parameter and buffer named in `names`, on `device` and in `dtype`.

    `keep_float32`: patterns of our names that stay float32. `unused`: patterns of checkpoint names that may be
    left over; None if other modules are loaded from the same files. `ready`: tensors that are not to be read, because
    they have been prepared from the same files. `host`: names of ours that go to the memory of the host. `changed`:
    what is put in the place of the tensor called so. Computed buffers, which are not in `names`,
    keep their values and move to the device.
    """
    ours = tensors_of(module)
    _promise_complete(ours, names)
    kinds = {name: None if old.is_floating_point() else _plain(old.dtype) for name, old in ours.items()}
    refuse_others({name: (kinds[name], tuple(old.shape)) for name, old in ours.items()}, names, files, unused)
    for name, old in ours.items():
        if name in ready:
            put(module, name, ready[name])
            continue
        if name not in names:
            put(module, name, old.to(device))
            continue
        kept = any(fnmatchcase(name, pattern) for pattern in keep_float32)
        wanted = (torch.float32 if kept else dtype) if old.is_floating_point() else old.dtype
        new = torch.empty(old.shape, device="cpu" if name in host else device, dtype=wanted)
        read(names[name], files, new)
        put(module, name, changed(name, new))


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer, each under its first name."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _promise_complete(ours: dict[str, Tensor], names: Names) -> None:
    """Asserts that module and rename table agree; user input cannot break this."""
    unknown = names.keys() - ours.keys()
    assert not unknown, f"the rename table names tensors that the module lacks: {sorted(unknown)[:3]}"
    # A computed buffer may keep its values; a parameter, or a buffer without values, must be in the table.
    empty = [n for n, old in ours.items() if n not in names and (old.is_meta or isinstance(old, nn.Parameter))]
    assert not empty, f"the rename table lacks {empty[:3]}"


def read(source: Source, files: Checkpoint, target: Tensor) -> None:
    """Fill a tensor from the files. Raises ModelError for values that cannot be used."""
    check = usable(files, target.dtype) if target.is_floating_point() else None
    match source:
        case One(name):
            files.read_into(name, target, check)
        case Join(parts):
            at = 0
            for part in parts:
                rows = files.shape(part)[0]
                files.read_into(part, target[at : at + rows], check)
                at += rows
        case Stack(parts):
            for index, part in enumerate(parts):
                files.read_into(part, target[index], check)
        case Derived():
            target.copy_(torch.from_numpy(arrays.read(source, files)))


def usable(files: Checkpoint, dtype: torch.dtype) -> Callable[[str, Tensor], None]:
    """A check that refuses NaN, infinity, and values outside the range of `dtype`."""
    largest = torch.finfo(dtype).max

    def check(name: str, block: Tensor) -> None:
        # aminmax propagates NaN and costs a thirtieth of isfinite().all()
        low, high = (float(end) for end in torch.aminmax(block))
        if -largest <= low and high <= largest:
            return
        finite = low - low == 0 == high - high
        if finite:
            raise unusable(files, name, f"does not fit {_plain(dtype)}", "--dtype bf16   or   --dtype fp32")
        raise unusable(files, name, "holds NaN or infinity", "omnitts models verify")

    return check


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def put(module: nn.Module, name: str, value: Tensor) -> None:
    """Replace the tensor called `name`."""
    path, _, leaf = name.rpartition(".")
    owner = module.get_submodule(path)
    old = getattr(owner, leaf)
    if isinstance(old, nn.Parameter):
        value = nn.Parameter(value, requires_grad=old.requires_grad and value.is_floating_point())
    setattr(owner, leaf, value)
