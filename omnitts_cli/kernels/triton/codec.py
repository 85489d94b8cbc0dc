"""The streaming codec's operations on CUDA."""

import torch

from omnitts_cli.kernels.ops import CodecOps
from omnitts_cli.kernels.triton.codec_products import product, unit
from omnitts_cli.kernels.triton.codec_ready import ready
from omnitts_cli.kernels.triton.codec_rest import attend, close, entries, hush, keep, mix, recall

OPS = CodecOps(
    # the 10 bits of mantissa that TF32 has, at twice its speed
    operand=torch.float16,
    entries=entries,
    product=product,
    unit=unit,
    attend=attend,
    mix=mix,
    close=close,
    hush=hush,
    recall=recall,
    keep=keep,
    ready=ready,
)
