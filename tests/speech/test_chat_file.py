"""ChatFile: what is appended is whole, or the file is as it was."""

import errno
from pathlib import Path
from typing import Any

import pytest

from omnitts_cli.errors import OutputError
from omnitts_cli.speech.chat_file import ChatFile
from omnitts_cli.speech.reply import Answer

ANSWER = Answer("yes", (7,), "end", 1, 0, 0, None, 0.0, 0.0)


class Full:
    """A file on a disk with room for `room` more bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def __enter__(self) -> "Full":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data[: self.room])


@pytest.mark.parametrize("room", [0, 10])
@pytest.mark.parametrize("content", ["", '{"role": "user", "content": "hello"}'])
def test_a_full_disk_changes_nothing(room: int, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(content)
    chat = ChatFile.open(path)
    opened = Path.open
    with monkeypatch.context() as full:
        full.setattr(Path, "open", lambda path, *more, **given: Full(opened(path, *more, **given), room))
        with pytest.raises(OutputError, match=r"cannot write conversation .*: no space left"):
            chat.append("hi", ANSWER)
    assert path.read_text() == content
    chat.append("hi", ANSWER)
    roles = [message.role for message in ChatFile.open(path).messages]
    assert roles == ["user"] * bool(content) + ["user", "assistant"]


def test_two_processes_may_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    first, second = ChatFile.open(path), ChatFile.open(path)
    for chat in (first, second, first):
        chat.append("x" * 20_000, ANSWER)
    assert [message.role for message in ChatFile.open(path).messages] == ["user", "assistant"] * 3


def test_a_message_may_contain_any_line_separator(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    asked = "one\u2028two\u2029three\x85four\x0cfive\nsix"
    ChatFile.open(path).append(asked, ANSWER)
    assert [message.text for message in ChatFile.open(path).messages] == [asked, "yes"]
