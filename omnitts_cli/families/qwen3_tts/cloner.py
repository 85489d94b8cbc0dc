"""Qwen3Cloner: a clip -> its frames and its voice. One clip at a time, so that a clip's codes never depend on others.
Imports torch when the first clip comes.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omnitts_cli.errors import InputError
from omnitts_cli.models.prompts import Place


@dataclass(eq=False)
class Qwen3Cloner:
    """Fills the Cloner role. Both encoders work in float32; `load` is called for them when the first clip comes."""

    load: Callable[[], tuple[Any, Any]]
    place: Place
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _loaded: tuple[Any, Any] | None = field(default=None, init=False, repr=False)

    def codes(self, sound: np.ndarray) -> np.ndarray:
        """sound [n] -> [ceil(n / samples per frame), G] int64."""
        import torch

        encoder, _ = self._encoders()
        with torch.no_grad():
            return encoder(self._heard(sound)[None])[0].cpu().numpy()

    def embedding(self, sound: np.ndarray) -> np.ndarray:
        """sound [n] -> [H] float32: the talker's input row for the speaker."""
        import torch

        _, speaker = self._encoders()
        with torch.no_grad():
            return speaker.embed(self._heard(sound)).float().cpu().numpy()

    def _encoders(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                encoder, speaker = self.load()
                self._loaded = encoder.eval().requires_grad_(False), speaker.eval().requires_grad_(False)
        return self._loaded

    def _heard(self, sound: np.ndarray) -> Any:
        if sound.ndim != 1 or not len(sound):
            raise InputError(f"a clip must be one channel of sound; this one has the shape {list(sound.shape)}")
        if not np.isfinite(sound).all():
            raise InputError("the clip holds samples that are not finite numbers", hint="export it again")
        return self.place(np.ascontiguousarray(sound, np.float32))
