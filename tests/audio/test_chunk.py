"""Chunks and clips: a clip is the join of its chunks and nothing else."""

import numpy as np

from omnitts_cli.audio.chunk import Chunk, Clip


def chunk(index: int, frames: int, last: bool = False) -> Chunk:
    pcm = np.full(frames * 4, index, np.float32)
    return Chunk("a", index, pcm, np.full((frames, 3), index), last, "end" if last else None)


def test_a_clip_is_the_join_of_its_chunks() -> None:
    clip = Clip.join(chunk(index, index + 1, last=index == 2) for index in range(3))
    assert clip.pcm.tolist() == [0.0] * 4 + [1.0] * 8 + [2.0] * 12 and clip.pcm.dtype == np.float32
    assert clip.codes[:, 0].tolist() == [0, 1, 1, 2, 2, 2] and clip.stopped == "end"


def test_an_empty_last_chunk_only_says_why() -> None:
    clip = Clip.join(
        [chunk(0, 2), Chunk("a", 1, np.zeros(0, np.float32), np.zeros((0, 3), np.int64), True, "cancelled")]
    )
    assert len(clip.codes) == 2 and len(clip.pcm) == 8 and clip.stopped == "cancelled"


def test_no_chunks_are_no_sound() -> None:
    clip = Clip.join([])
    assert not clip.pcm.size and not len(clip.codes) and clip.stopped is None


def test_chunks_are_compared_by_who_they_are() -> None:
    one = chunk(0, 1)
    assert one == one and one != chunk(0, 1)  # arrays have no truth of their own
