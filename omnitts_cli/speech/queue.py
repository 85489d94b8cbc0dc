"""FairQueue: requests that wait for a slot of the engine."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnitts_cli.request import Request

FIRST_SOUND, STREAMING, BULK = range(3)
"""Priorities: a listener who has no sound yet, one who has, and work that no one listens to as it is made."""


class FairQueue:
    """The highest priority first; within it one client after the other; within a client in order of arrival."""

    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[str, deque[Request]]] = {
            level: OrderedDict() for level in (FIRST_SOUND, STREAMING, BULK)
        }
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, request: Request, priority: int, client: str) -> None:
        """Adds a request of a client."""
        self._levels[priority].setdefault(client, deque()).append(request)
        self._count += 1

    def pop(self) -> Request:
        """Removes and returns the next request."""
        clients = next(clients for clients in self._levels.values() if clients)
        client, requests = clients.popitem(last=False)
        request = requests.popleft()
        if requests:
            clients[client] = requests  # at the end: the other clients come first
        self._count -= 1
        return request

    def remove(self, name: str) -> None:
        """Removes the request of that name, if it is still here."""
        for clients in self._levels.values():
            for client, requests in list(clients.items()):
                kept = deque(request for request in requests if request.id != name)
                if len(kept) < len(requests):
                    self._count -= 1
                    if kept:
                        clients[client] = kept
                    else:
                        del clients[client]
                    return
