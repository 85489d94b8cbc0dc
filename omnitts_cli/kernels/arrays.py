"""Arrays of NumPy and tensors of PyTorch: the few calls that differ. What is written with them runs on both, and
imports torch only if it is given tensors.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np


def read(array: Any) -> np.ndarray:
    """The numbers on the host, for which it waits; NumPy has no bfloat16."""
    if isinstance(array, np.ndarray):
        return array.copy()
    found: np.ndarray = (array.float() if str(array.dtype) == "torch.bfloat16" else array).cpu().numpy()
    return found


def zeros(shape: tuple[int, ...], kind: Any, device: Any) -> Any:
    """`kind`: a type, or the name of one. A `device` of None stands for NumPy."""
    if device is None:
        return np.zeros(shape, kind)
    import torch

    return torch.zeros(shape, dtype=getattr(torch, kind) if isinstance(kind, str) else kind, device=device)


def empty(rows: int, like: Any) -> Any:
    """Room for so many rows like those of `like`."""
    if isinstance(like, np.ndarray):
        return np.empty((rows, *like.shape[1:]), like.dtype)
    return like.new_empty(rows, *like.shape[1:])


def join(parts: Sequence[Any]) -> Any:
    """One after the other, along the first axis."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    import torch

    return torch.cat(tuple(parts))


def put_rows(rows: Any, at: Any, values: Any) -> None:
    """Writes rows; their type is converted."""
    if isinstance(rows, np.ndarray):
        rows[at] = values
    else:
        rows.index_copy_(0, at, values.to(rows.dtype))


def fill_rows(rows: Any, at: Any, value: float) -> None:
    """Writes one value to rows. With an index of PyTorch, `rows[at] = value` would make the host wait for a card."""
    if isinstance(rows, np.ndarray):
        rows[at] = value
    else:
        rows.index_fill_(0, at, value)


def set_number(numbers: Any, at: int, value: float) -> None:
    """Writes one number, as a slice: `numbers[at] = value` would make the host wait for a card."""
    numbers[at : at + 1] = value


def add_rows(rows: Any, at: Any, values: Any) -> None:
    """Adds to rows, each of which is named once."""
    if isinstance(rows, np.ndarray):
        rows[at] += values
    else:
        rows.index_add_(0, at, values)


def without_gradients(device: Any) -> AbstractContextManager[object]:
    """What runs inside records nothing for training. NumPy does not warn of NaN and infinity: the end of a frame finds
    them, and the engine reports them.
    """
    if device is None:
        return np.errstate(all="ignore")
    import torch

    return torch.no_grad()


def outside_streams(array: Any) -> AbstractContextManager[object]:
    """What is made inside can be changed everywhere; a CPU's stream is in inference mode, and its tensors cannot."""
    if isinstance(array, np.ndarray):
        return nullcontext()
    import torch

    return torch.inference_mode(False)
