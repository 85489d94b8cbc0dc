"""Where Triton's kernels can run: a CUDA device, or Triton's interpreter in float32.

On a GPU: pytest -m gpu tests/kernels/triton
Without one: TRITON_INTERPRET=1 pytest -m gpu tests/kernels/triton
"""

from collections.abc import Iterator

import pytest
import torch
from codec_case import INTERPRETED
from precise import without_tf32

DTYPES = [torch.float32] if INTERPRETED else [torch.float32, torch.bfloat16]


@pytest.fixture
def where() -> torch.device:
    pytest.importorskip("triton")
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("neither a CUDA device nor TRITON_INTERPRET=1")
    return torch.device("cpu" if INTERPRETED else "cuda")


@pytest.fixture(autouse=True)
def no_tf32() -> Iterator[None]:
    """float32 means float32, whatever a test before this one has allowed."""
    with without_tf32():
        yield


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param
