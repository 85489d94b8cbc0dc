"""fill: loads a checkpoint into a module that was built without values, through a family's rename table.

Missing or extra tensors, wrong shapes and wrong dtypes are reported from the headers, before any data is read.
Tensors go straight to the device, one at a time and in their final dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

import torch
from torch import Tensor, nn

from omnitts_cli.errors import ModelError
from omnitts_cli.models.sources import Derived, Join, Names, One, Source, Stack
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.header import shown

_LOADABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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
) -> None:
    """Load every parameter and buffer named in `names`, on `device` and in `dtype`.

    `keep_float32`: patterns of our names that stay float32. `unused`: patterns of checkpoint names that may be
    left over; None if other modules are loaded from the same files. `ready`: tensors that are not to be read, because
    they have been prepared from the same files. Computed buffers, which are not in `names`,
    keep their values and move to the device.
    """
    ours = tensors_of(module)
    _promise_complete(ours, names)
    if wrong := list(_differences(ours, names, files, unused)):
        raise _mismatch(files, wrong)
    for name, old in ours.items():
        if name in ready:
            put(module, name, ready[name])
            continue
        if name not in names:
            put(module, name, old.to(device))
            continue
        kept = any(fnmatchcase(name, pattern) for pattern in keep_float32)
        wanted = (torch.float32 if kept else dtype) if old.is_floating_point() else old.dtype
        new = torch.empty(old.shape, device=device, dtype=wanted)
        read(names[name], files, new)
        put(module, name, new)


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


def _differences(
    ours: dict[str, Tensor], names: Names, files: Checkpoint, unused: Sequence[str] | None
) -> Iterable[str]:
    """One line for each difference between the checkpoint and what the module expects."""
    theirs = files.names()
    used: set[str] = set()
    for name, source in names.items():
        wanted = sources_of(source)
        used.update(wanted)
        missing = [part for part in wanted if part not in theirs]
        yield from (f"missing: {shown(part)}" for part in missing)
        if not missing:
            yield from _misfits(ours[name], source, {part: theirs[part] for part in wanted})
    if unused is not None:
        for name in sorted(theirs.keys() - used):
            if not any(fnmatchcase(name, pattern) for pattern in unused):
                yield f"unexpected: {shown(name)}"


def sources_of(source: Source) -> tuple[str, ...]:
    return (source.name,) if isinstance(source, One) else source.names


def _misfits(target: Tensor, source: Source, parts: dict[str, tuple[torch.dtype, tuple[int, ...]]]) -> Iterable[str]:
    for part, (dtype, _) in parts.items():
        if target.is_floating_point() and dtype not in _LOADABLE:
            yield f"{shown(part)} is {_plain(dtype)}, not a float that can be loaded"
        if not target.is_floating_point() and dtype != target.dtype:
            yield f"{shown(part)} is {_plain(dtype)}, expected {_plain(target.dtype)}"
    first, got = next(iter(parts)), [shape for _, shape in parts.values()]
    shape = tuple(target.shape)
    match source:
        case One() if got[0] != shape:
            yield f"{shown(first)} is {list(got[0])}, expected {list(shape)}"
        case Stack():
            bad = [part for part, (_, one) in parts.items() if one != shape[1:]]
            yield from (f"{shown(part)} is {list(parts[part][1])}, expected {list(shape[1:])}" for part in bad)
            if not bad and len(got) != shape[0]:
                yield f"{len(got)} tensors like {shown(first)}, expected {shape[0]}"
        case Join():
            bad = [part for part, (_, one) in parts.items() if not one or one[1:] != shape[1:]]
            yield from (f"{shown(part)} is {list(parts[part][1])}, expected rows of {list(shape[1:])}" for part in bad)
            if not bad and (rows := sum(one[0] for one in got)) != shape[0]:
                yield f"{' + '.join(map(shown, parts))} have {rows} rows, expected {shape[0]}"
        case Derived() if (made := _made_shape(source, got)) != shape:
            yield f"{shown(first)} and {len(got) - 1} more give {made or 'nothing'}, expected {list(shape)}"


def _made_shape(source: Derived, shapes: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape that a computation would give, found without reading the files.

    The "meta" device would import torch's compiler, which takes a second, so an expanded scalar stands for each
    tensor; not if an axis has size 1, which would broadcast against the other tensors.
    """
    place = "meta" if any(1 in shape for shape in shapes) else "cpu"
    try:
        return tuple(source.compute(*(torch.zeros((), device=place).expand(shape) for shape in shapes)).shape)
    except (RuntimeError, IndexError, ValueError):
        return None  # the tensors do not fit each other


def _mismatch(files: Checkpoint, wrong: list[str]) -> ModelError:
    count = f"{len(wrong)} differences: " if len(wrong) > 1 else ""
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return ModelError(
        f"the weights in {shown(files.path, 400)} do not match its config.json",
        cause=count + "; ".join(wrong[:3]) + more,
        hint="take config.json and weights from the same model: omnitts models pull NAME",
    )


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
        case Derived(parts, compute):
            values = [torch.empty(files.shape(part), device=target.device, dtype=torch.float32) for part in parts]
            for part, value in zip(parts, values, strict=True):
                files.read_into(part, value, usable(files, torch.float32))
            target.copy_(compute(*values))


def usable(files: Checkpoint, dtype: torch.dtype) -> Callable[[str, Tensor], None]:
    """A check that refuses NaN, infinity, and values outside the range of `dtype`."""
    largest = torch.finfo(dtype).max

    def check(name: str, block: Tensor) -> None:
        # aminmax propagates NaN and costs a thirtieth of isfinite().all()
        low, high = (float(end) for end in torch.aminmax(block))
        if -largest <= low and high <= largest:
            return
        finite = low - low == 0 == high - high
        raise ModelError(
            f"{shown(files.file_of(name), 400)} holds values that cannot be used",
            cause=f"tensor '{shown(name)}' {f'does not fit {_plain(dtype)}' if finite else 'holds NaN or infinity'}",
            hint="--dtype bf16   or   --dtype fp32" if finite else "omnitts models verify",
        )

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
