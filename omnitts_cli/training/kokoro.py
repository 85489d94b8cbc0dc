"""Kokoro-82M as a module: weights from a work folder, and one pass that speaks many texts at once.

The folder (see `teacher_files`) holds the four files of the `kokoro` package that define the network, its config and
its weights. The package runs one text at a time: its LSTMs run over padding, and its norms take their mean over all
frames. Here LSTMs are packed and norms count valid frames only and leave zeros elsewhere, so every convolution sees the
same zeros at the end of a text as if it were alone. A norm and the activation after it are one compiled kernel, and
convolutions run in half precision.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from omnitts_cli.devices.device import Device
from omnitts_cli.training import pitch_lock, pitch_rise

SAMPLES = 600  # of sound for each frame of the teacher's durations
WEIGHTS, CONFIG, CODE = "kokoro.safetensors", "config.json", "kokoro"
FRESH = re.compile(r"(norm\d?|adain\d\.\d)\.norm\.(weight|bias)$|bert\.pooler\.|position_ids")
"""Weights that the ONNX file lacks because they have no effect: factors of 1 and 0, and ALBERT's pooler."""


@dataclass(frozen=True)
class TeacherBatch:
    """The result of one batch. Sounds and pitches are padded; `frames` are the valid lengths."""

    sound: Tensor  # [B, n]
    durations: Tensor  # [B, tokens], in frames
    frames: Tensor  # [B]
    pitch: Tensor  # [B, 2 * frames], Hz


def load(folder: Path, device: Device) -> nn.Module:
    """Loads the network, with weight norm folded into the weights."""
    code = types.ModuleType("kokoro")
    code.__path__ = [str(folder / CODE)]
    sys.modules.setdefault("kokoro", code)  # its __init__ imports much that is not needed here
    sys.modules.setdefault("attr", types.SimpleNamespace(attr=None))  # type: ignore[arg-type]
    sys.modules.setdefault("loguru", types.SimpleNamespace(logger=logging.getLogger("kokoro")))  # type: ignore[arg-type]
    network = importlib.import_module("kokoro.model").KModel
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    with tempfile.NamedTemporaryFile(suffix=".pth") as empty:
        torch.save({}, empty.name)
        model: Any = network(repo_id="hexgrad/Kokoro-82M", config=config, model=empty.name)
    for module in model.modules():
        if hasattr(module, "weight_g"):
            nn.utils.remove_weight_norm(module)
    stored = load_file(folder / WEIGHTS)
    missing, unexpected = model.load_state_dict(_floats(stored), strict=False)
    assert not unexpected and all(FRESH.search(name) for name in missing), (missing, unexpected)
    net: Any = importlib.import_module("kokoro.istftnet")
    net.AdaIN1d.forward, net.Generator.forward = _adain, _generator
    net.AdaINResBlock1.forward = _residual
    net.SineGen._f02sine = _sines
    net.AdaINResBlock1.act = staticmethod(torch.compile(_norm_snake, dynamic=True) if device.captures else _norm_snake)
    model.half_sound = device.captures
    made: nn.Module = model.to(device.torch_device).eval().requires_grad_(False)
    return made


def _floats(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """Dequantises 8-bit integers with their scales and zero points."""
    return {
        name: (value.float() - stored[f"{name}|zero"]) * stored[f"{name}|scale"] if f"{name}|scale" in stored else value
        for name, value in stored.items()
        if "|" not in name
    }


class _Lengths:
    """Valid frames of each text of the current batch, for the norms inside the network."""

    frames: Tensor
    longest: int
    cycles: Tensor  # [B, n]: the phase of the source at each sample


def _valid(x: Tensor) -> Tensor:
    """The number of valid columns of x [B, C, T] at its own rate: [B]; one more after the reflection pad."""
    times = x.shape[-1] // _Lengths.longest
    return _Lengths.frames * times + (x.shape[-1] - times * _Lengths.longest)


def _norm(x: Tensor, scale: Tensor, count: Tensor, eps: float) -> Tensor:
    gamma, beta = scale.float()[:, :, None].chunk(2, dim=1)
    mask = torch.arange(x.shape[-1], device=x.device)[None, None] < count[:, None, None]
    real = torch.where(mask, x.float(), 0.0)
    mean = real.sum(-1, keepdim=True) / count[:, None, None]
    centred = torch.where(mask, x.float() - mean, 0.0)
    spread = centred.square().sum(-1, keepdim=True) / count[:, None, None]
    return torch.where(mask, (1 + gamma) * centred * torch.rsqrt(spread + eps) + beta, 0.0)


def _norm_snake(x: Tensor, scale: Tensor, count: Tensor, alpha: Tensor, eps: float) -> Tensor:
    y = _norm(x, scale, count, eps)
    return (y + torch.sin(alpha * y).square() / alpha).to(x.dtype)


def _adain(self: Any, x: Tensor, style: Tensor) -> Tensor:
    return _norm(x, self.fc(style), _valid(x), self.norm.eps).to(x.dtype)


def _residual(self: Any, x: Tensor, style: Tensor) -> Tensor:
    act, count = self.act, _valid(x)
    layers = zip(self.convs1, self.convs2, self.adain1, self.adain2, self.alpha1, self.alpha2, strict=True)
    for first, second, norm, other, alpha, beta in layers:
        y = first(act(x, norm.fc(style), count, alpha, norm.norm.eps))
        x = second(act(y, other.fc(style), count, beta, other.norm.eps)) + x
    return x


def _masked(x: Tensor) -> Tensor:
    return x * (torch.arange(x.shape[-1], device=x.device)[None] < _valid(x)[:, None])[:, None]


def _sines(self: Any, harmonics: Tensor) -> Tensor:
    """The source's sines [B, n, harmonics], from the phase of the batch; the package's own have no fixed phase."""
    times = torch.arange(1, harmonics.shape[2] + 1, device=harmonics.device)
    return torch.sin(2 * torch.pi * _Lengths.cycles[..., None] * times)


def _generator(self: Any, x: Tensor, style: Tensor, pitch: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):
        pitch = self.f0_upsamp(pitch.float()[:, None]).transpose(1, 2)
        source, _, _ = self.m_source(pitch)
        spectrum, phase = self.stft.transform(source.transpose(1, 2).squeeze(1))
        source = _masked(torch.cat([spectrum, phase], dim=1))
    for i in range(self.num_upsamples):
        x = F.leaky_relu(x, negative_slope=0.1)
        from_source = self.noise_res[i](self.noise_convs[i](source), style)
        x = self.ups[i](_masked(x))
        if i == self.num_upsamples - 1:
            x = self.reflection_pad(x)
        x = x + from_source
        x = sum(self.resblocks[i * self.num_kernels + j](x, style) for j in range(self.num_kernels)) / self.num_kernels
    x = self.conv_post(_masked(F.leaky_relu(x))).float()
    half = self.post_n_fft // 2 + 1
    with torch.autocast(x.device.type, enabled=False):
        return self.stft.inverse(torch.exp(x[:, :half]), torch.sin(x[:, half:]))


def _packed(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


@dataclass(frozen=True)
class Intonation:
    """How F0 is changed. `pitch` [B] multiplies it; `rising`: the tokens of each text that rise (`pitch_rise`), by
    `semitones`; `locked`: the steps of a frame of each text, if its pitch is locked to the frames (`pitch_lock`)."""

    pitch: Tensor
    rising: list[list[pitch_rise.Span]]
    locked: list[int] | None = None
    semitones: float = 0.0

    def applied(self, curve: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """The F0 curve [B, T] and its phase, from the teacher's own. `ends` [B, tokens]: frames up to a token's end."""
        curve = curve * self.pitch[:, None]
        if self.semitones and any(self.rising):
            until = (ends * pitch_lock.PER_FRAME).tolist()
            # a token begins where the one before it ends
            spans = [(row, until[row][a - 1], until[row][b - 1]) for row, own in enumerate(self.rising) for a, b in own]
            curve = pitch_rise.raised(curve, spans, self.semitones)
        if self.locked is None:
            return curve, pitch_lock.free(curve)
        found, phase = torch.zeros_like(curve), curve.new_zeros(len(curve), curve.shape[1] * pitch_lock.ENTRY)
        for steps in set(self.locked):
            rows = [row for row, own in enumerate(self.locked) if own == steps]
            found[rows], phase[rows] = pitch_lock.locked(curve[rows], steps)
        return found, phase


@torch.no_grad()
def speak(model: Any, ids: list[list[int]], styles: Tensor, pace: Tensor, intonation: Intonation) -> TeacherBatch:
    """ids: [0, phonemes, 0] of each text. styles [B, 256]; pace [B] divides durations."""
    device = styles.device
    lengths = torch.tensor([len(i) for i in ids], device=device)
    tokens = torch.zeros(len(ids), int(lengths.max()), dtype=torch.long)
    for row, line in zip(tokens, ids, strict=True):
        row[: len(line)] = torch.tensor(line)
    tokens = tokens.to(device)
    pad = torch.arange(tokens.shape[1], device=device)[None] >= lengths[:, None]
    who, how = styles.chunk(2, dim=1)
    encoded = model.bert_encoder(model.bert(tokens, attention_mask=(~pad).int())).transpose(-1, -2)
    said = model.predictor.text_encoder(encoded, how, lengths, pad)
    frames = torch.sigmoid(model.predictor.duration_proj(_packed(model.predictor.lstm, said, lengths))).sum(-1)
    frames = torch.round(frames / pace[:, None]).clamp(min=1).long().masked_fill(pad, 0)
    _Lengths.frames = frames.sum(1)
    _Lengths.longest = int(_Lengths.frames.max())
    ends = frames.cumsum(1)[..., None]
    at = torch.arange(_Lengths.longest, device=device)[None, None]
    align = ((at < ends) & (at >= ends - frames[..., None])).to(said.dtype)  # [B, tokens, frames]
    shared = _packed(model.predictor.shared, (said.transpose(-1, -2) @ align).transpose(-1, -2), _Lengths.frames)
    curves = []
    for blocks, out in (
        (model.predictor.F0, model.predictor.F0_proj),
        (model.predictor.N, model.predictor.N_proj),
    ):
        y = shared.transpose(-1, -2)
        for block in blocks:
            y = block(y, how)
        curves.append(_masked(out(_masked(y))).squeeze(1))
    curves[0], _Lengths.cycles = intonation.applied(curves[0], ends[..., 0])
    text = model.text_encoder(tokens, lengths, pad) @ align
    with torch.autocast(device.type, torch.float16, enabled=model.half_sound):
        sound = model.decoder(text, curves[0], curves[1], who).squeeze(1)
    return TeacherBatch(sound.float(), frames, _Lengths.frames, curves[0])
