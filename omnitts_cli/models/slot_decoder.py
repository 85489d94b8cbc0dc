"""SlotDecoder: the codec for many streams, each with its state in a slot: the next codes of some slots -> their sound.
There are two kinds. One calls the codec's own `step` on the state of the slots. The other runs an UpsamplingDecoder
with a table of operations and time as the middle axis, and the weights as `codec_layout.py` rearranges them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.kernels.ops import CodecOps, FusedDecoder, Product
from omnitts_cli.kernels.tracks import Tracks
from omnitts_cli.models.codec_decoder import UpsamplingDecoder
from omnitts_cli.models.codec_layout import (
    CodecLayout,
    RiseProducts,
    StretchProducts,
    UnitProducts,
    decoder_parts,
    host_array,
    host_product,
    kept_of,
    rotations,
    tracks_of,
)
from omnitts_cli.models.roles import SlotDecoder
from omnitts_cli.models.shapes import UpsamplingShape

COUNTS = 16384
"""Semaphores for kernels that split one product; a product of more tiles fills the device without being split."""


def slot_decoder(
    codec: UpsamplingDecoder,
    slots: int,
    longest: int,
    ops: CodecOps | None = None,
    halves: bool = False,
    device: torch.device | None = None,
) -> SlotDecoder:
    """A decoder with `slots` slots for chunks of up to `longest` frames; `ops` are those of the device. `halves`: large
    weights may be stored in float16 if sums stay float32. `device`: where it runs, if the codec's own weights lie in
    the memory of the host."""
    if ops is None:
        weight = next(codec.parameters())
        return StepSlotDecoder(codec, slots, weight.device, weight.dtype)
    return FusedSlotDecoder(codec, slots, longest, ops, halves, device)


def place_weights(codec: UpsamplingDecoder, ops: CodecOps | None, device: torch.device) -> None:
    """Lays out the weights on an accelerator as its slot decoders read them. Done before slots are planned, so that the
    plan counts their memory."""
    if ops is not None and device.type not in ("cpu", "meta"):
        _layout_of(codec, ops.operand, device)


def call_bytes(codec: UpsamplingDecoder, frames: int, rows: int) -> int:
    """Estimates the device memory of one call: the inputs of all layers, and the widest ones in float32."""
    tracks = tracks_of(codec.shape)
    widest = max(track.rate * track.channels for track in tracks)
    return rows * (
        2 * sum((track.past + track.rate * frames) * track.channels for track in tracks) + 8 * widest * frames
    )


class StepSlotDecoder(SlotDecoder):
    """Runs the codec's own step on the slots' rows of its state."""

    def __init__(self, codec: UpsamplingDecoder, slots: int, device: torch.device, dtype: torch.dtype) -> None:
        self._codec = codec
        self._state = codec.initial_state(slots, device, dtype)
        self._fresh = codec.initial_state(1, device, dtype)

    def clear(self, slots: Tensor) -> None:
        """New streams start in `slots` [N]."""
        for name, held in self._state.items():
            fresh = self._fresh[name]
            held.index_copy_(0, slots, fresh.expand(len(slots), *fresh.shape[1:]))

    def decode(self, codes: Tensor, slots: Tensor) -> Tensor:
        """The next codes [B, T, G] of slots [B] -> sound [B, T * samples_per_frame], float32."""
        before = {name: held.index_select(0, slots) for name, held in self._state.items()}
        sound, after = self._codec.step(codes, before)
        for name, held in self._state.items():
            held.index_copy_(0, slots, after[name])
        return sound


class FusedSlotDecoder(SlotDecoder):
    """Runs the decoder over `ops`; a chunk has at most `longest` frames."""

    def __init__(
        self,
        decoder: UpsamplingDecoder,
        slots: int,
        longest: int,
        ops: CodecOps,
        halves: bool,
        device: torch.device | None,
    ) -> None:
        at, window = decoder.shape.transformer, decoder.shape.window
        self._ops, self._window, self._samples = ops, window, decoder.shape.samples_per_frame
        self._embed = decoder.embed
        self._groups, self._cuts = decoder.shape.groups, decoder.shape.cuts
        layout = _layout_of(decoder, ops.operand, device)
        device = layout.closing.device
        self._tracks = Tracks.of(tracks_of(decoder.shape), device)
        self._history = torch.zeros(slots, kept_of(decoder.shape), dtype=ops.operand, device=device)
        self._frames = torch.zeros(slots, dtype=torch.int64, device=device)
        rings = (at.layers, slots, at.heads, window - 1 + longest, at.head_dim)
        self._keys = torch.zeros(rings, dtype=ops.operand, device=device)
        self._values = torch.zeros(rings, dtype=ops.operand, device=device)
        self._rates = torch.from_numpy(rotations(decoder.shape)).to(device)
        with torch.no_grad():
            self._fused = self._fuse(
                decoder.shape, layout, halves, sum(4 * weight.numel() for weight in decoder.parameters())
            )
        self.in_c = self._fused is not None
        self.beside = self._fused is not None and self._fused.threads == 1
        if self._fused is None:  # otherwise it has the weights in a layout of its own
            self._layout = _counting(layout.whole(), torch.zeros(COUNTS, dtype=torch.int32, device=device))

    def _fuse(self, shape: UpsamplingShape, layout: CodecLayout, halves: bool, size_bytes: int) -> FusedDecoder | None:
        """`decode` as one operation, where the device has one for such a decoder."""
        if self._ops.fuse_decoder is None or layout.opening is None or any(self._cuts):
            return None
        state = {"history": self._history, "frames": self._frames, "keys": self._keys, "values": self._values}
        parts = decoder_parts(layout, shape, self._tracks, lambda rates: self._rates, size_bytes, **state)
        return self._ops.fuse_decoder(parts, halves)

    def prepare(self, sizes: Sequence[tuple[int, int]]) -> None:
        """Compile the kernels for later calls of these sizes, (frames, rows)."""

        def step() -> None:
            for frames, rows in sizes:
                codes = torch.zeros(rows, frames, self._groups, dtype=torch.int64, device=self._history.device)
                self.decode(codes, codes[:, 0, 0])

        self._ops.warm_up(step)

    def clear(self, slots: Tensor) -> None:
        """As in SlotDecoder."""
        self._history.index_fill_(0, slots, 0)
        self._frames.index_fill_(0, slots, 0)

    def decode(self, codes: Tensor, slots: Tensor) -> Tensor:
        """The next codes [B, T, G] of slots [B] -> sound [B, T * samples_per_frame], float32."""
        if self._fused is not None:
            return torch.as_tensor(self._fused(codes, slots))
        ops, layout, (rows, length, _) = self._ops, self._layout, codes.shape
        if ops.one_by_one and rows * length > 1:
            frames = [one.split(1, 1) for one in codes.split(1)]
            sound = [[self.decode(one, slot) for one in row] for row, slot in zip(frames, slots.split(1), strict=True)]
            return torch.cat([torch.cat(row, 1) for row in sound])
        buffer = torch.empty(self._tracks.size(rows, length), dtype=ops.operand, device=codes.device)
        ops.load_history(buffer, self._tracks, self._history, slots, length)
        # each track with the part that this call adds, in the order of the layers
        whole = self._tracks.views(buffer, rows, length)
        tracks = iter([(view, view[:, at.past :]) for view, at in zip(whole, self._tracks.parts, strict=True)])
        if layout.opening is None:
            x = self._embed(codes)
        else:
            track, new = next(tracks)
            ops.embed_codes(codes, layout.opening.books, new)
            x = _wide(codes, length, layout.opening.product)
            ops.product(track, layout.opening.product, before=x)
        self._attend(x, slots)
        track, new = next(tracks)
        for stretch in layout.stretches:
            x, track, new = self._stretch(x, stretch, track, new, tracks)
        if not layout.stretches:
            ops.product(x, layout.leaving, out=new)
        widened = next(tracks)
        ops.product(track, layout.widen, out=widened[1])
        track = widened[0]
        sound = torch.empty(rows, length * self._samples, device=codes.device)
        for rise, cut in zip(layout.rises, self._cuts, strict=True):
            following, new = next(tracks)
            if rise is layout.rises[-1] and self._close(track, whole, rise, sound):
                break
            wide = self._raise(rise.rise, track, new, slots, cut)
            track = self._units(rise, following, tracks, wide, slots, cut)
        else:
            ops.output_conv(track, layout.closing, layout.closing_bias, sound)
            if self._cuts[-1]:
                ops.zero_start(self._frames, slots, self._cuts[-1], sound[..., None], None)
        ops.store_history(buffer, self._tracks, self._history, slots, self._frames, length)
        return sound

    def _attend(self, x: Tensor, slots: Tensor) -> None:
        """The transformer: x [B, T, hidden] float32, changed in place."""
        ops = self._ops
        rows, length, _ = x.shape
        for index, layer in enumerate(self._layout.layers):
            qkv = _wide(x, length, layer.qkv)
            ops.product(x, layer.qkv, before=qkv)
            attended = x.new_empty(rows, length, layer.out.weight.shape[1], dtype=ops.operand)
            keys, values = self._keys[index], self._values[index]
            ops.attend(qkv, self._rates, self._frames, slots, keys, values, self._window, attended)
            ops.product(attended, layer.out, residual=x, before=x)
            hidden = x.new_empty(rows, length, layer.down.weight.shape[1], dtype=ops.operand)
            ops.product(x, layer.gate_up, out=hidden)
            ops.product(hidden, layer.down, residual=x, before=x)

    def _stretch(
        self, x: Tensor, stretch: StretchProducts, track: Tensor, new: Tensor, tracks: Iterator[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, columns, C] -> the input of the next layer, with its track and the new part of it."""
        ops = self._ops
        rows, columns, _ = new.shape
        wide = torch.empty(new.shape, device=x.device)
        blocks = (rows, x.shape[1], -1)  # the samples made from one input are contiguous
        ops.product(x, stretch.rise, before=wide.view(blocks), out=new.view(blocks))
        mixed = torch.empty(new.shape, dtype=ops.operand, device=x.device)
        ops.depthwise_norm(track, stretch.weight, stretch.bias, stretch.eps, mixed)
        hidden = x.new_empty(rows, columns, stretch.down.weight.shape[1], dtype=ops.operand)
        ops.product(mixed, stretch.up, out=hidden)
        track, new = next(tracks)
        x = new if stretch.last else mixed  # the input of the next layer
        ops.product(hidden, stretch.down, residual=wide, out=x)
        return x, track, new

    def _raise(self, product: Product, track: Tensor, new: Tensor, slots: Tensor, cut: int) -> Tensor:
        """Returns the transposed convolution of a rise, as an operand; `new` gets its snake. A new stream starts with
        `cut` columns of zeros."""
        wide = torch.empty_like(new, memory_format=torch.contiguous_format)
        blocks = (new.shape[0], track.shape[1] - product.taps + 1, -1)
        self._ops.product(track, product, before=wide.view(blocks), out=new.view(blocks))
        if cut:
            self._ops.zero_start(self._frames, slots, cut, new, wide)
        return wide

    def _units(
        self, rise: RiseProducts, following: Tensor, tracks: Iterator[tuple[Tensor, Tensor]], wide: Tensor,
        slots: Tensor, cut: int,
    ) -> Tensor:  # fmt: skip
        """The residual units of a rise: the track after them."""
        ops = self._ops
        for index, (conv, point) in enumerate(rise.units):
            track = following
            following, new = next(tracks)
            more = index + 1 < len(rise.units)
            ops.residual_unit(track, conv, point, wide, more, new)
            if cut:
                ops.zero_start(self._frames, slots, cut, new, wide if more else None)
        return following

    def _close(self, track: Tensor, tracks: Sequence[Tensor], rise: RiseProducts, sound: Tensor) -> bool:
        """The last rise, its units and the sound as one operation, if the device has one."""
        if self._ops.close is None or any(self._cuts):
            return False
        layout, later = self._layout, tracks[-1 - len(rise.units) :]
        return self._ops.close(track, rise.rise, later, rise.units, layout.closing, layout.closing_bias, sound)


def _wide(like: Tensor, columns: int, layer: Product) -> Tensor:
    return torch.empty(like.shape[0], columns, layer.weight.shape[0], device=like.device)


def _layout_of(decoder: UpsamplingDecoder, kind: torch.dtype, device: torch.device | None) -> CodecLayout:
    """The layout of a codec. On an accelerator, all of its slot decoders share the weights in it."""
    made = decoder.operands.get(kind)
    if made is None:
        weights = dict(decoder.named_parameters())
        device = device or next(iter(weights.values())).device

        def place(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array).to(device)

        def product(*given: Any, **more: Any) -> Product:
            host = host_product(*given, **more)
            vectors = {name: getattr(host, name) for name in ("bias", "scale", "inverse")}
            placed = {name: None if vector is None else place(vector) for name, vector in vectors.items()}
            return replace(host, weight=place(host.weight).to(kind), **placed)

        def values(name: str) -> np.ndarray:
            if device.type == "meta":  # only the shapes matter
                return np.zeros(weights[name].shape, np.float32)
            found: np.ndarray = weights[name].detach().float().cpu().numpy()
            return found

        made = CodecLayout.of(decoder.shape, values, product, lambda *given: place(host_array(*given)))
        if device.type != "cpu":
            made = decoder.operands[kind] = made.whole()
    return made


def _counting(part: Any, counts: Tensor) -> Any:
    """A part of a layout, with semaphores for its products: decoders that run side by side need their own."""
    if isinstance(part, Product):
        return replace(part, counts=counts)
    if isinstance(part, list | tuple):
        made = [_counting(one, counts) for one in part]
        return UnitProducts(*made) if isinstance(part, UnitProducts) else type(part)(made)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{one.name: _counting(getattr(part, one.name), counts) for one in fields(part)})
    return part
