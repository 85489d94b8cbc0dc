"""AnswerLoop without a talker: answers equal the official ones however they are batched, cut, cached and captured."""

from dataclasses import replace

import numpy as np
import pytest
from engine_kit import PaddingDevice, to_the_end
from golden_set import thinker_case, thinker_folder
from omni_recipe import clip
from precise import without_tf32
from recording_device import RecordingDevice

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.answer_loop import AnswerLoop, slot_bytes
from omnitts_cli.engine.text_slots import TextPlan, TextRequest
from omnitts_cli.errors import InputError, ModelError, UsageError
from omnitts_cli.models.audio_tower import Sound
from omnitts_cli.models.thinker import TextModel
from omnitts_cli.request import Failed
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load_thinker import load_thinker

NAMES = ("text", "text_no_system", "text_history", "text_cut", "text_cut_and_one")
PLAN = TextPlan(slots=4, positions=160, buckets=(1, 2, 4))


SPOKEN = {"audio": ["mid"], "audio_short": ["short"], "audio_text": ["long"], "audio_beyond30": ["beyond30"]}
"""Cases with one clip. Beside others, the official library pads a clip, and its rows change."""


@pytest.fixture(scope="module")
def model() -> TextModel:
    return load_thinker(str(thinker_folder()), CPUDevice(1), EngineSettings(), sound=True)


def loop_of(model: TextModel, **more) -> AnswerLoop:
    return AnswerLoop(model, CPUDevice(1), replace(PLAN, **more))


def answers(loop: AnswerLoop, *requests: TextRequest) -> list[tuple[list[int], str]]:
    """Tokens and reason of the end, of requests that run together."""
    numbers = [loop.submit(request) for request in requests]
    tokens: dict[str, list[int]] = {number: [] for number in numbers}
    ends: dict[str, str] = {}
    while loop.busy:
        for news in loop.step():
            if isinstance(news, Failed):
                raise news.error
            if news.id is not None:
                assert news.request not in ends
                tokens[news.request].append(news.id)
            if news.stopped:
                ends[news.request] = news.stopped
    return [(tokens[number], ends[number]) for number in numbers]


def asked(name: str, **more) -> TextRequest:
    golden = thinker_case(name).meta
    return TextRequest(golden["prompt"], most=golden["most"], **more)


def spoken(name: str) -> TextRequest:
    clips = tuple(Sound.of(clip(one).astype(np.float32) / 32768) for one in SPOKEN[name])
    return replace(asked(name), sounds=clips)


def official(name: str, model: TextModel) -> tuple[list[int], str]:
    golden = thinker_case(name).meta
    ended = golden["answer"][-1] in model.facts.stops
    return golden["answer"][: -1 if ended else None], "end" if ended else "limit"


def test_both_kinds_of_ends_are_in_the_cases(model: TextModel) -> None:
    assert {official(name, model)[1] for name in NAMES} == {"end", "limit"}


@pytest.mark.parametrize("rows", [1, 5, 7, 16, 1024])
def test_batched_equals_single_with_prompts_whole_and_in_parts(rows: int, model: TextModel) -> None:
    loop = loop_of(model, run=rows, idle_run=rows)  # five for four slots: one waits
    assert answers(loop, *map(asked, NAMES)) == [official(name, model) for name in NAMES]


def test_a_cached_prefix_equals_a_fresh_prompt(model: TextModel) -> None:
    loop = loop_of(model)
    first = answers(loop, asked("text"))
    before = loop.rows_prefilled
    assert before == len(asked("text").prompt) - 1
    assert answers(loop, asked("text")) == first
    assert loop.rows_prefilled == before  # nothing was computed again
    # the turn after it begins with question and answer
    tokens = first[0][0]
    more = [*asked("text").prompt, *tokens, 424, 198, *asked("text_history").prompt[-12:]]
    fresh = answers(loop_of(model), TextRequest(more, most=6))
    assert answers(loop, TextRequest(more, most=6)) == fresh
    assert loop.rows_prefilled == before + len(more) - 1 - (len(asked("text").prompt) + len(tokens))


def test_a_prefix_of_a_running_conversation_is_copied(model: TextModel) -> None:
    loop = loop_of(model)
    long, short = asked("text"), asked("text_cut")
    assert long.prompt == short.prompt
    loop.submit(replace(long, ignore_end=True, most=40))
    while not any(news.id for news in loop.step()):
        pass
    before = loop.rows_prefilled
    assert answers(loop_of(model), short) == [(official("text_cut", model))]
    second = loop.submit(short)
    tokens = [news.id for news in to_the_end(loop) if news.request == second and news.id is not None]
    assert tokens == official("text_cut", model)[0]
    assert loop.rows_prefilled == before


@pytest.mark.parametrize("rows", [7, 1024])
def test_spoken_questions_whole_and_in_parts(rows: int, model: TextModel) -> None:
    loop = loop_of(model, run=rows, idle_run=rows, positions=512)
    assert answers(loop, *map(spoken, SPOKEN)) == [official(name, model) for name in SPOKEN]


def test_a_cached_sound_is_known_by_its_content(model: TextModel) -> None:
    loop = loop_of(model, positions=256, slots=1, buckets=(1,))
    assert answers(loop, spoken("audio")) == [official("audio", model)]
    before = loop.rows_prefilled
    assert answers(loop, spoken("audio")) == [official("audio", model)]
    assert loop.rows_prefilled == before
    sound = spoken("audio").sounds[0]
    other = Sound(sound.mel[::-1].copy(), sound.tokens, b"another")
    changed = replace(spoken("audio"), sounds=(other,))
    assert answers(loop, changed) == answers(loop_of(model, positions=256), changed) != [official("audio", model)]
    assert loop.rows_prefilled > before  # the same ids, but another sound


def test_a_slot_of_another_conversation_is_not_trusted(model: TextModel) -> None:
    loop = loop_of(model, slots=1, buckets=(1,))
    for name in (*NAMES, *reversed(NAMES)):
        assert answers(loop, asked(name)) == [official(name, model)]


def test_a_drawn_answer_depends_on_its_seed_alone(model: TextModel) -> None:
    requests = [replace(asked("text"), temperature=1.5, seed=seed, most=12) for seed in (1, 2, 1)]
    first, second, third = answers(loop_of(model), *requests)
    assert first == third != second
    assert answers(loop_of(model), asked("text_history"), requests[0])[1] == first
    nearly_greedy = replace(requests[0], top_k=1, most=14)
    assert answers(loop_of(model), nearly_greedy) == [official("text", model)]


def test_the_end_may_be_ignored_until_the_slot_is_full(model: TextModel) -> None:
    tokens, reason = answers(loop_of(model), replace(asked("text"), most=124, ignore_end=True))[0]
    assert (len(tokens), reason) == (124, "limit")
    assert tokens[:9] != tokens[9:18]
    assert not set(tokens) & set(model.facts.stops)


def test_no_id_beyond_the_words_is_chosen(model: TextModel) -> None:
    request = replace(asked("text"), temperature=50.0, most=100, ignore_end=True)
    tokens = answers(loop_of(model), request)[0][0]
    assert max(tokens) < model.facts.tokens
    assert len(set(tokens)) > 30


def test_cancelling(model: TextModel) -> None:
    loop = loop_of(model, slots=1, buckets=(1,))
    running, waiting, last = loop.submit(asked("text")), loop.submit(asked("text_cut")), loop.submit(asked("text_cut"))
    while not any(news.id for news in loop.step()):
        pass
    loop.cancel(running)
    loop.cancel(waiting)
    news = [one for _ in range(40) for one in loop.step()]
    ends = {one.request: one.stopped for one in news if one.stopped}
    assert ends == {running: "cancelled", waiting: "cancelled", last: "limit"}
    assert [one.id for one in news if one.request == last and one.id is not None] == official("text_cut", model)[0]
    assert not loop.busy


def test_values_that_are_not_finite_fail_one_request_only(model: TextModel) -> None:
    loop = loop_of(model)
    number, other = loop.submit(asked("text")), loop.submit(asked("text_history"))
    while not any(news.id for news in loop.step()):
        pass
    loop._cache.keys[:, loop._admitted[0].slot] = float("nan")
    news = [one for _ in range(40) for one in loop.step()]
    failed = next(one for one in news if one.request == number and isinstance(one, Failed))
    assert isinstance(failed.error, ModelError)
    assert "NaN" in failed.error.message
    assert next(one.stopped for one in news if one.request == other and one.stopped) == "limit"
    assert answers(loop, *[asked(name) for name in NAMES[:4]]) == [official(name, model) for name in NAMES[:4]]


def test_what_cannot_fit_is_refused_with_its_numbers(model: TextModel) -> None:
    loop = loop_of(model)
    with pytest.raises(InputError, match=r"has 36 tokens .* 125; together they must not have more than 160") as refused:
        loop.submit(replace(asked("text"), most=125))
    assert refused.value.hint == "--max-tokens 124   or   --context 161"
    assert loop.submit(replace(asked("text"), most=124))
    with pytest.raises(InputError, match="has 200 tokens"):
        loop.submit(TextRequest([1] * 200, most=1))
    with pytest.raises(UsageError):
        loop.submit(replace(asked("text"), most=0))
    with pytest.raises(UsageError):
        loop.submit(TextRequest([], most=3))


def test_bytes_of_a_slot(model: TextModel) -> None:
    assert slot_bytes(model, PLAN) == 2 * 5 * 2 * 16 * 160 * 4


def test_padded_batches_and_prompts_together(model: TextModel) -> None:
    loop = AnswerLoop(model, PaddingDevice(1), PLAN)
    assert answers(loop, *map(asked, NAMES)) == [official(name, model) for name in NAMES]
    tight = AnswerLoop(model, PaddingDevice(1), replace(PLAN, positions=40, together=16))
    assert answers(tight, asked("text_no_system")) == [official("text_no_system", model)]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@without_tf32()
def test_captured_equals_eager_on_a_card(dtype: str) -> None:
    from omnitts_cli.devices.cuda import CUDADevice

    device = CUDADevice(0)
    model = load_thinker(str(thinker_folder()), device, EngineSettings(dtype=dtype))
    requests = [*map(asked, NAMES), replace(asked("text"), temperature=1.5, seed=4, most=12)]
    eager = answers(AnswerLoop(model, device, replace(PLAN, capture=False)), *requests)
    loop = AnswerLoop(model, device, PLAN)
    assert answers(loop, *requests) == eager
    if dtype == "fp32":
        assert eager[: len(NAMES)] == [official(name, model) for name in NAMES]
    number = loop.submit(requests[0])
    while not any(news.id for news in loop.step()):
        pass
    with device.count_syncs() as waits:
        news = [one for _ in range(30) for one in loop.step()]
    assert waits() == 0
    assert any(one.request == number and one.stopped for one in news)


def recorded(late: bool = True, **more) -> tuple[AnswerLoop, RecordingDevice]:
    device = RecordingDevice(late=late, seed=3)
    model = load_thinker(str(thinker_folder()), device, EngineSettings(), sound=True, speech=True)
    return AnswerLoop(model, device, replace(PLAN, positions=512, **more)), device


def test_captured_prompts_equal_eager_ones() -> None:
    """Padded, several end to end, with recordings, on streams that run late, and without a wait of the host."""
    loop, device = recorded()
    recordings = list(map(spoken, SPOKEN))
    assert len(loop._prompts._padded) == 4
    with device.count_syncs() as waits:
        for name in NAMES:
            assert answers(loop, asked(name)) == [official(name, loop.model)]
        assert answers(loop, *map(asked, NAMES)) == [official(name, loop.model) for name in NAMES]
        assert answers(loop, *recordings) == [official(name, loop.model) for name in SPOKEN]
        assert waits() == 0
    drawn = [replace(asked("text"), temperature=1.5, seed=seed, most=12) for seed in (1, 2)]
    assert answers(loop, *drawn) == answers(AnswerLoop(loop.model, CPUDevice(1), loop.plan), *drawn)


def test_a_prompt_longer_than_captured_runs_is_prefilled_all_the_same() -> None:
    loop, device = recorded(prompt_rows=(16,))
    before = device.replays
    tokens, stop = answers(loop, asked("text"))[0]
    assert (tokens, stop) == official("text", loop.model)
    assert device.replays - before <= len(tokens) + 3  # steps only: 35 rows do not fit


def test_a_short_prompt_takes_few_launches() -> None:
    """What the host asks of torch for a prompt, views included: captured, it does not grow with the layers."""
    counts = []
    for size in ((), (16, 64)):
        loop, device = recorded(late=False, prompt_rows=size or (8,))
        loop.submit(asked("text"))
        loop._admit()
        before = device.sent, device.replays
        loop._prefill(alone=True)
        counts.append((device.sent - before[0], device.replays - before[1]))
    assert counts[0][1] == 0
    assert counts[0][0] > 300
    assert counts[1][1] == 1
    assert counts[1][0] <= 13


def test_a_step_takes_few_launches() -> None:
    loop, device = recorded(late=False)
    loop.submit(replace(asked("text"), most=100, ignore_end=True))
    while not loop._ready:
        loop.step()
    loop.step()
    before = device.sent, device.replays
    for _ in range(20):
        loop.step()
    assert (device.sent - before[0], device.replays - before[1]) == (0, 20)  # a replay; the report is a fetch


def test_what_is_in_the_cache_is_not_encoded_again(model: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next question of a conversation that has a recording does not run the audio tower."""
    loop, calls = loop_of(model, positions=256), []
    tower = model.tower.forward
    monkeypatch.setattr(model.tower, "forward", lambda mel: (calls.append(len(mel)), tower(mel))[1])
    request = spoken("audio")
    tokens, _ = answers(loop, request)[0]
    assert len(calls) == 1
    more = replace(
        request, prompt=[*request.prompt, *tokens[:-1], 424, 198, *asked("text_history").prompt[-12:]], most=3
    )
    cached = answers(loop, more)
    assert len(calls) == 1
    assert cached == answers(loop_of(model, positions=256), more)
    assert len(calls) == 2


@pytest.mark.parametrize("whole", [(24, 64, 512), (24,)])
def test_captured_beginnings_of_long_prompts(whole: tuple[int, ...]) -> None:
    """Whole prompts in one captured run, and runs that follow the first; recordings included."""
    more = {
        "prompt_rows": (8,), "together": 8, "whole_rows": whole, "run": 24, "idle_run": 24 if len(whole) == 1 else 512,
    }  # fmt: skip
    loop, device = recorded(**more)
    recordings = [spoken("audio"), spoken("audio_text")]
    with device.count_syncs() as waits:
        assert answers(loop, *recordings) == [official(name, loop.model) for name in ("audio", "audio_text")]
        assert answers(loop, *map(asked, NAMES)) == [official(name, loop.model) for name in NAMES]
        assert waits() == 0


def test_a_few_cached_rows_do_not_keep_a_prompt_from_its_captured_run() -> None:
    loop, device = recorded(late=False, prompt_rows=(8,), together=8, whole_rows=(128,))
    answers(loop, asked("text"))
    prompt = [*asked("text").prompt[:3], *asked("text_history").prompt, *asked("text_history").prompt]
    before, rows = device.replays, loop.rows_prefilled
    number = loop.submit(TextRequest(prompt, most=1))
    ends = [news for _ in range(9) for news in loop.step() if news.stopped]
    assert [(news.request, news.cached) for news in ends] == [(number, 0)]
    assert (device.replays - before, loop.rows_prefilled - rows) == (2, len(prompt) - 1)
