"""What a folder speaks, piece by piece; and how much memory the command holds, or its failure in words."""

import pytest

from omnitts_cli.errors import OmniError
from omnitts_cli.speech.tts import load
from omnitts_cli.training.spoken import peak_memory, speak


def test_pieces_come_back_with_their_texts() -> None:
    with load("random:toy", device="cpu", threads=1) as tts:
        spoken = speak(tts, ["One line.", "Another line."], max_frames=4, seed=1)
    assert spoken.texts == ["One line.", "Another line."]
    assert len({len(sound) for sound in spoken.sounds}) == 1 and len(spoken.sounds[0]) > 0
    assert spoken.retries == 0


def test_memory_and_a_failure_are_those_of_the_command() -> None:
    assert 50e6 < peak_memory("random:toy", ["Hm."]) < 5e9
    with pytest.raises(OmniError, match="failed with 4") as caught:
        peak_memory("no-such-model", ["Hm."])
    assert "no-such-model" in (caught.value.cause or "")
