"""MCP: its messages one by one, and the client of the protocol's own package against the command."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command import PYTHON, Omnitts
from patience import LONG_S

from omnitts_cli.doors.mcp import LONGEST, VERSIONS, McpServer, tools
from omnitts_cli.errors import UsageError


class Stand:
    """A desk whose tools say what they were asked; `speak` waits until it is cancelled."""

    longest = 50

    def __init__(self) -> None:
        self.closed = False

    def speak(self, text: str, on_cancel: Callable[[Any], None], **more: Any) -> dict[str, Any]:
        cancelled = threading.Event()
        on_cancel(cancelled.set)
        if text == "wait":
            assert cancelled.wait(LONG_S)
        return {"text": text, "cancelled": cancelled.is_set(), **more}

    def save(self, **given: Any) -> dict[str, Any]:
        raise UsageError("outside", hint="inside")

    def list_voices(self) -> dict[str, Any]:
        raise RuntimeError("a bug")

    def stop(self) -> dict[str, Any]:
        return {"stopped": 0}

    status = stop

    def close(self) -> None:
        self.closed = True


class Host:
    """A server on a thread of its own, seen from its host."""

    def __init__(self) -> None:
        ours, theirs = os.pipe(), os.pipe()
        self.out, self.answers = os.fdopen(ours[1], "wb", 0), os.fdopen(theirs[0], "rb")
        self.notes: list[str] = []
        desk: Any = Stand()
        self.desk, self._theirs = desk, os.fdopen(theirs[1], "wb", 0)
        server = McpServer(desk, os.fdopen(ours[0], "rb"), self._theirs, self.notes.append)
        self.thread = threading.Thread(target=server.run, daemon=True)
        self.thread.start()

    def send(self, **message: Any) -> None:
        self.out.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.answers.readline())
        assert found["jsonrpc"] == "2.0"
        return found

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.send(id=7, method=method, params=params)
        found = self.read()
        assert found["id"] == 7
        return found

    def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        result = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        return result["content"][0]["text"], result["isError"]


@pytest.fixture
def host() -> Iterator[Host]:
    found = Host()
    yield found
    found.out.close()
    found.thread.join(LONG_S)
    assert found.desk.closed and not found.thread.is_alive()


def test_a_version_is_agreed_on(host: Host) -> None:
    for wanted, agreed in ((VERSIONS[-1], VERSIONS[-1]), ("1999-01-01", VERSIONS[0]), (None, VERSIONS[0])):
        result = host.ask("initialize", protocolVersion=wanted, capabilities={}, clientInfo={"name": "x"})["result"]
        assert result["protocolVersion"] == agreed and "tools" in result["capabilities"]
        assert result["serverInfo"]["name"] == "omnitts"
    host.send(method="notifications/initialized")
    assert host.ask("ping")["result"] == {}


def test_the_tools_are_listed_with_their_arguments(host: Host) -> None:
    listed = {tool["name"]: tool for tool in host.ask("tools/list")["result"]["tools"]}
    assert list(listed) == ["speak", "save", "list_voices", "stop", "status"]
    assert set(listed["speak"]["inputSchema"]["properties"]) == {"text", "voice", "speed", "wait"}
    assert listed["save"]["inputSchema"]["required"] == ["text", "path"]
    assert all(tool["description"] and tool["annotations"] for tool in listed.values())


def test_a_call_is_answered_and_its_errors_too(host: Host) -> None:
    told, failed = host.call("speak", text="Hello.", speed=1.5, wait=True)
    assert not failed and json.loads(told) == {"text": "Hello.", "cancelled": False, "speed": 1.5, "wait": True}
    assert host.call("save", text="Hello.", path="/etc/passwd") == ("outside\ntry: inside", True)
    assert host.call("list_voices") == ("internal error", True) and "a bug" in host.notes[0]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"text": 5}, {"text": "x" * 51}, {"text": "Hi.", "speed": "fast"}, {"text": "Hi.", "speed": 9},
     {"text": "Hi.", "speed": True}, {"text": "Hi.", "wait": 1}, {"text": "Hi.", "color": "red"}, [1], "text"],
)  # fmt: skip
def test_wrong_arguments_are_named_in_the_result(host: Host, arguments: Any) -> None:
    result = host.ask("tools/call", name="speak", arguments=arguments)["result"]
    assert result["isError"] and result["content"][0]["text"]


def test_a_call_that_waits_is_overtaken_and_can_be_cancelled(host: Host) -> None:
    host.send(id="slow", method="tools/call", params={"name": "speak", "arguments": {"text": "wait"}})
    assert host.call("stop") == ('{"stopped": 0}', False)
    host.send(method="notifications/cancelled", params={"requestId": ["odd"]})
    host.send(method="notifications/cancelled", params={"requestId": "slow"})
    found = host.read()
    assert found["id"] == "slow" and json.loads(found["result"]["content"][0]["text"])["cancelled"]


@pytest.mark.parametrize(
    ("line", "code"),
    [(b"nonsense", -32700), (b"[" * 5000, -32700), (b"[]", -32600), (b"5", -32600), (b'{"id": 1}', -32600),
     (b'{"id": {}, "method": "ping"}', -32600), (b'{"id": 1, "method": "nothing"}', -32601),
     (b'{"id": 1, "method": "tools/call", "params": {"name": "nothing"}}', -32602),
     (b'{"id": 1, "method": "tools/call", "params": []}', -32602), (b"x" * (LONGEST + 5), -32600)],
)  # fmt: skip
def test_wrong_messages_are_refused_and_the_next_is_answered(host: Host, line: bytes, code: int) -> None:
    host.out.write(line + b"\n")
    assert host.read()["error"]["code"] == code
    assert host.ask("ping")["result"] == {}


def test_answers_blank_lines_and_unknown_notifications_are_ignored(host: Host) -> None:
    host.out.write(b'\n{"jsonrpc": "2.0", "id": 3, "result": {}}\n{"jsonrpc": "2.0", "method": "notifications/x"}\n')
    assert host.ask("ping")["result"] == {}


def test_every_tool_of_the_list_is_a_method_of_the_desk() -> None:
    stand: Any = Stand()
    assert [tool.run.__name__ for tool in tools(stand).values()] == ["speak", "save", "list_voices", "stop", "stop"]


def test_nothing_but_the_protocol_is_printed(omnitts: Omnitts) -> None:
    asked = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    done = omnitts("mcp", "-m", "random:toy", "-d", "cpu", stdin=asked)
    assert done.code == 0 and [one["id"] for one in done.objects] == [1]
    assert omnitts("mcp", "--allow-folder", "nowhere").code == 2


PLAYER = """#!{python}
import fcntl, os, sys, time
log = open({log!r}, "a")
def say(what):
    log.write(f"{{os.environ['HOST']}} {{what}}\\n"); log.flush()
first = sys.stdin.buffer.read(4096)
say("begins")
while sys.stdin.buffer.read(4096): pass
say("ends")
"""


@pytest.fixture
def loudspeaker(home: Path) -> Path:
    """A player on the path that writes down whose sound begins and ends. PortAudio finds no sound output here."""
    folder, log = home / "bin", home / "heard"
    folder.mkdir()
    player = folder / "pw-play"
    player.write_text(PLAYER.format(python=sys.executable, log=str(log)))
    player.chmod(0o755)
    log.touch()
    return log


def test_the_protocols_own_client_calls_every_tool_and_two_hosts_take_turns(loudspeaker: Path, home: Path) -> None:
    client = pytest.importorskip("mcp")
    from mcp.client.stdio import stdio_client

    inside = home / "sound"
    inside.mkdir()

    def parameters(name: str) -> Any:
        environment = {**os.environ, "PATH": f"{loudspeaker.parent / 'bin'}:{os.environ['PATH']}", "HOST": name}
        words = ["mcp", "-m", "random:toy", "-d", "cpu", "--allow-folder", str(inside)]
        return client.StdioServerParameters(command=PYTHON[0], args=[*PYTHON[1:], *words], env=environment)

    async def call(session: Any, tool: str, **arguments: Any) -> tuple[Any, bool]:
        result = await asyncio.wait_for(session.call_tool(tool, arguments), LONG_S)
        text = result.content[0].text
        return (text if result.is_error else json.loads(text)), bool(result.is_error)

    async def talk() -> None:
        async with (
            stdio_client(parameters("one")) as one, stdio_client(parameters("other")) as other,
            client.ClientSession(*one) as first, client.ClientSession(*other) as second,
        ):  # fmt: skip
            await asyncio.gather(first.initialize(), second.initialize())
            names = {tool.name for tool in (await first.list_tools()).tools}
            assert names == {"speak", "save", "list_voices", "stop", "status"}
            assert (await call(first, "list_voices"))[0]["voices"] and not (await call(second, "status"))[1]
            assert (await call(first, "save", text="Hello.", path="hello.wav"))[0]["path"] == str(inside / "hello.wav")
            assert (await call(first, "save", text="Hello.", path="../hello.wav"))[1]
            texts = ["A text that both of them say. " * 3] * 2
            spoken = [call(session, "speak", text=text, wait=True) for session in (first, second) for text in texts]
            assert all(told["state"] == "spoken" for told, _ in await asyncio.gather(*spoken))
            assert (await call(first, "speak", text="Hello."))[0]["state"] == "queued"
            assert not (await call(first, "stop"))[1]

    asyncio.run(talk())
    heard = loudspeaker.read_text().splitlines()[:8]
    assert sorted(heard) == sorted(["one begins", "one ends", "other begins", "other ends"] * 2)
    for begin, end in zip(heard[::2], heard[1::2], strict=True):
        assert begin.split() == [end.split()[0], "begins"] and end.endswith("ends")
