"""Networks: a SpeechModel whose roles are modules of PyTorch, on any device."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import EIGHT, Columns, FrameParts, Normed, Ops
from omnitts_cli.models.codec_decoder import UpsamplingDecoder
from omnitts_cli.models.embed import FrameEmbedder
from omnitts_cli.models.layers import KVCache
from omnitts_cli.models.roles import KeyValues, SlotDecoder, SpeechModel, precision_name
from omnitts_cli.models.sampling import choose_first, choose_rest
from omnitts_cli.models.slot_decoder import call_bytes, slot_decoder
from omnitts_cli.models.talker import Predictor, Talker


@dataclass(kw_only=True)
class Networks(SpeechModel):
    """One module for each role."""

    talker: Talker
    predictor: Predictor
    embedder: FrameEmbedder
    codec: UpsamplingDecoder
    ops: Ops = plain.OPS

    @property
    def precision(self) -> str:
        """As in SpeechModel, like all that follow."""
        return precision_name(self.talker.head.dtype)

    @property
    def together(self) -> tuple[int, int] | None:
        """Set for matrices in 8 bits."""
        eight = self.ops.eight
        return None if eight is None or self.precision != precision_name(EIGHT) else eight.together

    @property
    def stream_bytes(self) -> int:
        """Of one slot of the decoder."""
        state = self.codec.initial_state(1, "meta", torch.float32)
        return sum(held.numel() * held.element_size() for held in state.values())

    def cache(self, slots: int, capacity: int) -> KVCache:
        """Keys and values of the talker."""
        return self.talker.cache(slots, capacity)

    def prefill(self, rows: Tensor, start: Tensor, slots: Tensor, cache: KeyValues, width: int) -> None:
        """Rows of prompts into the cache."""
        self.talker.prefill(rows, start, slots, cache, width)

    def frames(self, table: Columns, cache: KeyValues, stall: int) -> Callable[[Tensor, int], None]:
        """One call of the library, or of the operations."""
        fused = fused_frame(self, table, cache, stall)
        if fused is not None:
            return lambda slots, width: fused(slots)
        return lambda slots, width: frame(self, table, cache, slots, width, stall)

    def decoder(self, slots: int, longest: int) -> SlotDecoder:
        """The codec with slots."""
        halves = self.precision == precision_name(EIGHT)
        return slot_decoder(self.codec, slots, longest, self.ops.codec, halves, self.device)

    def check(self) -> None:
        """Asks the kernels that check themselves."""
        for part in (self.talker.fused, self.predictor.fused):
            if part is not None:
                part.check()

    def call_bytes(self, frames: int, rows: int) -> int:
        """From the sizes of all layers."""
        return call_bytes(self.codec, frames, rows)

    def prompt_bytes(self, rows: int) -> int:
        """From the widths of a layer: its input twice, the projection, the heads, gate and up with their product."""
        at = self.talker.shape.stack
        heads = (2 * at.heads + 2 * at.kv_heads) * at.head_dim
        return rows * (3 * at.hidden + heads + 3 * at.inner) * self.dtype.itemsize


def frame(model: Networks, table: Columns, cache: KeyValues, slots: Tensor, width: int, stall: int) -> None:
    """Advance `slots` [B] by one frame, in place. `width` bounds every position of this call."""
    facts, ops = model.facts, model.ops
    controls = table.controls.rows(slots, ops)
    rows, positions, made, may = ops.begin(table, slots)
    hidden = model.talker.step(rows, positions, slots, cache, width)
    logits = model.talker.logits(hidden)
    first_table = model.predictor.inputs(model.embedder)[0]
    first, row = choose_first(logits, first_table, table.seen, slots, made, controls, facts, ops)

    def choose(group: int, scores: Tensor, rows: Normed | None) -> tuple[Tensor, Normed | None]:
        return choose_rest(group, scores, rows, made, controls, ops)

    fused = model.predictor.fused
    if fused is not None and row is not None and slots.shape[0] <= fused.most_rows:
        codes = model.predictor.fused_frame(hidden, first, row, made, controls)
    else:
        codes = model.predictor.frame(hidden, first, row, model.embedder, choose)
    ops.finish(table, slots, made, may, logits, codes, controls.ignore_end, model.embedder, facts.end_code, stall)


def fused_frame(model: Networks, table: Columns, cache: KeyValues, stall: int) -> Callable[[Tensor], None] | None:
    """`frame` as one operation on slots [B], where the device has one for this model."""
    facts, ops, predictor = model.facts, model.ops, model.predictor
    if ops.fuse_frame is None or model.talker.stack.fused is None or predictor.stack.fused is None:
        return None
    project = None if predictor.project is None else (predictor.project.weight.data, predictor.project.bias.data)
    return ops.fuse_frame(
        FrameParts(
            talker=model.talker.stack.fused,
            predictor=predictor.stack.fused,
            cache=cache,
            turns=predictor.turns,
            head=model.talker.head.data,
            heads=predictor.heads.data,
            project=project,
            inputs=predictor.tables(model.embedder),
            first=model.embedder.first.data,
            rest=model.embedder.rest.data,
            table=table,
            controls=table.controls,
            end=facts.end_code,
            least_frames=facts.least_frames,
            stall=stall,
        )
    )
