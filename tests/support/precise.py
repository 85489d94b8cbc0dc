"""float32 products on a card in full precision while a block runs, whatever another test has allowed.

pytest's monkeypatch cannot do this: some versions of torch cannot delete the attribute, and the test fails as it ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def without_tf32() -> Iterator[None]:
    matmul, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, convolutions.allow_tf32
    matmul.allow_tf32 = convolutions.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, convolutions.allow_tf32 = before
