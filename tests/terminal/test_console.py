"""Console: nothing of a user's text steers a terminal, tables fit, words stay short."""

import io
import sys

import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.terminal.console import Console, cell_width, columns, visible


@pytest.mark.parametrize(
    "text", ["\x1b[31m", "\x07", "\x9b", "\u202e", "\u2028", "\ud800", "\x00", "\x7f", "\U000e0041"]
)
def test_control_characters_are_spelled_out(text: str) -> None:
    assert not set(visible(text)) & set(text) - set("[31m")
    assert visible(text).startswith("\\")
    assert visible("Grüße, 世界!\n") == "Grüße, 世界!\n"


@pytest.mark.parametrize("width", [40, 80])
def test_tables_fit(width: int) -> None:
    rows = [["名前" * 3, "saved", "x" * 100], ["b", "model", "y\ty"], ["👍é🇩🇪", "saved", "z"]]
    lines = list(columns(rows, ["NAME", "KIND", "ABOUT"], width))
    assert all(cell_width(line) <= width for line in lines)
    assert [line.index("KIND") for line in lines[:1]] == [14]


def test_an_error_has_four_lines_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    Console().problem(InputError("what", cause="why", hint="omnitts doctor"))
    assert capsys.readouterr().err == "error: what\n  cause: why\n  try: omnitts doctor\n"


@pytest.mark.parametrize(("hint", "shown"), [
    ("omnitts voices list", "try: omnitts voices list"), ("-m 0.6b   or   -m 1.7b", "try: -m 0.6b   or   -m 1.7b"),
    ("leave one of them out", "try: leave one of them out"), ("did you mean 'speed'?", "did you mean 'speed'?"),
])  # fmt: skip
def test_a_next_step_has_a_label_and_a_question_none(hint: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    for _ in range(2):  # it is said once
        console.warning("odd", hint=hint)
    assert capsys.readouterr().err == f"warning: odd\n  {shown}\n" and console.warnings == ["odd"]


def test_quiet_keeps_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.quiet = True
    console.warning("odd")
    console.note("note")
    console.problem(InputError("what"))
    assert capsys.readouterr().err == "error: what\n"


def test_a_long_path_leaves_room_and_a_sentence_goes_on_in_the_next_line() -> None:
    rows = [["me", "saved", "/a/very/long/path/of/a/model/somewhere/on/the/disk", "my own voice"]]
    for width in (40, 60):
        lines = list(columns(rows, ["NAME", "KIND", "MODEL", "ABOUT"], width))
        assert "my own" in lines[1] and "…" in lines[1] and max(map(cell_width, lines)) <= width
    sentence = "The quick brown fox jumps over the lazy dog and goes home."
    _, *lines = columns([["1", sentence]], ["N", "TEXT"], 30)
    assert len(lines) == 3 and " ".join(line[3:] for line in lines) == sentence


@pytest.mark.parametrize("width", [50, 60, 64])
def test_neither_names_nor_the_last_column_are_cut(width: int) -> None:
    rows = [["1.7b-customvoice", "ready", "4.2 GiB", "/data/.cache/omnitts/models/1.7b-customvoice"]]
    lines = list(columns(rows, ["NAME", "STATE", "SIZE", "WHERE"], width))
    assert lines[1].startswith("1.7b-customvoice  ready  4.2 GiB  /da") and max(map(cell_width, lines)) <= width
    assert "".join(line[34:].strip() for line in lines[1:]) == rows[0][3]


@pytest.mark.parametrize(("typed", "yes", "shown"), [("y\n", True, "go? [y/N] "), ("", False, "go? [y/N] \n")])
def test_after_a_prompt_without_an_answer_a_new_line_begins(
    typed: str, yes: bool, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert Console().confirm("go?") is yes
    assert capsys.readouterr().err == shown
