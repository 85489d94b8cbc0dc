"""MCP, the Model Context Protocol: tools that speak, for desktop hosts and editors, on the standard streams.

A message is a line of JSON-RPC 2.0. Calls of tools run on threads of their own, so that `stop` arrives while something
is spoken. Hosts that run side by side take turns: see `desk.turn`.
"""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

from omnitts_cli.doors.desk import Desk
from omnitts_cli.doors.lines import LineStreams
from omnitts_cli.errors import OmniError
from omnitts_cli.parse import ParseError, json_value
from omnitts_cli.settings.environment import own_version

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, newest first. What differs between them is not used here."""
LONGEST = 1 << 20  # bytes of a message
MOST_CALLS = 32  # at a time
NOT_JSON, INVALID, UNKNOWN_METHOD, WRONG_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
GUIDE = (
    "Speaks text aloud on this machine. speak() returns as soon as the text is queued; pass wait=true to return when "
    "it has been spoken. Only one text is spoken at a time."
)


def string(about: str, most: int) -> dict[str, Any]:
    """The schema of a text."""
    return {"type": "string", "description": about, "maxLength": most}


@dataclass(frozen=True)
class Tool:
    """A tool: what it does, its arguments as JSON schema, and the method of Desk that does it."""

    name: str
    about: str
    arguments: Mapping[str, Any]
    required: tuple[str, ...]
    run: Callable[..., Mapping[str, Any]]
    hints: Mapping[str, bool]

    @property
    def listed(self) -> dict[str, Any]:
        """Its entry in tools/list."""
        schema = {"type": "object", "properties": dict(self.arguments), "required": list(self.required),
                  "additionalProperties": False}  # fmt: skip
        return {"name": self.name, "description": self.about, "inputSchema": schema, "annotations": dict(self.hints)}

    def wrong(self, given: Any) -> str | None:
        """What is wrong with the arguments; None if they fit."""
        if not isinstance(given, dict):
            return "arguments is not an object"
        for name in (*self.required, *given):
            if name not in given:
                return f"{name} is missing"
            if name not in self.arguments:
                return f"{self.name} has no argument '{name[:80]}'"
            if not fits(given[name], self.arguments[name]):
                return f"{name} is not {words_for(self.arguments[name])}"
        return None


KINDS: Mapping[str, tuple[type, ...]] = {"string": (str,), "boolean": (bool,), "number": (int, float)}


def fits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value fits the schema of an argument."""
    if not isinstance(value, KINDS[schema["type"]]) or (schema["type"] == "number" and isinstance(value, bool)):
        return False
    if isinstance(value, str):
        return len(value) <= schema["maxLength"]
    return schema["type"] == "boolean" or schema["minimum"] <= value <= schema["maximum"]


def words_for(schema: Mapping[str, Any]) -> str:
    """What an argument takes, in words."""
    if schema["type"] == "string":
        return f"a string of at most {schema['maxLength']:,} characters"
    return "true or false" if schema["type"] == "boolean" else f"a number, {schema['minimum']} to {schema['maximum']}"


def tools(desk: Desk) -> dict[str, Tool]:
    """The tools."""
    voice = string("A name from list_voices; the default is the user's voice.", 200)
    text = string("The text to speak.", desk.longest)
    quiet, changing = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": False}
    speed = {"type": "number", "description": "1 is the normal speed.", "minimum": 0.5, "maximum": 2}
    wait = {"type": "boolean", "description": "Return when the text has been spoken, not when it is queued."}
    path = string("File to write, in an allowed folder; the suffix is the format, such as .wav or .mp3.", 4096)
    found = (
        Tool("speak", "Speak a text aloud. Texts are queued and spoken one at a time.",
             {"text": text, "voice": voice, "speed": speed, "wait": wait}, ("text",), desk.speak, changing),
        Tool("save", "Speak a text into a new sound file.", {"text": text, "path": path, "voice": voice},
             ("text", "path"), desk.save, changing),
        Tool("list_voices", "List the voices.", {}, (), desk.list_voices, quiet),
        Tool("stop", "Stop speaking and empty the queue.", {}, (), desk.stop, changing),
        Tool("status", "Report what is being spoken, what is queued, and which folders are allowed.", {}, (),
             desk.status, quiet),
    )  # fmt: skip
    return {tool.name: tool for tool in found}


class McpServer:
    """One host's connection, from its first message to the end of the input."""

    def __init__(self, desk: Desk, source: BinaryIO, out: BinaryIO, note: Callable[[str], None]) -> None:
        self._desk, self._note = desk, note
        self._lines, self._tools = LineStreams(source, out, LONGEST), tools(desk)
        self._calls: set[Any] = set()
        self._cancelled: dict[Any, Callable[[], None]] = {}
        self._pool = ThreadPoolExecutor(MOST_CALLS, "omnitts mcp")

    def run(self) -> None:
        """Answers messages until the host closes the input; what was queued ends with it."""
        try:
            while (line := self._lines.read()) is not None:
                if len(line) == LONGEST:
                    self._refuse(None, INVALID, f"the message is too long: {LONGEST:,} bytes or more")
                elif line.strip():
                    self._take(line)
        except BrokenPipeError:
            pass
        finally:
            self._desk.close()
            self._pool.shutdown(cancel_futures=True)

    def _take(self, line: bytes) -> None:
        try:
            message = json_value(line)
        except ParseError as error:
            return self._refuse(None, NOT_JSON, f"the message {error}")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not isinstance(message, dict) or not {"result", "error"} & message.keys():  # hosts are asked nothing
                self._refuse(None, INVALID, "the message is not a request")
            return
        name, number, given = message["method"], message.get("id"), message.get("params")
        given = given if isinstance(given, dict) else {}
        if "id" not in message:
            if name == "notifications/cancelled":
                self._cancel(given.get("requestId"))
            return
        if not isinstance(number, str | int) or isinstance(number, bool):
            return self._refuse(None, INVALID, "the id is not a string or a number")
        self._answer(number, name, given)

    def _answer(self, number: str | int, name: str, given: dict[str, Any]) -> None:
        if name == "initialize":
            wanted = given.get("protocolVersion")
            agreed = wanted if wanted in VERSIONS else VERSIONS[0]
            about = {"name": "omnitts", "title": "omnitts", "version": own_version()}
            self._result(number, {"protocolVersion": agreed, "capabilities": {"tools": {}}, "serverInfo": about,
                                  "instructions": GUIDE})  # fmt: skip
        elif name == "ping":
            self._result(number, {})
        elif name == "tools/list":
            self._result(number, {"tools": [tool.listed for tool in self._tools.values()]})
        elif name == "tools/call":
            self._call(number, given)
        else:
            self._refuse(number, UNKNOWN_METHOD, f"'{name[:80]}' is not a method of this server")

    def _call(self, number: str | int, given: dict[str, Any]) -> None:
        tool = self._tools.get(str(given.get("name")))
        if tool is None:
            return self._refuse(number, WRONG_PARAMS, f"'{str(given.get('name'))[:80]}' is not a tool of this server")
        if len(self._calls) >= MOST_CALLS:
            return self._refuse(number, INTERNAL, f"too many calls at a time: {MOST_CALLS} are running")
        self._calls.add(number)
        self._pool.submit(self._run, tool, number, given.get("arguments") or {})

    def _run(self, tool: Tool, number: str | int, given: Any) -> None:
        """One call, on a thread of its own."""
        try:
            wrong = tool.wrong(given)
            if wrong is None:
                words = {"on_cancel": lambda act: self._cancelled.update({number: act})} if tool.name == "speak" else {}
                answer, failed = json.dumps(tool.run(**given, **words), ensure_ascii=False), False
            else:
                answer, failed = wrong, True
        except OmniError as error:
            parts = (error.message, error.cause, error.hint and f"try: {error.hint}")
            answer, failed = "\n".join(part for part in parts if part), True
        except Exception as error:
            self._note(f"{type(error).__name__}: {error}")
            answer, failed = "internal error", True
        self._calls.discard(number)
        self._cancelled.pop(number, None)
        try:
            self._result(number, {"content": [{"type": "text", "text": answer}], "isError": failed})
        except OSError:  # the host has gone
            pass

    def _cancel(self, number: Any) -> None:
        act = self._cancelled.get(number) if isinstance(number, str | int) else None
        if act is not None:
            act()

    def _result(self, number: str | int, result: Mapping[str, Any]) -> None:
        self._send({"id": number, "result": result})

    def _refuse(self, number: str | int | None, code: int, message: str) -> None:
        self._send({"id": number, "error": {"code": code, "message": message}})

    def _send(self, message: Mapping[str, Any]) -> None:
        self._lines.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
