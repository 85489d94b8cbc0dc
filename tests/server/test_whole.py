"""Whole answers: complete files that are not kept in memory."""

import os
from typing import Any

import numpy as np
import pytest
import soundfile
from serving import Running

from omnitts_cli.server import whole
from omnitts_cli.server.problems import Problem
from omnitts_cli.server.state import MOST_WAITING_BYTES
from omnitts_cli.server.whole import TemporarySink


@pytest.mark.parametrize("form", ["wav", "flac", "mp3", "ogg", "pcm_f32"])
def test_a_file_has_the_right_length_in_its_header(form: str) -> None:
    sink = TemporarySink(form, 24_000, None)
    sound = 0.3 * np.sin(np.arange(60_000, dtype=np.float32) / 20)
    for start in range(0, 60_000, 7_000):
        sink.write(sound[start : start + 7_000])
    sink.finish()
    data = sink.read()
    assert (len(data), sink.seconds) == (sink.size, 2.5)
    if form == "pcm_f32":
        assert np.array_equal(np.frombuffer(data, "<f4"), sound)
    else:
        path = f"/dev/fd/{os.dup(sink.file.fileno())}"
        sink.file.seek(0)
        found, rate = soundfile.read(path)
        assert rate == 24_000 and abs(len(found) - 60_000) <= 3_000
    sink.discard()
    assert sink.file.closed


def test_a_long_answer_is_kept_in_a_file(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of the sound in memory is never more than one block, however long the answer is."""
    blocks: list[int] = []
    before = TemporarySink.write

    def write(self: TemporarySink, samples: np.ndarray) -> None:
        blocks.append(samples.size)
        before(self, samples)

    monkeypatch.setattr(whole.TemporarySink, "write", write)
    answer = server.speech("A sentence of some words is here. " * 60, stream=False, response_format="wav")
    assert answer.status == 200 and int(answer.headers["content-length"]) == len(answer.body)
    assert int.from_bytes(answer.body[40:44], "little") == len(answer.body) - 44
    assert len(blocks) > 3 and max(blocks) < 200_000


def test_what_is_kept_in_memory_is_counted_and_bounded(server: Running) -> None:
    def work() -> Any:
        with server.state.call("a") as call, server.state.call("b") as other:
            server.state.keep(call, MOST_WAITING_BYTES - 10)
            assert call.waiting_bytes == MOST_WAITING_BYTES - 10
            with pytest.raises(Problem) as error:
                server.state.keep(other, 11)
            return error.value.status

    assert server.on_loop(work) == 503
