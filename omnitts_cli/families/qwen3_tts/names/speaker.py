"""Rename table of the speaker encoder, which Base checkpoints carry beside the talker."""

from __future__ import annotations

from omnitts_cli.models.sources import Names, One
from omnitts_cli.models.speaker import SpeakerShape


def speaker_names(shape: SpeakerShape, prefix: str = "speaker_encoder.") -> Names:
    pairs = {"opening": "blocks.0.conv", "join": "mfa.conv", "out": "fc"}
    pairs |= {"pool.into": "asp.tdnn.conv", "pool.out": "asp.conv"}
    for i in range(len(shape.channels) - 2):
        ours, theirs = f"blocks.{i}", f"blocks.{i + 1}"
        pairs |= {f"{ours}.before": f"{theirs}.tdnn1.conv", f"{ours}.after": f"{theirs}.tdnn2.conv"}
        pairs |= {f"{ours}.gate_in": f"{theirs}.se_block.conv1", f"{ours}.gate_out": f"{theirs}.se_block.conv2"}
        pairs |= {f"{ours}.parts.{j}": f"{theirs}.res2net_block.blocks.{j}.conv" for j in range(shape.parts - 1)}
    return {
        f"{ours}.{part}": One(f"{prefix}{theirs}.{part}")
        for ours, theirs in pairs.items()
        for part in ("weight", "bias")
    }
