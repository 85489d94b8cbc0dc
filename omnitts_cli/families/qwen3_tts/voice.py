"""Cloner: a clip -> its frames and its voice. One clip at a time, so that a clip's codes never depend on others."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from omnitts_cli.errors import InputError
from omnitts_cli.models.codec_encoder import CodecEncoder
from omnitts_cli.models.embed import Place
from omnitts_cli.models.speaker import SpeakerEncoder


class Qwen3Cloner:
    """Fills the Cloner role. Both encoders work in float32."""

    def __init__(self, encoder: CodecEncoder, speaker: SpeakerEncoder, place: Place = torch.from_numpy) -> None:
        self._encoder, self._speaker, self._place = encoder, speaker, place

    @torch.no_grad()
    def codes(self, sound: np.ndarray) -> np.ndarray:
        """sound [n] -> [ceil(n / samples per frame), G] int64."""
        return self._encoder(self._heard(sound)[None])[0].cpu().numpy()

    @torch.no_grad()
    def embedding(self, sound: np.ndarray) -> np.ndarray:
        """sound [n] -> [H] float32: what the talker hears as the speaker."""
        return self._speaker.embed(self._heard(sound)).float().cpu().numpy()

    def _heard(self, sound: np.ndarray) -> Tensor:
        if sound.ndim != 1 or not len(sound):
            raise InputError(f"a clip must be one channel of sound; this one has the shape {list(sound.shape)}")
        if not np.isfinite(sound).all():
            raise InputError("the clip holds samples that are not finite numbers", hint="export it again")
        return self._place(np.ascontiguousarray(sound, np.float32))
