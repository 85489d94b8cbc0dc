"""Editing a settings file: one key changes, every other letter of the file stays."""

import tomllib

import pytest

from omnitts_cli.settings.edit import with_key, without_key

FILE = '''\
# what I like

instruct = """
slowly,
voice = "not a key"
# not a comment
"""
lexicon = [   # two of them
  "a#b",
  'c',
]
seed = 3  # the lucky one
"top-k" = 9

# for one command
[say]
seed = 4
'''


@pytest.mark.parametrize(
    ("name", "value", "before", "after"),
    [
        ("seed", "5", "seed = 3  # the", "seed = 5  # the"),
        ("top-k", "8", '"top-k" = 9', "top-k = 8"),
        ("instruct", '"x"', FILE[FILE.index("instruct") : FILE.index("lexicon")], 'instruct = "x"\n'),
        ("lexicon", "[]", FILE[FILE.index("lexicon") : FILE.index("seed")], "lexicon = []\n"),
        ("voice", '"leo"', '"top-k" = 9\n', '"top-k" = 9\nvoice = "leo"\n'),
    ],
)
def test_a_key_is_set_in_its_place_or_after_the_last_one(name: str, value: str, before: str, after: str) -> None:
    changed = with_key(FILE, name, value)
    assert changed == FILE.replace(before, after, 1)
    assert tomllib.loads(changed)[name] == tomllib.loads(f"x = {value}")["x"]


@pytest.mark.parametrize("name", ["instruct", "lexicon", "seed", "top-k"])
def test_a_key_leaves_with_all_its_lines(name: str) -> None:
    rest = {key: value for key, value in tomllib.loads(FILE).items() if key != name}
    changed = without_key(FILE, name)
    assert tomllib.loads(changed) == rest
    assert set(changed.splitlines()) <= set(FILE.splitlines())


def test_what_is_not_there_stays_away() -> None:
    assert without_key(FILE, "voice") == FILE
    assert without_key("", "voice") == ""


def test_the_first_key_of_a_file_goes_in_front_of_its_tables() -> None:
    assert with_key("", "seed", "1") == "seed = 1\n"
    assert with_key("# mine\n[say]\nseed = 2", "seed", "1") == "seed = 1\n# mine\n[say]\nseed = 2"


def test_a_hash_inside_a_string_is_no_comment() -> None:
    assert with_key('voice = "a # b" # c\n', "voice", '"d"') == 'voice = "d" # c\n'
    assert with_key('voice = "a # b"\n', "voice", '"d"') == 'voice = "d"\n'


def test_line_ends_of_windows_and_separators_in_strings() -> None:
    text = 'voice = "a\u2028b"\r\nseed = 1\r\n[say]\r\n'
    assert with_key(text, "seed", "2") == 'voice = "a\u2028b"\r\nseed = 2\r\n[say]\r\n'
