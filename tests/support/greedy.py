"""One request without an engine: the talker, the predictor and the text feed, a greedy frame at a time."""

from typing import Any

import torch
from torch import Tensor

from omnitts_cli.kernels.ops import Normed
from omnitts_cli.models.prompts import Prompt
from omnitts_cli.models.roles import Controls, SpeechModel
from omnitts_cli.models.sampling import choose_first, choose_rest
from omnitts_cli.request import Request


def likeliest(group: int, logits: Tensor, table: Normed | None) -> tuple[Tensor, Normed | None]:
    """The likeliest code of each row, and its row of the table."""
    codes = logits.argmax(-1)
    return codes, None if table is None else table._replace(rows=table.rows[codes])


class Alone:
    """`logits`, then `frame`, then `go_on`, until `frame` gives None; `rest` collects the predictor's logits."""

    def __init__(self, model: SpeechModel, prompt: Prompt, penalty: float, most: int) -> None:
        self.model, self.prompt, self.made = model, prompt, 0
        self.position, capacity = len(prompt.rows) - 1, len(prompt.rows) + most
        self.cache, self.slots = model.talker.cache(1, capacity), torch.zeros(1, dtype=torch.int64)
        if self.position:
            model.talker.prefill(prompt.rows[None, :-1], self.slots, self.slots, self.cache, capacity)
        self.controls, self.row = Controls.empty(1, "cpu"), prompt.rows[-1:]
        self.controls.penalty[:] = penalty
        self.seen = torch.zeros(1, model.facts.codes, dtype=torch.bool)
        self.rest: list[Tensor] = []

    def logits(self) -> Tensor:
        """Those of the next row: [1, V]. Its state stays in `hidden`: [1, H]."""
        position = torch.tensor([self.position])
        self.hidden = self.model.talker.step(self.row, position, self.slots, self.cache, self.cache.capacity)
        return self.model.talker.logits(self.hidden)

    def frame(self, logits: Tensor) -> Tensor | None:
        """All codes [1, G], or None at the end."""
        model, made = self.model, torch.tensor([self.made])
        first, _ = choose_first(logits, None, self.seen, self.slots, made, self.controls, model.facts, model.ops)
        if first == model.facts.end_code:
            return None

        def choose(group: int, rest: Tensor, table: Normed | None) -> tuple[Tensor, Normed | None]:
            self.rest.append(rest)
            return choose_rest(group, rest, table, made, self.controls, model.ops)

        table = model.predictor.inputs(model.embedder)[0]
        row = table._replace(rows=table.rows[first])
        return model.predictor.frame(self.hidden, first, row, model.embedder, choose)

    def go_on(self, codes: Tensor) -> None:
        text = self.prompt.feed
        self.row = self.model.embedder.frame(codes) + (text[self.made] if self.made < len(text) else self.prompt.pad)
        self.seen[0, codes[0, 0]] = True
        self.position, self.made = self.position + 1, self.made + 1


def greedy_frames(model: Any, request: Request, count: int) -> Tensor:
    """The first frames [count, groups] that a model says, which must not end before."""
    [prompt] = model.prompter.prompts([model.prompter.draft(request)])
    alone, made = Alone(model, prompt, model.sampling.repetition_penalty, count), []
    for _ in range(count):
        codes = alone.frame(alone.logits())
        assert codes is not None
        made.append(codes[0])
        alone.go_on(codes)
    return torch.stack(made)
