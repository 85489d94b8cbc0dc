"""What the command says and how much memory it held; and its failure in words."""

from __future__ import annotations

import pytest

from omnitts_cli.errors import OmniError
from omnitts_cli.training.command import run, speak

MODEL = "random:toy"


def test_pieces_come_back_with_their_texts() -> None:
    heard = speak(MODEL, "say", ["One line.", "Another line."], "--max-frames", "4", "--seed", "1")
    assert heard.texts == ["One line.", "Another line."]
    assert len({len(sound) for sound in heard.sounds}) == 1 and len(heard.sounds[0]) > 0
    assert heard.told["seed"] == 1 and heard.peak_memory > 50e6


def test_a_failure_tells_what_the_command_said() -> None:
    with pytest.raises(OmniError, match="failed with 2") as caught:
        run(["say", "--no-such-option"])
    assert "no-such-option" in (caught.value.cause or "")
