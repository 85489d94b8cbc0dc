"""SlotTable: the device's side of all running requests, one row per slot. The host's side is in record.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import torch
from torch import Tensor

from omnitts_cli.engine.plan import Plan
from omnitts_cli.kernels import plain_frame
from omnitts_cli.models.roles import Facts
from omnitts_cli.models.sampling import Controls


class Stop(IntEnum):
    """Why a request stopped, as the device reports it."""

    RUNNING = plain_frame.RUNNING
    END = plain_frame.END
    LIMIT = plain_frame.LIMIT
    STALL = plain_frame.STALL
    BROKEN = plain_frame.BROKEN


WHOLE = ("position", "made", "stop", "limit", "reference", "last", "repeats", "written")
WHOLE += ("seed", "top_k", "predictor_top_k")
FLAGS = ("live", "closed", "ignore_end")
REAL = ("temperature", "top_p", "penalty", "predictor_temperature", "predictor_top_p")
"""Scalar columns grouped by dtype, so admitting a batch takes three writes."""


@dataclass(frozen=True)
class SlotTable:
    """One row per slot and one spare row for padding. Only frames and admissions write it."""

    wholes: Tensor  # [WHOLE, slots] int64; the columns below and the controls are views of these three
    flags: Tensor  # [FLAGS, slots] bool
    reals: Tensor  # [REAL, slots] float32
    row: Tensor  # [slots, H] the next input of the talker, without its text row
    position: Tensor  # [slots] int64, of that row
    report: Tensor  # [2, slots] int64: `made` and `stop`, which the host reads after a frame
    live: Tensor  # [slots] bool
    limit: Tensor  # [slots] int64 frames at most
    codes: Tensor  # [slots, frames, G] int64; reference frames come first
    reference: Tensor  # [slots] int64 reference frames in `codes`
    seen: Tensor  # [slots, codes] bool: group-0 codes made by this request
    last: Tensor  # [slots] int64 latest group-0 code
    repeats: Tensor  # [slots] int64 how long it has been the same
    text: Tensor  # [slots, text rows, H], a ring: row k is added after frame k
    written: Tensor  # [slots] int64 text rows written so far
    closed: Tensor  # [slots] bool: no more text will come
    pad: Tensor  # [slots, H] added once a closed feed has run out
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
        """A table in which no slot is live."""
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
        """Set all scalar columns of `slots` [N]: [WHOLE, N], [FLAGS, N], [REAL, N]."""
        self.wholes.index_copy_(1, slots, wholes)
        self.flags.index_copy_(1, slots, flags)
        self.reals.index_copy_(1, slots, reals)
