"""ChatFile: a conversation in a file of JSON lines, one message a line, that grows by question and answer at once."""

import errno
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnitts_cli import files
from omnitts_cli.errors import InputError, OutputError
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.speech.reply import Answer

if TYPE_CHECKING:
    from omnitts_cli.models.thinker import Message

ROLES = ("system", "user", "assistant")


@dataclass
class ChatFile:
    """`system`: a prompt that is not in the file yet; it is written before the first question. `ids`: whether the file
    gets the tokens of answers, which only the model that wrote them can read.
    """

    path: Path
    messages: "list[Message]" = field(default_factory=list)
    system: str | None = None
    ids: bool = True

    @staticmethod
    def open(path: Path) -> "ChatFile":
        """Returns the conversation of a file; a file that does not exist is an empty one."""
        try:
            known = path.exists()
            if not known and not path.absolute().parent.is_dir():
                raise InputError(f"cannot write conversation {path}: there is no such folder")
            if known and not path.is_file():  # reading a device might never end
                what = "a folder" if path.is_dir() else "a pipe or a device"
                raise InputError(f"conversation {path} is {what}, not a file", hint="--chat talk.jsonl")
            if not os.access(path if known else path.absolute().parent, os.W_OK):
                raise cannot_write(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
            if not known:
                return ChatFile(path)
            lines = files.read(path, files.LARGE).decode("utf-8-sig").split("\n")  # splitlines would also cut at U+2028
        except OSError as error:
            raise InputError(f"cannot read conversation {path}: {(error.strerror or str(error)).lower()}") from None
        except UnicodeDecodeError:
            raise InputError(f"conversation {path} is not UTF-8 text") from None
        return ChatFile(path, [_message(path, number, line) for number, line in enumerate(lines, 1) if line.strip()])

    def append(self, question: str, answer: Answer) -> None:
        """Writes a question and its answer at the end of the file, both or neither."""
        turns: list[dict[str, Any]] = [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer.text, **({"ids": list(answer.tokens)} if self.ids else {})},
        ]
        if self.system:
            turns.insert(0, {"role": "system", "content": self.system})
            self.system = None
        text = "".join(json.dumps(turn, ensure_ascii=False) + "\n" for turn in turns).encode("utf-8", "replace")
        try:
            with self.path.open("ab+", buffering=0) as file:  # one write: two processes may share the file
                size = file.seek(0, os.SEEK_END)
                if size and self._open_line(file):
                    text = b"\n" + text
                try:
                    if file.write(text) < len(text):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                except OSError:
                    file.truncate(size)
                    raise
        except OSError as error:
            raise cannot_write(self.path, error) from None

    @staticmethod
    def _open_line(file: Any) -> bool:
        """Whether the file does not end with a line end."""
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        return bool(last != b"\n")


def cannot_write(path: Path, error: OSError) -> OutputError:
    """Returns the error for a conversation that cannot be saved."""
    what = f"cannot write conversation {path}: {(error.strerror or str(error)).lower()}"
    return OutputError(what, hint="--chat FILE in a folder that can be written")


def _message(path: Path, number: int, line: str) -> "Message":
    from omnitts_cli.models.thinker import Message

    def wrong(what: str) -> InputError:
        hint = 'a line looks like {"role": "user", "content": "Hello"}'
        return InputError(f"{path}, line {number}: {what}", hint=hint, where=(str(path), number))

    try:
        turn = json_object(line)
    except ParseError as error:
        raise wrong(f"the message {error}") from None
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
