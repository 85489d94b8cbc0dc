"""The streaming codec's operations on CUDA, apart from those that kernels/choose.py chooses for each call."""

import torch

from omnitts_cli.kernels.ops import CodecOps
from omnitts_cli.kernels.triton.codec_products import product, residual_unit
from omnitts_cli.kernels.triton.codec_ready import warm_up
from omnitts_cli.kernels.triton.codec_rest import (
    attend,
    depthwise_norm,
    embed_codes,
    load_history,
    output_conv,
    store_history,
    zero_start,
)

OPS = CodecOps(
    # float16 has 10 mantissa bits, like TF32, and is twice as fast
    operand=torch.float16,
    embed_codes=embed_codes,
    product=product,
    residual_unit=residual_unit,
    attend=attend,
    depthwise_norm=depthwise_norm,
    output_conv=output_conv,
    zero_start=zero_start,
    load_history=load_history,
    store_history=store_history,
    warm_up=warm_up,
)
