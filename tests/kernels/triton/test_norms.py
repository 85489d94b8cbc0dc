"""The fused norm equals its plain version, at widths that are and are not powers of two."""

import pytest
import torch
from frame_table import close

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(1, 64), (3, 5, 128), (70, 96), (2, 2048)], ids=str)
def test_rms_norm(shape: tuple[int, ...], where: torch.device, dtype: torch.dtype) -> None:
    from omnitts_cli.kernels.triton.norms import rms_norm

    made = torch.Generator().manual_seed(shape[-1])
    x = (torch.randn(shape, generator=made) * 3).to(where, dtype)
    weight = (torch.rand(shape[-1], generator=made) + 0.5).to(where, dtype)
    truth = x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6) * weight.double()
    close(rms_norm(x, weight, 1e-6), truth)
