"""The whole path against the official package: greedy frames run free, and their sound, row by row of every case."""

import pytest
import tables
import torch
from golden_cases import CASES, asked
from golden_set import case
from greedy import Alone
from tiny_models import near, tiny_model
from torch import Tensor

from omnitts_cli.kernels import plain
from omnitts_cli.kernels.ops import Ops
from omnitts_cli.kernels.plain import keep_likely
from omnitts_cli.models.prompts import Prompt
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.sampling import first_scores
from omnitts_cli.models.slot_decoder import slot_decoder


@torch.no_grad()
def speak(model: SpeechModel, prompt: Prompt, most: int) -> Tensor:
    """Greedy frames until the end code or `most`: [T, G]."""
    alone, frames = Alone(model, prompt, model.sampling.repetition_penalty, most), []
    while len(frames) < most and (codes := alone.frame(alone.logits())) is not None:
        frames.append(codes)
        alone.go_on(codes)
    return torch.cat(frames)


TABLES = [pytest.param(plain.OPS, id="plain"), pytest.param(tables.PYTHON, id="cpu")]
TABLES += [pytest.param(ops, id="native") for ops in [tables.native()] if ops]


GREEDY = [name for name in CASES if not name.endswith("sampled")]
FIRST = {name.split("/")[0]: name for name in reversed(GREEDY)}
"""Of each checkpoint. The last table says all cases, the others say these: prompts do not depend on tables."""
SPOKEN = [
    pytest.param(name, *table.values, id=f"{name}-{table.id}", marks=[pytest.mark.slow] * slow)
    for name in GREEDY
    for table in TABLES
    for slow in [table is not TABLES[-1] and name not in FIRST.values()]
]


@pytest.mark.parametrize(("name", "ops"), SPOKEN)
def test_free_running_frames_and_their_sound(name: str, ops: Ops) -> None:
    golden, model = case(name), tiny_model(name.split("/")[0], ops)
    most = golden.meta["arguments"]["max_new_tokens"] - 1  # the official package never speaks its last token
    for index, request in enumerate(asked(golden)):
        prompt = model.prompter.prompt(request)
        frames = speak(model, prompt, most)
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
        scores = first_scores(logits, alone.seen, alone.slots, made, alone.controls, model.facts)
        how = [torch.tensor([said[key]]) for key in ("temperature", "top_k", "top_p")]
        torch.testing.assert_close(keep_likely(scores, *how)[0], golden.tensors["talker.scores"][step, 0])
        alone.go_on(frames[None, step])
