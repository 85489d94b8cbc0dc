"""Ticket: one request from submission to its last chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnitts_cli.engine.meter import RequestMeter
from omnitts_cli.engine.slots import Slot
from omnitts_cli.models.roles import LiveText
from omnitts_cli.request import Request


@dataclass(eq=False)
class Ticket:
    """What the host knows of a request: where it is, and how much of its text has come."""

    id: str
    request: Request
    meter: RequestMeter
    live: bool  # its text arrives in pieces
    open_text: bool  # more of it may still arrive
    early: str = ""  # text that arrived before the request had a slot
    too_early: bool = False  # that text does not suffice to begin with
    paused: bool = False
    slot: Slot | None = None
    feed: LiveText | None = None

    @property
    def speakable(self) -> bool:
        """Whether a prompt can be built: an open request needs its first words."""
        return not self.open_text or (bool(self.early.strip()) and not self.too_early)

    @property
    def known(self) -> Request:
        """The request with all the text that has arrived. Live text is streamed, whenever it came."""
        return replace(self.request, text=self.early, text_mode="streamed") if self.live else self.request
