"""Record: one request in the engine, from submission to its last chunk, with an explicit state."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum

from torch import Tensor

from omnitts_cli.engine.meter import RequestMeter
from omnitts_cli.engine.slots import Stop
from omnitts_cli.models.roles import Draft, LiveText, Prompt
from omnitts_cli.request import Request


class State(Enum):
    """Where a request is. It moves downwards only, and from each state it may jump to DONE."""

    WAITING = "waiting"  # for a slot, or for enough text to begin
    OPENING = "opening"  # has a slot; its prompt is being prefilled
    RUNNING = "running"  # gains frames
    FINISHING = "finishing"  # has all its frames; the codec is still decoding them
    DONE = "done"  # its last chunk was handed out and its slot is free


@dataclass(eq=False)
class Record:
    """What the host knows of one request."""

    id: str
    request: Request
    meter: RequestMeter
    state: State = State.WAITING
    paused: bool = False

    # text
    live: bool = False  # it arrives in pieces
    open_text: bool = False  # more of it may still arrive
    early: str = ""  # what arrived before the prompt was made
    too_early: bool = False  # `early` is not enough to begin with
    feed: LiveText | None = None
    tokens: int = 0  # so far
    unsent: deque[Tensor] = field(default_factory=deque)  # rows waiting for room in the slot's ring
    closing: bool = True  # nothing follows `unsent`
    written: int = 0  # rows sent
    closed: bool = False  # the device knows that no more will come

    # the slot, from OPENING on
    slot: int = -1
    draft: Draft | None = None  # while OPENING, like the prompt
    prompt: Prompt | None = None  # made for several requests at once
    prompt_rows: int = 0
    prefilled: int = 0  # prompt rows in the cache

    # frames
    limit: int = 0
    reference: int = 0  # frames of the reference clip; they come first and their sound is dropped
    launched: int = 0  # frames asked for; exact until the request stops
    made: int = 0  # frames reported
    stop: Stop = Stop.RUNNING

    # sound; frames are counted with the reference
    decoding: int = 0  # frames given to the codec
    delivered: int = 0  # frames whose sound has come back
    jobs: int = 0  # codec jobs in flight
    chunks: int = 0  # handed out
    quiet: int = 0  # frames of silence at the end so far
    silent: bool = False  # stopped by the host because of that
    first_sound: float | None = None

    @property
    def speakable(self) -> bool:
        """Whether a prompt can be made: an open request needs its first words."""
        return not self.open_text or (bool(self.early.strip()) and not self.too_early)

    @property
    def known(self) -> Request:
        """The request with all text that has arrived. Live text is always streamed."""
        return replace(self.request, text=self.early, text_mode="streamed") if self.live else self.request

    @property
    def has_columns(self) -> bool:
        """Whether the slot's columns are this request's."""
        return self.state in (State.RUNNING, State.FINISHING)

    @property
    def final(self) -> int | None:
        """Frames of the finished request, reference included; None before it has stopped."""
        return None if self.stop is Stop.RUNNING else self.reference + self.made

    @property
    def starved(self) -> bool:
        """The next frame needs a text row that has not been sent."""
        return self.launched > 0 and not self.closed and self.launched > self.written

    @property
    def runnable(self) -> bool:
        """Whether the next frame may be launched."""
        return self.state is State.RUNNING and self.launched < self.limit and not self.paused and not self.starved

    @property
    def undecoded(self) -> bool:
        """Whether some frames that were reported have not been given to the codec, or not all sound is back."""
        return self.reference + self.made > self.decoding or (self.final is not None and self.final > self.delivered)

    def unreported(self, frames: int) -> bool:
        """Whether the host has not yet seen all of the first `frames` frames finished."""
        return self.made == 0 or frames > self.reference + self.made
