"""ChatFile: a conversation in a file of JSON lines, one message a line, that grows by question and answer at once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli.errors import InputError, OutputError

if TYPE_CHECKING:
    from omnitts_cli.models.thinker import Message
    from omnitts_cli.speech.reply import Answer

ROLES = ("system", "user", "assistant")


@dataclass
class ChatFile:
    """`system`: a prompt that is not in the file yet; it is written before the first question."""

    path: Path
    messages: list[Message] = field(default_factory=list)
    system: str | None = None

    @staticmethod
    def open(path: Path) -> ChatFile:
        """Returns the conversation of a file; a file that does not exist is an empty one."""
        try:
            if not path.exists():
                if not path.absolute().parent.is_dir():
                    raise InputError(f"cannot write conversation {path}: there is no such folder")
                return ChatFile(path)
            lines = path.read_bytes().decode("utf-8-sig").splitlines()
        except OSError as error:
            raise InputError(f"cannot read conversation {path}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise InputError(f"conversation {path} is not UTF-8 text") from None
        return ChatFile(path, [_message(path, number, line) for number, line in enumerate(lines, 1) if line.strip()])

    def append(self, question: str, answer: Answer) -> None:
        """Writes a question and its answer in one go, at the end of the file."""
        turns: list[dict[str, Any]] = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer.text, "ids": list(answer.tokens)},
        ]
        if self.system:
            turns.insert(0, {"role": "system", "content": self.system})
            self.system = None
        text = "".join(json.dumps(turn, ensure_ascii=False) + "\n" for turn in turns)
        try:
            with self.path.open("ab+") as file:
                if file.tell() and self._open_line(file):
                    text = "\n" + text
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            what = f"cannot write conversation {self.path}: {(error.strerror or str(error)).lower()}"
            raise OutputError(what, hint="--chat FILE in a folder that can be written") from None

    @staticmethod
    def _open_line(file: Any) -> bool:
        """Whether the file does not end with a line end."""
        file.seek(-1, 2)
        last = file.read(1)
        return bool(last != b"\n")


def _message(path: Path, number: int, line: str) -> Message:
    from omnitts_cli.models.thinker import Message

    def wrong(what: str) -> InputError:
        hint = 'a line looks like {"role": "user", "content": "Hello"}'
        return InputError(f"{path}, line {number}: {what}", hint=hint, where=(str(path), number))

    try:
        turn = json.loads(line)
    except (ValueError, RecursionError):
        raise wrong("not JSON") from None
    if not isinstance(turn, dict):
        raise wrong("not a JSON object")
    role, text, ids = turn.get("role"), turn.get("content"), turn.get("ids")
    if role not in ROLES:
        raise wrong(f"role {role!r} is not one of {', '.join(ROLES)}")
    if not isinstance(text, str):
        raise wrong("content is not text")
    if ids is None:
        return Message(role, text)
    if not isinstance(ids, list) or any(type(one) is not int or not 0 <= one < 2**31 for one in ids):
        raise wrong("ids are not a list of token ids")
    return Message(role, text, tuple(ids) if role == "assistant" else None)
