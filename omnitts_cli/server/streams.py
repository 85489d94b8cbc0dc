"""Streams: doors besides HTTP: connections over TCP, a Unix socket or the standard streams, with the same limits."""

import asyncio
import os
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from omnitts_cli.errors import UsageError
from omnitts_cli.server import listen
from omnitts_cli.server.body import Gone
from omnitts_cli.server.guard import is_loopback
from omnitts_cli.server.live import LARGEST_OTHER, Session
from omnitts_cli.server.problems import Problem
from omnitts_cli.server.protocol import Connections
from omnitts_cli.server.state import ServerState

POLL_S, CLOSE_S, READ = 0.02, 1.0, 1 << 16
STANDARD = "stdio://"
FAR = ("192.0.2.1", 9)
"""An address outside: the interface that leads to it has the address of this machine. Nothing is sent there."""

Start = Callable[[ServerState, str, asyncio.StreamReader, asyncio.StreamWriter], Any]
"""Makes the conversation on a connection, a Session that also has `read` and `refuse`."""


def place_of(words: str, option: str, *, open_to_all: bool, has_keys: bool) -> socket.socket | None:
    """The listening socket that an option names as HOST:PORT, tcp://HOST:PORT or unix://PATH; None for stdio://.

    These protocols have no keys, so other machines, and all clients of a server with keys, need `open_to_all`.
    """
    scheme, _, rest = words.rpartition("://")
    if words == STANDARD:
        return None
    if has_keys and not open_to_all:
        raise UsageError(
            f"{option} would let clients speak without an API key",
            cause="its protocol has no keys, and this server requires one",
            hint=f"{option} {words} --insecure",
        )
    if scheme == "unix" and rest:
        return listen.unix(Path(rest), ours=False)
    host, colon, port = rest.rpartition(":")
    if scheme not in ("", "tcp") or not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{option} {words[:80]} is not HOST:PORT", hint=f"{option} 127.0.0.1:10200")
    if not is_loopback(host) and not open_to_all:
        raise UsageError(
            f"{option} {words} lets other machines in, and the protocol has no API keys",
            hint=f"{option} 127.0.0.1:{port}   or   --insecure",
        )
    return listen.tcp(host, int(port), option)


def require_pipes(*descriptors: int) -> None:
    """Raises UsageError unless these are pipes or sockets: an event loop cannot wait for files, nor on
    Windows for pipes.
    """
    if sys.platform == "win32":
        raise UsageError("--wyoming with standard input and output is not possible on Windows", hint="--wyoming 10200")
    modes = [os.fstat(one).st_mode for one in descriptors]
    if not all(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) for mode in modes):
        raise UsageError("standard input and output are not pipes", hint="cat FILE | omnitts serve ... | cat")


def url_of(place: socket.socket) -> str:
    """The address of a listening socket as clients give it."""
    if listen.is_unix(place):
        return f"unix://{place.getsockname()}"
    host, port = place.getsockname()[:2]
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


@dataclass(eq=False)
class Door:
    """Where a protocol is spoken. Its connections count among those of the server."""

    state: ServerState
    limits: Connections
    start: Start
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    server: asyncio.Server | None = None

    async def listen(self, place: socket.socket) -> None:
        """Takes connections at a listening socket."""
        self.server = await asyncio.start_server(self._meet, sock=place, limit=LARGEST_OTHER)

    async def use_standard_streams(self, out: BinaryIO) -> None:
        """One conversation over stdin and `out`. Returns when it is over."""
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(LARGEST_OTHER)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        own = os.fdopen(os.dup(out.fileno()), "wb", 0)  # the transport closes it
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, own)
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        await self._converse(reader, writer, "", patient=True)
        writer.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername")
        try:
            await self._converse(reader, writer, address[0] if isinstance(address, tuple) else "")
        finally:
            await left(reader, writer)

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str, *, patient: bool = False
    ) -> None:
        """With `patient`, what was asked for is spoken although nothing more will come from the client."""
        task = asyncio.current_task()
        assert task is not None
        talk: Any = self.start(self.state, peer or "local", reader, writer)
        both: list[asyncio.Task[Any]] = []
        self.tasks.add(task)
        try:
            if self.limits.add(talk, peer):
                await talk.refuse(Problem(503, "too many connections", code="busy"))
                return
            both = [asyncio.create_task(talk.read()), asyncio.create_task(talk.speak_all())]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            while patient and talk.turns and talk.turns[0].ended and not both[1].done():
                await asyncio.sleep(POLL_S)
        except Gone:
            pass
        finally:
            await self._over(talk, both)
            self.limits.remove(talk, peer)
            self.tasks.discard(task)

    @staticmethod
    async def _over(talk: Session, both: list[asyncio.Task[Any]]) -> None:
        """Ends what a connection has under way."""
        talk.close()
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)

    def shut(self) -> None:
        """Takes no more connections."""
        if self.server is not None:
            self.server.close()

    async def end(self) -> None:
        """Ends all connections."""
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2 * CLOSE_S)


async def left(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closes a connection. What the client still sends is read: a socket that is closed before takes back what was
    sent last, which is the error.
    """
    try:
        async with asyncio.timeout(CLOSE_S):
            writer.write_eof()
            while await reader.read(READ):
                pass
            writer.close()
            await writer.wait_closed()
    except (OSError, RuntimeError, TimeoutError):  # it has gone, or reads nothing
        writer.transport.abort()


async def announce(place: socket.socket, kind: str, log: Callable[[str], None]) -> None:
    """Announces a socket that other machines reach over Zeroconf, where that package is installed, until it is
    cancelled. `kind`: _name._tcp
    """
    if listen.is_unix(place) or is_loopback(place.getsockname()[0]) or find_spec("zeroconf") is None:
        return
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    host, port = place.getsockname()[:2]
    name = f"omnitts-{socket.gethostname().partition('.')[0]}-{port}.{kind}.local."
    address = address_of_this_machine() if host in ("0.0.0.0", "::") else host
    network = AsyncZeroconf()
    try:
        await network.async_register_service(
            AsyncServiceInfo(f"{kind}.local.", name, port=port, parsed_addresses=[address])
        )
        await asyncio.Event().wait()
    except Exception as error:  # it is found by its address then
        log(f"not announced over Zeroconf: {type(error).__name__}: {error}")
    finally:
        await network.async_unregister_all_services()
        await network.async_close()


def address_of_this_machine() -> str:
    """The address by which other machines reach this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(FAR)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
