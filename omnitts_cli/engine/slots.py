"""Slots: who is where. SlotTable is the device's side, Slot the host's record of the same place."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, fields
from enum import IntEnum

import torch
from torch import Tensor

from omnitts_cli.engine.plan import Plan
from omnitts_cli.kernels import plain_frame
from omnitts_cli.models.roles import Facts
from omnitts_cli.models.sampling import Controls
from omnitts_cli.request import Request


class Stop(IntEnum):
    """Why a slot stopped, as the device writes it."""

    RUNNING = plain_frame.RUNNING
    END = plain_frame.END
    LIMIT = plain_frame.LIMIT
    STALL = plain_frame.STALL
    BROKEN = plain_frame.BROKEN


WHOLE = ("position", "made", "stop", "limit", "reference", "last", "repeats", "written")
WHOLE += ("seed", "top_k", "predictor_top_k")
FLAGS = ("live", "closed", "ignore_end")
REAL = ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")
"""Columns of one number a slot, by their type: each kind side by side, so that newcomers are written in three goes."""


@dataclass(frozen=True)
class SlotTable:
    """One row per slot and one spare row for padding. Only frames and admissions write it."""

    wholes: Tensor  # [WHOLE, slots] int64; the columns below and the controls are views of these three
    flags: Tensor  # [FLAGS, slots] bool
    reals: Tensor  # [REAL, slots] float32
    row: Tensor  # [slots, H] what the talker hears next, without its text row
    position: Tensor  # [slots] int64, of that row
    report: Tensor  # [2, slots] int64: `made` and `stop` side by side, what the host reads after a frame
    live: Tensor  # [slots] bool
    limit: Tensor  # [slots] int64 frames at most
    codes: Tensor  # [slots, frames, G] int64; reference frames come first
    reference: Tensor  # [slots] int64 reference frames in `codes`
    seen: Tensor  # [slots, codes] bool: group-0 codes made by this request
    last: Tensor  # [slots] int64 latest group-0 code
    repeats: Tensor  # [slots] int64 how long it has been the same
    text: Tensor  # [slots, text rows, H], a ring: row k is heard after frame k
    written: Tensor  # [slots] int64 text rows written so far
    closed: Tensor  # [slots] bool: no more text will come
    pad: Tensor  # [slots, H] heard once a closed feed has run out
    controls: Controls

    @property
    def made(self) -> Tensor:
        """[slots] frames made, a view."""
        return self.report[0]

    @property
    def stop(self) -> Tensor:
        """[slots] a Stop each, a view."""
        return self.report[1]

    @staticmethod
    def empty(plan: Plan, facts: Facts, device: torch.device, dtype: torch.dtype) -> SlotTable:
        rows = plan.slots + 1

        def zeros(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        wholes, flags = zeros(len(WHOLE), rows, dtype=torch.int64), zeros(len(FLAGS), rows, dtype=torch.bool)
        reals = zeros(len(REAL), rows, dtype=torch.float32)
        columns = dict(zip((*WHOLE, *FLAGS, *REAL), (*wholes, *flags, *reals), strict=True))
        columns["penalty"].fill_(1.0)
        controls = Controls(**{f.name: columns.pop(f.name) for f in fields(Controls)})
        made = WHOLE.index("made")
        for reported in ("made", "stop"):
            del columns[reported]
        return SlotTable(
            wholes=wholes,
            flags=flags,
            reals=reals,
            row=zeros(rows, facts.hidden),
            report=wholes[made : made + 2],
            codes=zeros(rows, plan.frames, facts.groups, dtype=torch.int64),
            seen=zeros(rows, facts.codes, dtype=torch.bool),
            text=zeros(rows, plan.text_rows, facts.hidden),
            pad=zeros(rows, facts.hidden),
            controls=controls,
            **columns,
        )

    def write(self, slots: Tensor, wholes: Tensor, flags: Tensor, reals: Tensor) -> None:
        """All columns of one number for `slots` [N]: [WHOLE, N], [FLAGS, N], [REAL, N]."""
        self.wholes.index_copy_(1, slots, wholes)
        self.flags.index_copy_(1, slots, flags)
        self.reals.index_copy_(1, slots, reals)


@dataclass(eq=False)
class Slot:
    """The host's record of one running request."""

    index: int
    request: Request
    seed: int
    limit: int
    prompt_rows: int
    reference: int  # frames at the front whose sound is dropped
    tokens: int  # of text so far
    unsent: deque[Tensor] = field(default_factory=deque)  # text rows waiting for room in the ring
    closing: bool = True  # no more text will come behind `unsent`
    written: int = 0  # text rows sent
    closed: bool = False  # the device knows that no more will come
    launched: int = 0  # frames asked for; exact as long as the slot is live
    made: int = 0  # frames reported
    stop: Stop = Stop.RUNNING
    decoding: int = 0  # frames given to the codec, reference included
    delivered: int = 0  # frames whose sound has come back, reference included
    jobs: int = 0  # codec jobs under way
    chunks: int = 0
    quiet: int = 0  # frames of silence at the end so far
    silent: bool = False  # stopped by the host because of that
    first_sound: float | None = None
    paused: bool = False

    @property
    def final(self) -> int | None:
        """Frames of the finished request, reference included; None while it runs."""
        return None if self.stop is Stop.RUNNING else self.reference + self.made

    @property
    def hungry(self) -> bool:
        """The next frame needs a text row that has not been sent."""
        return self.launched > 0 and not self.closed and self.launched > self.written

    @property
    def runnable(self) -> bool:
        return self.stop is Stop.RUNNING and self.launched < self.limit and not self.paused and not self.hungry

    @property
    def undecoded(self) -> bool:
        """Frames have been reported whose sound nobody has asked for."""
        return self.reference + self.made > self.decoding or (self.final is not None and self.final > self.delivered)

    def unreported(self, frames: int) -> bool:
        """Whether the first `frames` frames hold some that the host has not yet seen finished."""
        return self.made == 0 or frames > self.reference + self.made
