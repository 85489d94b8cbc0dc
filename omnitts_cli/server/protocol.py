"""The HTTP protocol with limits that uvicorn lacks: time and size of headers, and numbers of connections."""

import asyncio
import time
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from omnitts_cli.server.guard import is_loopback

HEADER_S, HEADER_BYTES = 10.0, 32 << 10
MOST_CONNECTIONS, MOST_OF_A_PEER = 1024, 64
SWEEP_S = 1.0


class Connections:
    """The open connections of one server."""

    def __init__(self) -> None:
        self.all: set[Any] = set()
        self.peers: Counter[str] = Counter()

    def add(self, one: Any, peer: str) -> bool:
        """Counts a connection; returns whether it is one too many."""
        self.all.add(one)
        self.peers[peer] += 1
        # programs of this machine share one address, and a reverse proxy may be one of them
        crowded = self.peers[peer] > MOST_OF_A_PEER and peer and not is_loopback(peer)
        return bool(crowded) or len(self.all) > MOST_CONNECTIONS

    def remove(self, one: Any, peer: str) -> None:
        """Forgets a connection."""
        if one in self.all:
            self.all.discard(one)
            self.peers[peer] -= 1
            if not self.peers[peer]:
                del self.peers[peer]

    async def sweep(self) -> None:
        """Ends connections whose headers take too long, until it is cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for one in [one for one in self.all if one.waits_since and now - one.waits_since > HEADER_S]:
                one.refuse(408, "the headers did not arrive in time")


class WebSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection. `limits` is set on a subclass for each server."""

    limits: Connections
    waits_since: float | None = None

    def connection_made(self, transport: Any) -> None:
        """Counts the connection as a WebSocket; its HTTP connection was counted before."""
        super().connection_made(transport)
        self._peer = self.client[0] if self.client else ""
        self.limits.add(self, self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self.limits.remove(self, self._peer)
        super().connection_lost(exc)

    async def run_asgi(self) -> None:
        """The application also gets the transport."""
        self.scope["omnitts.transport"] = self.transport  # type: ignore[typeddict-unknown-key]
        await super().run_asgi()


class Protocol(HttpToolsProtocol):
    """One connection. `limits` is set on a subclass for each server."""

    limits: Connections

    def connection_made(self, transport: Any) -> None:
        """Counts the connection; one too many is refused."""
        super().connection_made(transport)
        self.waits_since: float | None = time.monotonic()  # for the end of the headers
        self._header_bytes = 0
        self._peer = self.client[0] if self.client else ""
        if self.limits.add(self, self._peer):
            self.refuse(503, "too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self.limits.remove(self, self._peer)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """The connection goes on as another protocol."""
        self.limits.remove(self, self._peer)
        self.waits_since = None
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """More bytes of a request."""
        if self.waits_since is None and (self.cycle is None or self.cycle.response_complete):
            self.waits_since = time.monotonic()  # the next request on this connection
        if self.waits_since is not None:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and self.parser is not None and not self._headers_end(data):
                self.refuse(431, "the headers are too large")
                return
        super().data_received(data)

    def _headers_end(self, data: bytes) -> bool:
        """Whether the headers end in this data, early enough."""
        end = data.find(b"\r\n\r\n")
        return 0 <= end and self._header_bytes - len(data) + end <= HEADER_BYTES

    def on_message_begin(self) -> None:
        """A request."""
        super().on_message_begin()
        self.scope["omnitts.transport"] = self.transport  # type: ignore[typeddict-unknown-key]

    def on_headers_complete(self) -> None:
        """Its headers are here."""
        self.waits_since, self._header_bytes = None, 0
        super().on_headers_complete()

    def refuse(self, status: int, message: str) -> None:
        """Ends the connection with an error."""
        self.waits_since = None
        if self.transport.is_closing():
            return
        kind = "server_error" if status >= 500 else "invalid_request_error"
        body = f'{{"error": {{"message": "{message}", "type": "{kind}", "param": null, "code": "connection"}}}}'
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        self.transport.close()
