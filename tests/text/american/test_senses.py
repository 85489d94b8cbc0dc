"""Words whose reading depends on their meaning. None of these sentences is in the list of hard words."""

from pathlib import Path

import pytest

from omnitts_cli.text.american.sentence import reader

CASES = (Path(__file__).parent / "senses.tsv").read_text("utf-8").splitlines()


@pytest.mark.parametrize(("sounds", "sentence"), [line.split("\t") for line in CASES])
def test_meaning_decides(sounds: str, sentence: str) -> None:
    assert f" {sounds} " in reader().spoken(sentence).translate(str.maketrans(",.!?", "    ")) + " "
