"""The whole path against the official package: greedy frames run free, and their sound, row by row of every case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_cases import CASES, asked, near
from golden_set import case
from tiny_models import tiny_model
from torch import Tensor

from omnitts_cli.kernels import cpu, plain
from omnitts_cli.kernels.ops import Normed, Ops
from omnitts_cli.kernels.plain import keep_likely
from omnitts_cli.models.roles import Prompt, SpeechModel
from omnitts_cli.models.sampling import Controls, choose_first, choose_rest, first_scores
from omnitts_cli.models.slot_decoder import slot_decoder


class Alone:
    """One request without an engine: the talker, the predictor and the text feed, a frame at a time."""

    def __init__(self, model: SpeechModel, prompt: Prompt, penalty: float, most: int) -> None:
        self.model, self.prompt = model, prompt
        talker = model.talker
        capacity = len(prompt.rows) + most
        self.cache = talker.cache(1, capacity)
        self.controls = Controls.empty(1, "cpu")
        self.controls.penalty[:] = penalty
        self.heard = torch.zeros(1, model.facts.codes, dtype=torch.bool)
        self.slots = torch.zeros(1, dtype=torch.int64)
        self.position, self.made = len(prompt.rows) - 1, 0
        if self.position:
            talker.prefill(prompt.rows[None, :-1], torch.zeros(1, dtype=torch.int64), self.slots, self.cache, capacity)
        self.row = prompt.rows[-1:]

    def logits(self) -> Tensor:
        """Hear the next row: [1, V]."""
        width, position = self.cache.capacity, torch.tensor([self.position])
        self.hidden = self.model.talker.step(self.row, position, self.slots, self.cache, width)
        return self.model.talker.logits(self.hidden)

    def first(self, logits: Tensor) -> int:
        made = torch.tensor([self.made])
        model = self.model
        code, _ = choose_first(logits, None, self.heard, self.slots, made, self.controls, model.facts, model.ops)
        return int(code)

    def rest(self, first: int) -> Tensor:
        """All codes of the frame that begins with `first`: [1, G]."""
        model, made = self.model, torch.tensor([self.made])

        def choose(group: int, logits: Tensor, table: Normed | None) -> tuple[Tensor, Normed | None]:
            return choose_rest(group, logits, table, made, self.controls, model.ops)

        table = model.predictor.inputs(model.embedder)[0]
        row = replace(table, rows=table.rows[first : first + 1])
        return model.predictor.frame(self.hidden, torch.tensor([first]), row, model.embedder, choose)

    def go_on(self, codes: Tensor) -> None:
        text = self.prompt.feed
        self.row = self.model.embedder.frame(codes) + (text[self.made] if self.made < len(text) else self.prompt.pad)
        self.heard[0, codes[0, 0]] = True
        self.position, self.made = self.position + 1, self.made + 1


@torch.no_grad()
def speak(model: SpeechModel, prompt: Prompt, penalty: float, most: int) -> Tensor:
    """Greedy frames until the end code or `most`: [T, G]."""
    alone, frames = Alone(model, prompt, penalty, most), []
    while len(frames) < most:
        first = alone.first(alone.logits())
        if first == model.facts.end_code:
            break
        frames.append(alone.rest(first))
        alone.go_on(frames[-1])
    return torch.cat(frames)


TABLES = [pytest.param(plain.OPS, id="plain"), pytest.param(cpu.OPS, id="cpu")]
TABLES += [pytest.param(ops, id="native") for ops in [cpu.native()] if ops]


@pytest.mark.parametrize("ops", TABLES)
@pytest.mark.parametrize("name", [name for name in CASES if not name.endswith("sampled")])
def test_free_running_frames_and_their_sound(name: str, ops: Ops) -> None:
    golden, model = case(name), tiny_model(name.split("/")[0], ops)
    most = golden.meta["arguments"]["max_new_tokens"] - 1  # the official package never speaks its last token
    for index, request in enumerate(asked(golden)):
        prompt = model.prompter.prompt(request)
        frames = speak(model, prompt, model.sampling.repetition_penalty, most)
        assert len(frames) == golden.meta["frame_lengths"][index]
        assert (len(frames) < most) == golden.meta["stopped_by_eos"][index]
        assert torch.equal(frames, golden.tensors["talker.frames"][index, : len(frames)])
        before = torch.zeros(0, frames.shape[1], dtype=torch.int64)
        if prompt.draft.reference is not None:
            before = torch.from_numpy(prompt.draft.reference)
        codes = torch.cat([before, frames])[None]
        sound = slot_decoder(model.codec, 1, codes.shape[1], ops.codec).decode(codes, torch.tensor([0]))[0]
        sound = sound[len(before) * model.facts.samples_per_frame :]
        assert len(sound) == golden.meta["wav_lengths"][index]
        key = f"wav.{index}"
        assert near(golden.same(key, sound), golden.tensors[key])


@torch.no_grad()
def test_scores_of_a_sampled_run() -> None:
    """With the official frames forced, the logits and what is left of them after the processors are equal."""
    golden, model = case("custom_voice/sampled"), tiny_model("custom_voice")
    said = golden.meta["arguments"]
    prompt = model.prompter.prompt(next(asked(golden)))
    frames = golden.tensors["talker.frames"][0]
    alone = Alone(model, prompt, said["repetition_penalty"], len(frames) + 1)
    for step, theirs in enumerate(golden.tensors["talker.logits"][: len(frames), 0]):
        logits = alone.logits()
        assert near(logits[0], theirs)
        made = torch.tensor([step])
        scores = first_scores(logits, alone.heard, alone.slots, made, alone.controls, model.facts)
        how = [torch.tensor([said[key]]) for key in ("temperature", "top_k", "top_p")]
        torch.testing.assert_close(keep_likely(scores, *how)[0], golden.tensors["talker.scores"][step, 0])
        alone.go_on(frames[None, step])


def test_a_clone_made_here_is_the_clone_made_there() -> None:
    for name in ("base/icl_stream_text_longer", "base/icl_stream_codec_longer", "base_large/icl_nonstream"):
        golden, cloner = case(name), tiny_model(name.split("/")[0]).cloner
        sound = golden.tensors["ref.0.audio"].numpy()
        assert np.array_equal(cloner.codes(sound), golden.tensors["ref.0.codes"].numpy())
        embedding = torch.from_numpy(cloner.embedding(sound))
        assert near(embedding, golden.tensors["ref.0.speaker_embedding"])
