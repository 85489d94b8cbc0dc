"""The model hears the words of its own speech, and not those of noise or of another text."""

from collections.abc import Sequence

import numpy as np
import pytest

from omnitts_cli.tuning.heard import EXCHANGES, exchanges, heard, vocabulary
from omnitts_cli.tuning.verdict import SENTENCES

TEXT = "The Boat drifted past an old bridge."
WORDS = vocabulary(SENTENCES)


def test_each_word_is_exchanged_for_others_of_its_length() -> None:
    found = exchanges(TEXT, WORDS)
    assert len(found) == 6 and {len(one) for one in found} == {EXCHANGES}  # "an" is too short
    assert found == exchanges(TEXT, WORDS)
    for one in (one for some in found for one in some):
        old, new = TEXT.split(), one.split()
        changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert len(changed) == 1 and changed[0][0].istitle() == changed[0][1].istitle()
        assert abs(len(changed[0][0]) - len(changed[0][1])) <= 1
    assert exchanges("12, 34!", WORDS) == [] and len(exchanges(" ".join(WORDS), WORDS)) == 8
    assert {len(one) for some in exchanges("東京は", vocabulary(["大阪の夜", "東京"])) for one in some} == {3}


@pytest.mark.parametrize(("known", "share"), [((), 0.0), (("Boat",), 1 / 6), (("Boat", "drifted", "past"), 0.5)])
def test_a_word_is_heard_if_no_other_is_likelier(known: Sequence[str], share: float) -> None:
    codes = np.zeros((3, 2), np.int64)

    def losses(texts: Sequence[str], given: np.ndarray) -> list[float]:
        assert given is codes and texts[0] == TEXT
        return [sum(word not in text for word in known) for text in texts]

    assert heard(TEXT, codes, losses, WORDS) == pytest.approx(share)
    assert heard("12", codes, losses, WORDS) is None
