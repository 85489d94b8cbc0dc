"""What Whisper writes is turned into words as they were said."""

import sys

import numpy as np
import pytest

from omnitts_cli.errors import OmniError
from omnitts_cli.training.listeners import Installed, at_rate, unwritten


def test_digits_become_words_and_sound_has_16_khz() -> None:
    assert unwritten("It’s 21 well-known men.").split() == ["It's", "twenty", "one", "well", "known", "men."]
    assert len(at_rate(np.zeros(2400, np.float32))) == 1600


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resemblyzer", None)
    with pytest.raises(OmniError, match="Resemblyzer"):
        Installed(None).voice(np.zeros(2400, np.float32))
