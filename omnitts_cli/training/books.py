"""How well a codec uses its books: what each group adds to the sound, and how much of its book is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.training.mel_distance import MelDistance
from omnitts_cli.training.shapes import TinyCodec
from omnitts_cli.training.teacher import SAMPLE_RATE, SAMPLES_PER_FRAME


@torch.no_grad()
def usage(codec: TinyCodec, sounds: Sequence[np.ndarray]) -> dict[str, Any]:
    """`lost`: log-mel distance when only the first groups are decoded, by their number. `in_use`: the perplexity of
    each group's codes. `dimensions`: the effective number of dimensions that the residual books code.
    """
    groups, mel = codec.decoder.shape.groups, MelDistance(SAMPLE_RATE)
    counts = sorted({1, 2, 4, 8, groups // 2, groups} & set(range(1, groups + 1)))
    lost = {count: 0.0 for count in counts}
    codes, projected = [], []
    for sound in sounds:
        whole = torch.from_numpy(sound[: len(sound) // SAMPLES_PER_FRAME * SAMPLES_PER_FRAME])[None]
        latent = codec.encoder.latent(whole)
        codes.append(codec.encoder.quantiser.encode(latent)[0])
        projected.append(codec.encoder.quantiser.residual.into(latent.float())[0])
        for count in counts:
            made = codec.decoder.sound(_of_first(codec, codes[-1][None], count)).clamp(-1, 1)
            lost[count] += float(mel(made, whole)) / len(sounds)
    joined = torch.cat(codes)
    return {
        "lost": {str(count): round(value, 4) for count, value in lost.items()},
        "in_use": [round(_even(torch.bincount(joined[:, g]).float())) for g in range(groups)],
        "dimensions": round(_even(torch.linalg.eigvalsh(torch.cov(torch.cat(projected).T)).clamp(min=0)), 1),
    }


def _of_first(codec: TinyCodec, codes: Tensor, count: int) -> Tensor:
    """The quantised latent of the first `count` groups."""
    halves = codec.decoder.quantiser
    quantised = halves.leading.decode(codes[..., :1])
    if count == 1:
        return quantised
    entries = sum(book[codes[..., g + 1]] for g, book in enumerate(halves.residual.books[: count - 1]))
    return quantised + halves.residual.out(entries)


def _even(weights: Tensor) -> float:
    """Perplexity: the number of equal weights with the same entropy."""
    shares = weights / weights.sum()
    return float(torch.special.entr(shares).sum().exp())
