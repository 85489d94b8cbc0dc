"""File names from ids: safe, reversible, and different."""

import re
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.fleet.names import LONGEST_NAME, checked_id, file_stem, numbered, relative_path

SAFE = re.compile(r"[A-Za-z0-9%_-][A-Za-z0-9._%-]*")


@pytest.mark.parametrize(("id", "name"), [
    ("plain-1_x.y", "plain-1_x.y"), ("../x", "%2E.%2Fx"), ("a/b\\c", "a%2Fb%5Cc"), ("CON", "%43ON"),
    ("con.wav", "%63on.wav"), ("conx", "conx"), ("end.", "end%2E"), ("100%", "100%25"), ("ü", "%C3%BC"),
    ("a b", "a%20b"),
])  # fmt: skip
def test_names(id: str, name: str) -> None:
    assert file_stem(id) == name


@given(st.text(min_size=1, max_size=40))
def test_names_are_safe_and_reversible(text: str) -> None:
    try:
        id = checked_id(text)
    except ValueError:
        return
    for capitals in (False, True):
        name = file_stem(id, capitals=capitals)
        assert SAFE.fullmatch(name) and not name.endswith(".") and len(name) <= LONGEST_NAME
        if "-" not in name[-13:]:
            assert unquote_to_bytes(name).decode() == id
        assert not capitals or not re.search("[A-Z]", re.sub("%[0-9A-F]{2}", "", name))


def test_long_names_stay_different_and_ids_are_one_in_every_form() -> None:
    names = {file_stem(f"{'ä' * 90}{n}") for n in range(50)}
    assert len(names) == 50 and all(len(name) <= LONGEST_NAME for name in names)
    assert checked_id("e\u0301") == checked_id("\u00e9") == "\u00e9" and checked_id(7) == "7"
    assert numbered(12) == "00000012"
    assert relative_path("a", ".flac", flat=True) == "a.flac" and relative_path("a", "", flat=False).endswith("/a")


@pytest.mark.parametrize("id", ["", "a\0", "a\n", "x" * 201, "\ud800", True, 1.5, None, ["a"], "\x85"])
def test_ids_that_are_refused(id: object) -> None:
    with pytest.raises(ValueError, match="id"):
        checked_id(id)
