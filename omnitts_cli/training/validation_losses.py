"""Losses of the language side on held-back unnamed speakers: cloned, continued after the clip, and described."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from omnitts_cli.training.batches import Batch, cloned, designed, lay_out
from omnitts_cli.training.dataset import UnnamedTable
from omnitts_cli.training.ids import CodecIds, TinyTextIds
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speech import TinySpeech

Rows = Callable[[Batch, Tensor | None], Tensor]


@torch.no_grad()
def unnamed_speaker_losses(
    speech: TinySpeech, rows: Rows, tables: list[UnnamedTable], recipe: Recipe, ids: tuple[CodecIds, TinyTextIds]
) -> dict[str, float]:
    """Losses of the leading group. `held_swapped` is with another speaker's clip: its difference from `held_cloned`
    shows how much the clip helps."""
    sums: dict[str, float] = {}
    for table in tables:
        by_clip, after_clip = (cloned(table, table.capacity, recipe, continued) for continued in (0.0, 1.0))
        described = designed(table, table.capacity, recipe)
        by_speaker = speech.speaker(by_clip.mel)
        for name, examples, vectors in (
            ("cloned", by_clip, by_speaker),
            ("swapped", by_clip, by_speaker.roll(1, 0)),
            ("continued", after_clip, speech.speaker(after_clip.mel)),
            ("described", described, None),
        ):
            batch = lay_out(examples, table.rows, recipe, *ids)
            scores = speech.talker.logits(speech.talker(rows(batch, vectors)))
            loss = F.cross_entropy(scores.flatten(0, 1), batch.target.flatten(), ignore_index=-100)
            sums[f"held_{name}"] = sums.get(f"held_{name}", 0.0) + float(loss)
    return {name: total / len(tables) for name, total in sums.items()}
