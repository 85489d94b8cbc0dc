"""One request from submission to its end: limits, guards, failures, live text, pauses, and calls from other threads."""

import copy
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import recording_device
import torch
from engine_kit import as_alone, engine_of, join, requests_of, rested, same, solo, speak, to_the_end, turns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import LONG_S, eventually

from omnitts_cli.audio.chunk import Chunk
from omnitts_cli.engine import admission
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.engine.slots import State
from omnitts_cli.errors import InputError, ModelError, UsageError, VoiceError
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.shapes import LEAST_FRAMES
from omnitts_cli.request import Failed, Request, Sampling
from omnitts_cli.voices import Named

quick = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


def altered(model: SpeechModel, **roles: Callable[[Any], Any]) -> SpeechModel:
    """The model with changed copies of some roles."""
    made = {name: copy.deepcopy(getattr(model, name)) for name in roles}
    for name, change in roles.items():
        change(made[name])
    return replace(model, **made)


@pytest.fixture(scope="module")
def monotonous(model: SpeechModel) -> SpeechModel:
    """All codes are equally likely, so greedy speech is code 0 for ever."""
    return altered(model, talker=lambda talker: talker.head.zero_())


@pytest.fixture(scope="module")
def silent(model: SpeechModel) -> SpeechModel:
    def hush(codec: Any) -> None:
        codec.closing.conv.weight.zero_()
        codec.closing.conv.bias.zero_()

    return altered(model, codec=hush)


# ---- how speech ends


def test_max_frames_is_exact() -> None:
    """With `ignore_end`, also where a request would end by itself."""
    for frames in (1, 2, 3, 17, 60):
        for request in requests_of(4, max_frames=frames, ignore_end=True):
            clip = speak([request], 1)[request.id]
            assert (len(clip.codes), clip.stopped) == (frames, "limit")
    assert any(solo(request).stopped == "end" for request in requests_of(4, max_frames=60))


def test_speech_has_its_least_length(model: SpeechModel) -> None:
    """A model that wants to end at once still makes the official two frames."""

    def impatient(talker: Any) -> None:
        talker.head.zero_()
        talker.stack.norm.zero_()  # the last norm makes every hidden state zero; its logits follow
        talker.logits = lambda hidden: (
            torch.nn.functional.one_hot(
                torch.full(hidden.shape[:-1], model.facts.end_code), model.facts.vocabulary
            ).float()
            * 50
        )

    over = speak(requests_of(5), 2, of=altered(model, talker=impatient))
    for clip in over.values():
        assert (len(clip.codes), clip.stopped) == (LEAST_FRAMES, "end")


def test_the_guard_stops_a_runaway() -> None:
    request = requests_of(1, text="ab", max_frames=None, ignore_end=True)[0]
    clip = speak([request], 1, seconds=30)[request.id]
    assert (len(clip.codes), clip.stopped) == (admission.runaway_limit(2), "limit")


@pytest.mark.parametrize("prompt_rows", [96, 0])
def test_a_short_slot_stops_a_long_request(model: SpeechModel, prompt_rows: int) -> None:
    """Up to the last frame, or the last position, of the slot; its neighbour's numbers stay its own."""
    engine = engine_of(2, seconds=3, prompt_rows=prompt_rows)
    request = requests_of(1, max_frames=None, ignore_end=True)[0]
    rows = len(model.prompter.prompt(request).rows)
    over = speak([request, replace(request, id="again")], engine=engine)
    room = min(engine.plan.frames, engine.plan.positions - rows)
    assert room == (38 if prompt_rows else 38 - rows)
    assert [(len(clip.codes), clip.stopped) for clip in over.values()] == [(room, "limit")] * 2


def test_a_request_that_cannot_fit_is_refused_with_numbers() -> None:
    request = requests_of(1, max_frames=500, ignore_end=True)[0]
    failed = speak([request], 1, seconds=3)[request.id]
    assert isinstance(failed, Failed) and isinstance(failed.error, InputError)
    assert "500 frames" in failed.error.message and "room for 38" in failed.error.message
    assert failed.error.hint


def test_seeds_of_64_bits() -> None:
    good = [2**63 - 1, -(2**63), -1, 0]
    over = speak([requests_of(1, seed=seed, id=str(seed))[0] for seed in [*good, 2**63]], 2)
    assert isinstance(over.pop(str(2**63)), Failed)
    assert len({clip.codes.tobytes() for clip in over.values()}) == len(good)


@pytest.mark.parametrize("stall", [2, 5, 30])
def test_a_stall_ends_that_request(monotonous: SpeechModel, stall: int) -> None:
    greedy = Sampling(temperature=0.0)
    requests = [
        *requests_of(1, sampling=greedy, max_frames=None, id="stuck"),
        *requests_of(1, sampling=greedy, max_frames=40, ignore_end=True, id="asked"),
        *requests_of(1, sampling=Sampling(temperature=1.0), max_frames=40, ignore_end=True, id="lively"),
    ]
    over = speak(requests, 3, of=monotonous, stall_frames=stall)
    assert (len(over["stuck"].codes), over["stuck"].stopped) == (stall, "stall")
    assert [len(over[name].codes) for name in ("asked", "lively")] == [40, 40]


@pytest.mark.parametrize("chunks", [(1,), (1, 2, 4, 8, 16)])
def test_silence_ends_that_request(silent: SpeechModel, chunks: tuple[int, ...]) -> None:
    engine = engine_of(2, of=silent, silence_frames=10, chunks=chunks)
    requests = [
        *requests_of(1, start=9, max_frames=None, id="quiet"),
        *requests_of(1, max_frames=30, id="short", ignore_end=True),
    ]
    over = speak(requests, engine=engine)
    assert over["quiet"].stopped == "silence" and len(over["quiet"].codes) == 10
    assert len(over["quiet"].pcm) == 10 * silent.facts.samples_per_frame
    assert len(over["short"].codes) == 30
    assert speak(requests, engine=engine).keys() == over.keys()


# ---- failures inside the batch


FEW = {"chunks": (1, 2), "prefill_rows": (16, 32), "ahead": 3}


@pytest.fixture(scope="module", params=["eager", "late"])
def poisoned_engine(request: pytest.FixtureRequest, poisonable: SpeechModel) -> Engine:
    """Two slots; "late" has captured steps and streams that lag."""
    device = None if request.param == "eager" else recording_device.RecordingDevice(late=True)
    return engine_of(2, of=poisonable, device=device, **FEW)


@pytest.mark.parametrize("where", ["first", "middle", "last", "pad"])
def test_numbers_that_are_not_finite_end_that_request_alone(poisoned_engine: Engine, where: str) -> None:
    """Its neighbours, and those who get its slot, its prefill buffers or a prefix later, are not changed by it."""
    engine, requests = poisoned_engine, requests_of(6, max_frames=5)
    bad = [replace(request, id=f"bad{request.id}", style=f"poison {where}", text_mode="whole") for request in requests]
    over = speak([one for pair in zip(bad, requests, strict=True) for one in pair], engine=engine)
    for poisoned, request in zip(bad, requests, strict=True):
        failed = over[poisoned.id]
        assert isinstance(failed, Failed) and isinstance(failed.error, ModelError)
        assert ("frame 2" if where == "pad" else "frame 1") in failed.error.message
        same(solo(request), over[request.id])


def test_cancelled_before_anybody_knew_that_it_is_broken(poisoned_engine: Engine) -> None:
    engine, good = poisoned_engine, requests_of(2, max_frames=6)
    for count in range(5):
        for name in ("bad", "worse"):
            engine.submit(replace(good[0], id=name, style="poison last"))
        for _ in range(count):
            engine.step()
        engine.cancel("bad")
        engine.cancel("worse")
        for request in good:
            same(solo(request), engine.clip(request))
        to_the_end(engine)


def test_unknown_voice_fails_alone() -> None:
    with pytest.raises(VoiceError, match="nobody"):
        engine_of(1).clip(requests_of(1, voice=Named("nobody"))[0])


# ---- cancel


def test_cancelling_frees_the_slot_in_every_state() -> None:
    engine = engine_of(1, device=recording_device.RecordingDevice(late=True), prefill_rows=(4,), chunks=(1,), ahead=3)
    (request,), seen = requests_of(1, max_frames=4, ignore_end=True), set()
    for count in range(40):
        engine.device.deal_again(count)
        engine.submit(request)
        news = turns(engine, count % 20)
        if state := next((one.state for one in engine.snapshot().requests.values()), None):
            seen.add(state)
            engine.cancel(request.id)
            news += engine.step()
            assert engine.snapshot().free == (0,) and not engine.snapshot().requests
        assert join(news)[request.id].stopped in ("cancelled", "limit")
    assert seen == {State.WAITING, State.OPENING, State.RUNNING, State.FINISHING}


def test_late_words_for_an_old_request_do_not_reach_a_new_one_of_its_name() -> None:
    engine = engine_of(1)
    request = requests_of(1, max_frames=3, ignore_end=True)[0]
    engine.submit(request)
    late = []
    inbox = engine._inbox  # another thread's call, made while the old request was known, arrives after its end
    engine._inbox = SimpleNamespace(put=late.append)
    engine.cancel(request.id)
    engine._inbox = inbox
    to_the_end(engine)
    engine.submit(request)
    inbox.put(late[0])
    over = join(to_the_end(engine))
    assert over[request.id].stopped == "limit"
    rested(engine)


# ---- names, meters, clip


def test_a_name_can_be_used_once_at_a_time() -> None:
    engine = engine_of(1)
    request = requests_of(1)[0]
    engine.submit(request)
    with pytest.raises(UsageError, match=request.id):
        engine.submit(request)
    to_the_end(engine)
    assert len(engine.clip(request).codes)
    rested(engine)


def test_names_of_ours_step_aside() -> None:
    engine = engine_of(1)
    engine.submit(requests_of(1, id="r1")[0])
    nameless = requests_of(1, id="")[0]
    names = [engine.submit(nameless) for _ in range(3)]
    assert len({"r1", *names}) == 4


def test_many_threads_may_submit_at_once() -> None:
    engine, refused = engine_of(4), []

    def submit() -> None:
        for number in range(10):
            try:
                engine.submit(requests_of(1, id=f"n{number}", max_frames=2)[0])
            except UsageError:
                refused.append(number)

    with ThreadPoolExecutor(4) as threads:
        for _ in range(4):
            threads.submit(submit)
    over = join(to_the_end(engine))
    assert len(over) == 10 and len(refused) == 30


def test_clip_leaves_the_others_theirs() -> None:
    engine = engine_of(3)
    mine, other, nobody = requests_of(3)
    engine.submit(other)
    engine.submit(replace(nobody, voice=Named("nobody")))
    same(solo(mine), engine.clip(mine))
    over = join(to_the_end(engine))
    same(solo(other), over[other.id])
    assert isinstance(over[nobody.id], Failed)


def test_first_sounds_are_handed_out_before_ends() -> None:
    """Chunks of one request stay in order. Where one ends, its caller sends the next request, which takes time."""
    engine = engine_of(2)
    nothing = np.zeros(0, np.float32), np.zeros((0, 2), np.int64)
    failed = Failed("c", InputError("no", hint="no"))
    old = [Chunk("a", 7, *nothing, False, None, 1), failed, Chunk("a", 8, *nothing, True, "end", 1)]
    new = [Chunk("b", 0, *nothing, False, None, 1), Chunk("d", 0, *nothing, False, None, 1)]
    engine._news = [old[0], new[0], *old[1:], new[1]]
    assert engine.step() == [*new, *old]


def test_no_gradients_are_recorded(model: SpeechModel) -> None:
    grown = altered(model, talker=lambda t: t.requires_grad_(True), embedder=lambda e: e.requires_grad_(True))
    with torch.enable_grad():
        engine = engine_of(1, of=grown)
        engine.clip(requests_of(1)[0])
    assert engine.columns(0)["made"] > 0  # a row with a gradient could not be read


def test_clip_refuses_what_it_would_cut_off(model: SpeechModel) -> None:
    engine = engine_of(1, of=replace(model, longest_piece=20))
    assert engine.clip(requests_of(1, text="x" * 20)[0]).stopped
    with pytest.raises(InputError, match=r"21 characters; random:toy speaks at most 20") as caught:
        engine.clip(requests_of(1, text="x" * 21)[0])
    assert "split" in caught.value.hint
    assert not engine.busy


# ---- pauses


@pytest.mark.parametrize("before", [0, 1, 2, 3, 7])
def test_a_pause_holds_one_request_and_changes_no_other(before: int) -> None:
    engine = engine_of(2, first_chunk=2)
    patient, other = requests_of(2, max_frames=25, ignore_end=True)
    engine.submit(patient)
    news = list(turns(engine, before))
    engine.pause(patient.id)
    engine.submit(other)
    news += turns(engine, 60)
    frames = sum(len(one.codes) for one in news if one.request == patient.id)
    assert frames <= before and [one.stopped for one in news if one.request == other.id][-1] == "limit"
    assert engine.snapshot().sleeps, "a paused request keeps the loop turning"
    engine.resume(patient.id)
    news += turns(engine, 200)
    as_alone([patient, other], join(news))


def test_a_paused_request_can_be_cancelled() -> None:
    engine = engine_of(1)
    engine.submit(requests_of(1)[0])
    list(turns(engine, 5))
    engine.pause("q0")
    list(turns(engine, 20))
    assert engine.snapshot().sleeps
    engine.cancel("q0")
    assert [one.stopped for one in turns(engine, 5)] == ["cancelled"]
    rested(engine)


# ---- live text

TEXT = "one two, three four five; six seven and eight"


def live(number: int = 0) -> Request:
    """A request without its text; cloned with a reference for number 1."""
    return requests_of(7, text="", max_frames=48, ignore_end=True, text_mode="streamed")[number]


@quick
@given(data=st.data())
@pytest.mark.parametrize("number", [0, 1, 4])
def test_text_in_pieces_is_text_at_once(number: int, data: st.DataObject) -> None:
    """Wherever it is cut, whenever the pieces come, also before the slot is there and while it is opening."""
    request = live(number)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(TEXT)), max_size=8), label="cuts"))
    engine = engine_of(
        data.draw(st.integers(1, 2), label="slots"),
        prefill_rows=(data.draw(st.sampled_from([2, 128]), label="run"),),
        text_rows=data.draw(st.sampled_from([1, 3, 256]), label="ring"),
        first_chunk=data.draw(st.integers(1, 2), label="first"),
    )
    news: list[News] = []
    neighbour = requests_of(1, id="neighbour")[0]
    engine.submit(neighbour)
    engine.submit(replace(request, text=TEXT[: cuts[0]] if cuts else ""), live=True)
    for start, stop in zip([*cuts, len(TEXT)], [*cuts[1:], len(TEXT), len(TEXT)], strict=False):
        news += turns(engine, data.draw(st.integers(0, 9), label="turns"))
        engine.feed(request.id, TEXT[start:stop] if cuts else TEXT)
        if not cuts:
            break
    news += turns(engine, data.draw(st.integers(0, 60), label="turns"))
    engine.finish(request.id)
    news += turns(engine, 300)
    as_alone([replace(request, text=TEXT), neighbour], join(news))


def test_a_starving_request_waits_and_keeps_its_sound_coming() -> None:
    """What has been made is decoded before the next word comes, whatever the first chunk should have been."""
    engine = engine_of(1, first_chunk=4)
    request = live()
    engine.submit(replace(request, text="hi "), live=True)
    news = list(turns(engine, 100))
    assert engine.snapshot().sleeps
    settled = sum(len(one.codes) for one in news)
    assert 0 < settled < 6
    engine.feed(request.id, "you there ")
    more = sum(len(one.codes) for one in turns(engine, 100))
    assert engine.snapshot().sleeps and 0 < more < 14
    engine.finish(request.id)
    assert [one.stopped for one in turns(engine, 300)][-1] == "limit"
    rested(engine)


def test_the_guard_of_live_text_comes_with_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "GUARD_FRAMES", 10)
    monkeypatch.setattr(admission, "GUARD_FRAMES_PER_TOKEN", 1)
    engine = engine_of(1)
    engine.submit(replace(live(), text="good morning ", max_frames=None), live=True)
    news = list(turns(engine, 60))
    engine.finish("q0")
    news += turns(engine, 100)
    assert news[-1].stopped == "limit"
    assert sum(len(one.codes) for one in news) <= 10 + len("good morning") + 1


def test_text_of_white_space_only_is_reported() -> None:
    engine = engine_of(1)
    engine.submit(live(), live=True)
    engine.feed("q0", " \n")
    assert not list(turns(engine, 5)) and engine.snapshot().sleeps
    engine.finish("q0")
    (failed,) = turns(engine, 5)
    assert isinstance(failed, Failed) and isinstance(failed.error, InputError)


def test_text_that_cannot_be_spoken_fails_its_request_alone() -> None:
    """The words of others in the same turn are not lost."""
    engine = engine_of(2)
    bad, good = live(), replace(live(), id="good")
    for request in (bad, good):
        engine.submit(replace(request, text="well then "), live=True)
    news = list(turns(engine, 4))
    engine.feed(bad.id, "half a \ud800 character ")
    engine.feed(good.id, "go")
    engine.finish(good.id)
    news += turns(engine, 200)
    over = join(news)
    assert isinstance(over[bad.id].error, InputError)
    same(solo(replace(good, text="well then go")), over["good"])


# ---- sleeping and waking


def test_an_engine_with_nothing_to_do_sleeps() -> None:
    engine, steps, over = engine_of(2), [], []

    def drive() -> None:
        while engine.busy:
            steps.append(len(steps))
            over.extend(engine.step())

    engine.submit(replace(live(), text="hi "), live=True)
    engine.submit(replace(live(), id="mute"), live=True)
    engine.submit(requests_of(1, id="paused")[0])
    engine.pause("paused")
    thread = threading.Thread(target=drive)
    thread.start()
    eventually(lambda: engine.sleeping)
    before = len(steps)
    time.sleep(0.2)
    assert engine.sleeping and len(steps) == before, "it wakes without a call"
    for name in ("q0", "mute", "paused"):
        engine.cancel(name)
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert {one.request for one in over if isinstance(one, Chunk) and one.last} == {"q0", "mute", "paused"}


def test_no_wake_up_is_missed() -> None:
    """A word at a time from another thread, each of which may find the engine asleep, awake or between."""
    engine, rounds = engine_of(2), 12

    def talk(name: str) -> None:
        for number in range(rounds):
            engine.feed(name, f"w{number} ")
            time.sleep(0.002 * (number % 3))
            engine.pause(name)
            engine.resume(name)
        engine.finish(name)

    names = [engine.submit(replace(live(), id=f"t{n}", max_frames=30), live=True) for n in range(3)]
    threads = [threading.Thread(target=talk, args=(name,)) for name in names]
    ended: list[str] = []

    def drive() -> None:
        while engine.busy:
            ended.extend(one.stopped for one in engine.step() if one.last)

    driver = threading.Thread(target=drive, daemon=True)
    driver.start()
    for thread in threads:
        thread.start()
    driver.join(LONG_S)
    assert not driver.is_alive(), "the engine sleeps although it was asked"
    assert ended == ["limit"] * 3
