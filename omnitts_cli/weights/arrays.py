"""Tensors of a checkpoint as NumPy arrays, through a family's rename table. Does not import torch.

Missing or extra tensors, wrong shapes and wrong types are reported from the headers, before any data is read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np

from omnitts_cli.errors import ModelError
from omnitts_cli.models.sources import Derived, Join, Names, One, Source, Stack
from omnitts_cli.weights.checkpoint import FLOATS, Check, Checkpoint
from omnitts_cli.weights.header import shown

Shapes = Mapping[str, tuple[str | None, tuple[int, ...]]]
"""By our names: the type that a tensor must have, or None for any float; its shape."""


def sources_of(source: Source) -> tuple[str, ...]:
    return (source.name,) if isinstance(source, One) else source.names


def refuse_others(ours: Shapes, names: Names, files: Checkpoint, unused: Sequence[str] | None) -> None:
    """Raises ModelError if the files do not hold the tensors that `ours` describes. `unused`: patterns of checkpoint
    names that may be left over; None if others read the same files.
    """
    wrong = list(_differences(ours, names, files, unused))
    if not wrong:
        return
    count = f"{len(wrong)} differences: " if len(wrong) > 1 else ""
    more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    raise ModelError(
        f"the weights in {shown(files.path, 400)} do not match its config.json",
        cause=count + "; ".join(wrong[:3]) + more,
        hint="take config.json and weights from the same model: omnitts models pull NAME",
    )


def _differences(ours: Shapes, names: Names, files: Checkpoint, unused: Sequence[str] | None) -> Iterable[str]:
    """One line for each difference between the files and what is expected."""
    theirs = files.names()
    used: set[str] = set()
    for name, source in names.items():
        wanted = sources_of(source)
        used.update(wanted)
        missing = [part for part in wanted if part not in theirs]
        yield from (f"missing: {shown(part)}" for part in missing)
        if not missing:
            yield from _misfits(*ours[name], source, {part: theirs[part] for part in wanted})
    if unused is not None:
        for name in sorted(theirs.keys() - used):
            if not any(fnmatchcase(name, pattern) for pattern in unused):
                yield f"unexpected: {shown(name)}"


def _misfits(
    kind: str | None, shape: tuple[int, ...], source: Source, parts: dict[str, tuple[str, tuple[int, ...]]]
) -> Iterable[str]:
    for part, (dtype, _) in parts.items():
        if kind is None and dtype not in FLOATS:
            yield f"{shown(part)} is {dtype}, not a float that can be loaded"
        if kind is not None and dtype != kind:
            yield f"{shown(part)} is {dtype}, expected {kind}"
    first, got = next(iter(parts)), [one for _, one in parts.values()]
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
    """The shape that a computation would give, found without reading the files."""
    try:
        return source.compute(*(np.broadcast_to(np.float32(1), shape) for shape in shapes)).shape
    except (IndexError, ValueError):
        return None  # the tensors do not fit each other


def read(source: Source, files: Checkpoint) -> np.ndarray:
    """A tensor of floats in float32. Raises ModelError for values that cannot be used."""
    check = finite(files)
    match source:
        case One(name):
            return files.array(name, check)
        case Join(parts):
            shapes = [files.shape(part) for part in parts]
            joined = np.empty((sum(shape[0] for shape in shapes), *shapes[0][1:]), np.float32)
            begin = 0
            for part, shape in zip(parts, shapes, strict=True):
                files.array(part, check, joined[begin : begin + shape[0]])
                begin += shape[0]
            return joined
        case Stack(parts):
            stacked = np.empty((len(parts), *files.shape(parts[0])), np.float32)
            for part, row in zip(parts, stacked, strict=True):
                files.array(part, check, row)
            return stacked
        case Derived(parts, compute):
            return compute(*(files.array(part, check) for part in parts))


def values_of(
    names: Names, files: Checkpoint, ready: Mapping[str, np.ndarray] = MappingProxyType({})
) -> Callable[[str], np.ndarray]:
    """What reads a tensor by our name for it, unless it is `ready`."""

    def value(called: str) -> np.ndarray:
        return ready[called] if called in ready else read(names[called], files)

    return value


def finite(files: Checkpoint) -> Check:
    """A check that refuses NaN, infinity, and values outside the range of float32."""

    def check(name: str, block: np.ndarray) -> None:
        # both propagate NaN
        if block.size and not (np.isfinite(block.min()) and np.isfinite(block.max())):
            raise unusable(files, name, "holds NaN or infinity", "omnitts models verify")

    return check


def unusable(files: Checkpoint, name: str, why: str, hint: str) -> ModelError:
    return ModelError(
        f"{shown(files.file_of(name), 400)} holds values that cannot be used",
        cause=f"tensor '{shown(name)}' {why}",
        hint=hint,
    )
