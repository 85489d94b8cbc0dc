"""Requests in random company: who comes when depends on a seed, and every result is bytes that must be equal."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.request import Request


def spoken_among(engine: Any, requests: Sequence[Request], level: int, seed: int) -> dict[str, tuple[bytes, bytes]]:
    """Codes and samples of each request, at most `level` of them at once, arriving and leaving at random."""
    order = random.Random(seed)
    waiting, running = order.sample(requests, len(requests)), set[str]()
    parts: dict[str, list[Chunk]] = {request.id: [] for request in requests}
    while waiting or engine.busy:
        while waiting and len(running) < level and (not running or order.random() < 0.5):
            running.add(waiting[-1].id)
            engine.submit(waiting.pop())
        for news in engine.step():
            assert isinstance(news, Chunk), news
            parts[news.request].append(news)
            if news.last:
                running.discard(news.request)
    return {
        name: (
            np.concatenate([chunk.codes for chunk in chunks]).tobytes(),
            np.concatenate([chunk.pcm for chunk in chunks]).tobytes(),
        )
        for name, chunks in parts.items()
    }
