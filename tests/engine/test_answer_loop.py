"""AnswerLoop: spoken answers equal the official library's, whenever the tokens reach the talker."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from engine_kit import same, to_the_end
from golden_set import thinker_case, thinker_folder
from omni_recipe import clip
from precise import without_tf32
from recording_device import RecordingDevice

from omnitts_cli.audio.chunk import Chunk, Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.answer_loop import AnswerLoop
from omnitts_cli.engine.engine import Engine
from omnitts_cli.engine.slots import Plan, State
from omnitts_cli.engine.text_slots import TextPlan, TextRequest, Token
from omnitts_cli.models.audio_tower import Sound as Recording
from omnitts_cli.models.prompts import Turns
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.models.thinker import TextModel
from omnitts_cli.request import Failed, Request, Sampling
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.load import load_model
from omnitts_cli.speech.load_thinker import load_thinker
from omnitts_cli.voices import Named

WRITTEN = ("text", "text_no_system", "text_history", "text_cut_and_one")
RECORDED = {"audio": ["mid"], "audio_short": ["short"], "audio_text": ["long"], "audio_beyond30": ["beyond30"]}
FRAMES = 21  # the official generator stops before frame 22
FOLDER = str(thinker_folder())
GREEDY = Sampling(temperature=0.0, predictor_temperature=0.0)
PLAN = TextPlan(slots=4, positions=480, buckets=(1, 2, 4))


@pytest.fixture(scope="module")
def thinker() -> TextModel:
    return load_thinker(FOLDER, CPUDevice(1), EngineSettings(), sound=True, speech=True)


@pytest.fixture(scope="module")
def talker() -> SpeechModel:
    return load_model(FOLDER, CPUDevice(1))


@dataclass
class Got:
    """One answer: its tokens, why the text stopped, and its sound."""

    tokens: list[int] = field(default_factory=list)
    stopped: str = ""
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def clip(self) -> Clip:
        return Clip.join(self.chunks)


Asked = tuple[TextRequest, Request | None]


def loop_of(thinker: TextModel, talker: SpeechModel, device=None, slots: int = 4, **more) -> AnswerLoop:
    device = device or CPUDevice(1)
    plan = replace(PLAN, **more).with_slots(slots)
    return AnswerLoop(thinker, device, plan, loop_engine(talker, device, slots))


def loop_engine(talker: SpeechModel, device=None, slots: int = 4) -> Engine:
    device = device or CPUDevice(1)
    sizes = {"prompt_rows": 480, "pads": device.pads, "chunks": (1, 2, 4), "prefill_rows": (16, 32, 64)}
    return Engine(talker, device, Plan.of(slots, 4, talker.facts.frame_rate, **sizes))


def asked(name: str, **more) -> Asked:
    """The question of a case. The official talker never reads the last token of an answer that was cut, so we ask for
    one token less.
    """
    golden = thinker_case(name).meta
    most = golden["most"] - (len(golden["answer"]) == golden["most"])
    sounds = tuple(Recording.of(clip(one).astype(np.float32) / 32768) for one in RECORDED.get(name, []))
    voice = Request("", Named(golden["speaker"]), sampling=GREEDY, max_frames=FRAMES)
    return TextRequest(golden["prompt"], **{"most": most, "sounds": sounds} | more), voice


def answers(loop: AnswerLoop, *requests: Asked) -> list[Got]:
    """All of them together."""
    numbers = [loop.submit(text, voice) for text, voice in requests]
    got = {number: Got() for number in numbers}
    while loop.busy:
        for news in loop.step():
            if isinstance(news, Failed):
                raise news.error
            mine = got[news.request]
            if isinstance(news, Token):
                mine.tokens += [] if news.id is None else [news.id]
                mine.stopped = mine.stopped or news.stopped or ""
            else:
                mine.chunks.append(news)
    return [got[number] for number in numbers]


def equals_official(name: str, got: Got, thinker: TextModel) -> None:
    golden = thinker_case(name)
    answer, theirs = golden.meta["answer"], golden.tensors
    assert got.tokens == answer[:-1]
    assert got.stopped == ("end" if answer[-1] in thinker.facts.stops else "limit")
    assert torch.equal(torch.from_numpy(got.clip.codes), theirs["frames"].long())
    assert len(got.clip.pcm) == golden.meta["samples"]
    kept = len(theirs["sound"])
    np.testing.assert_allclose(got.clip.pcm[:kept], theirs["sound"].numpy(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", [*WRITTEN, *RECORDED])
def test_text_codes_and_sound_are_the_official_ones(name: str, thinker: TextModel, talker: SpeechModel) -> None:
    equals_official(name, answers(loop_of(thinker, talker), asked(name))[0], thinker)


def test_a_cut_answer_is_spoken_to_its_last_token(thinker: TextModel, talker: SpeechModel) -> None:
    text, voice = asked("text_cut")
    assert thinker_case("text_cut").meta["most"] == 5
    got = answers(loop_of(thinker, talker), (replace(text, most=5), voice))[0]
    assert torch.equal(torch.from_numpy(got.clip.codes), thinker_case("text_cut_and_one").tensors["frames"].long())


@pytest.mark.parametrize("slots", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_batched_equals_single(slots: int, thinker: TextModel, talker: SpeechModel) -> None:
    """With text-only requests between them; more requests than slots."""
    names = [*WRITTEN, *RECORDED]
    silent = [(asked(name)[0], None) for name in ("text", "text_history")]
    got = answers(loop_of(thinker, talker, slots=slots), *map(asked, names), *silent)
    for name, one in zip(names, got, strict=False):
        equals_official(name, one, thinker)
    for name, one in zip(("text", "text_history"), got[len(names) :], strict=True):
        assert one.tokens == thinker_case(name).meta["answer"][:-1]
        assert not one.chunks


@pytest.mark.parametrize("turns", [3, 40])
def test_late_tokens_change_nothing(turns: int, thinker: TextModel, talker: SpeechModel) -> None:
    """The thinker may be slower than the voice: in all but every n-th turn, it makes no token."""
    loop, count = loop_of(thinker, talker), 0

    def ahead() -> bool:
        nonlocal count
        count += 1
        return count % turns != 0

    loop._ahead = ahead
    for name, one in zip(("text", "audio"), answers(loop, asked("text"), asked("audio")), strict=True):
        equals_official(name, one, thinker)


def test_early_tokens_change_nothing(thinker: TextModel, talker: SpeechModel) -> None:
    """All of them are known before the first frame."""
    loop = loop_of(thinker, talker)
    step, loop.speech.step = loop.speech.step, lambda: [] if loop.writes else step()
    for name, one in zip(("text", "audio"), answers(loop, asked("text"), asked("audio")), strict=True):
        equals_official(name, one, thinker)


def test_a_prompt_in_parts_equals_the_whole(thinker: TextModel, talker: SpeechModel) -> None:
    loop = loop_of(thinker, talker, run=7, idle_run=7)
    for name, one in zip(RECORDED, answers(loop, *map(asked, RECORDED)), strict=True):
        equals_official(name, one, thinker)


def test_a_cached_recording_is_read_again(thinker: TextModel, talker: SpeechModel) -> None:
    """What the talker reads of it is kept with the keys and values, also where those are copied to another slot."""
    loop = loop_of(thinker, talker)
    equals_official("audio_text", answers(loop, asked("audio_text"))[0], thinker)
    before = loop.rows_prefilled
    for one in answers(loop, asked("audio_text"), asked("audio_text")):
        equals_official("audio_text", one, thinker)
    assert loop.rows_prefilled == before


def test_earlier_sounds_of_the_user_are_read(thinker: TextModel, talker: SpeechModel) -> None:
    """Two recordings in two turns; the official library pads the shorter one, so its numbers differ."""
    golden = thinker_case("audio_history").meta
    sounds = tuple(Recording.of(clip(one).astype(np.float32) / 32768) for one in ("mid", "short"))
    request = TextRequest(golden["prompt"], most=5, sounds=sounds)
    loop = loop_of(thinker, talker)
    loop.submit(request, asked("audio")[1])
    while not loop._ready:
        loop.step()
    turns = loop._prompts.turns(loop._admitted[0])
    pads = [at for at, id in enumerate(turns.ids) if id == thinker.facts.sound_pad]
    assert turns.places == pads
    assert len(pads) == sum(sound.tokens for sound in sounds)
    kept = thinker_case("audio_history").tensors["rows"]
    assert len(turns.ids) + 9 == len(kept)
    first = sounds[0].tokens  # before anything that was padded
    assert (turns.rows[:first] - kept[pads[:first]]).abs().max() < 1e-5 * kept.abs().max()


def test_an_empty_answer_has_no_sound(thinker: TextModel, talker: SpeechModel) -> None:
    text, voice = asked("text")
    loop = loop_of(thinker, talker)
    number = loop.submit(replace(text, prompt=[*text.prompt, *thinker_case("text").meta["answer"][:-1]]), voice)
    news = to_the_end(loop)
    assert [one.stopped for one in news if isinstance(one, Token)] == ["end"]
    assert [(one.request, one.last, one.pcm.size) for one in news if not isinstance(one, Token)] == [(number, True, 0)]
    assert loop.speech.snapshot().at_rest
    assert answers(loop, asked("text"))[0].tokens == thinker_case("text").meta["answer"][:-1]


def test_speech_ends_before_a_control_token(thinker: TextModel, talker: SpeechModel, monkeypatch) -> None:
    answer = thinker_case("text").meta["answer"]
    monkeypatch.setattr(thinker.chat, "is_control", lambda token: token == answer[5])
    got = answers(loop_of(thinker, talker), asked("text"))[0]
    assert got.tokens == answer[:-1]
    cut = answers(loop_of(thinker, talker), (replace(asked("text")[0], most=5), asked("text")[1]))[0]
    assert got.clip.codes.tolist() == cut.clip.codes.tolist()


@pytest.mark.parametrize("turns", [0, 4, 16])
def test_cancelling_frees_both_slots(turns: int, thinker: TextModel, talker: SpeechModel) -> None:
    loop = loop_of(thinker, talker, slots=1)
    number = loop.submit(*asked("text"))
    for _ in range(turns):
        loop.step()
    loop.cancel(number)
    second = loop.submit(*asked("text_history"))
    news = to_the_end(loop)
    assert not any(one.request == number for one in news if not isinstance(one, Token))
    chunks = [one for one in news if not isinstance(one, Token) and one.request == second]
    codes = np.concatenate([one.codes for one in chunks])
    assert torch.equal(torch.from_numpy(codes), thinker_case("text_history").tensors["frames"].long())
    assert loop.speech.snapshot().free == (0,)


def test_first_tokens_do_not_wait_for_a_step_of_all(thinker: TextModel, talker: SpeechModel) -> None:
    loop = loop_of(thinker, talker)
    text, voice = asked("text")
    long = replace(text, most=60, ignore_end=True)
    for _ in range(2):
        loop.submit(long, replace(voice, max_frames=40))
    while not all(record.launched for record in loop._admitted) or len(loop._ready) < 2:
        loop.step()
    number = loop.submit(*asked("text_history"))
    sizes = []
    launch = loop._steps.launch
    loop._steps.launch = lambda slots, *given: (sizes.append(len(slots)), launch(slots, *given))[1]
    while not any(isinstance(one, Token) and one.request == number and one.id is not None for one in loop.step()):
        pass
    assert sizes[-1] == 1
    assert sizes[0] == 2


def test_tokens_give_way_to_frames_when_every_voice_is_ahead(thinker: TextModel, talker: SpeechModel) -> None:
    loop = loop_of(thinker, talker)
    text, voice = asked("text")
    number = loop.submit(replace(text, most=60, ignore_end=True), replace(voice, max_frames=40))
    launched = loop.speech._launch_frame
    loop.speech._launch_frame = lambda: False  # no frame can be made
    loop.speech._collect_sound = lambda wait, collect=loop.speech._collect_sound: collect(False)
    for _ in range(40):
        loop.step()
    assert 8 <= loop.speech.unread(number) <= 10  # two steps are in flight
    loop.speech._launch_frame = launched
    assert sum(not isinstance(one, Token) for one in to_the_end(loop)) > 5


def test_captured_equals_eager(thinker: TextModel) -> None:
    """From fixed addresses, padded, over streams that run late."""
    names, device = ("text", "audio"), RecordingDevice(late=True, seed=1)
    models = load_thinker(FOLDER, device, EngineSettings(), True, True), load_model(FOLDER, device)
    loop, requests = loop_of(*models, device, slots=2), [asked(name) for name in names]
    with device.count_syncs() as waits:
        got = answers(loop, *requests)
        assert waits() == 0
    for name, one in zip(names, got, strict=True):
        equals_official(name, one, thinker)
    assert device.replays > 20


def test_a_voice_that_fails_ends_its_answer_only(thinker: TextModel, talker: SpeechModel) -> None:
    loop = loop_of(thinker, talker)
    text, voice = asked("text")
    bad = loop.submit(text, replace(voice, voice=Named("nobody")))
    good = loop.submit(*asked("text_history"))
    news = to_the_end(loop)
    errors = [one for one in news if isinstance(one, Failed)]
    assert [one.request for one in errors] == [bad]
    assert "nobody" in errors[0].error.message
    assert [one.stopped for one in news if isinstance(one, Token) and one.request == bad][-1] == "cancelled"
    made = [one for one in news if isinstance(one, Chunk) and one.request == good]
    same(Clip.join(made), answers(loop, asked("text_history"))[0].clip)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@without_tf32()
def test_captured_equals_eager_on_a_card(dtype: str) -> None:
    from omnitts_cli.devices.cuda import CUDADevice

    device, settings = CUDADevice(0), EngineSettings(dtype=dtype)
    thinker = load_thinker(FOLDER, device, settings, True, True)
    talker = load_model(FOLDER, device, settings=settings)
    names = ("text", "audio", "text_history", "audio_text")
    requests = [asked(name) for name in names]
    loop = loop_of(thinker, talker, device)
    single = [answers(loop, request)[0] for request in requests]
    with device.count_syncs() as waits:
        together = answers(loop, *requests)
        assert not waits()
    eager = loop_of(thinker, talker, device, capture=False)
    eager.speech = Engine(talker, device, replace(eager.speech.plan, capture=False))
    for name, request, one, other in zip(names, requests, single, together, strict=True):
        third = answers(eager, request)[0]
        assert one.tokens == third.tokens  # of the same shapes
        if dtype == "fp32":  # in bfloat16, batches of other sizes round differently
            assert one.tokens == other.tokens == thinker_case(name).meta["answer"][:-1]
            for got in (one, other, third):
                assert torch.equal(torch.from_numpy(got.clip.codes), thinker_case(name).tensors["frames"].long())
                # the codec multiplies in float16, in chunks whose sizes depend on time
                np.testing.assert_allclose(got.clip.pcm, one.clip.pcm, rtol=0, atol=4e-3)


@pytest.mark.parametrize("name", ["text", "audio"])
def test_the_talker_reads_the_question_before_the_answer_begins(
    name: str, thinker: TextModel, talker: SpeechModel
) -> None:
    """All rows of its prompt but the last are in its cache, or on their way, when the first token becomes known."""
    loop, fed, runs = loop_of(thinker, talker), [], []
    engine = loop.speech
    feed, launch = engine.feed, engine._admission._prefill.launch
    engine.feed = lambda name, ids: (fed.extend(ids), feed(name, ids))
    engine._admission._prefill.launch = lambda new: (runs.extend((one, len(fed)) for one in new), launch(new))
    equals_official(name, answers(loop, asked(name))[0], thinker)
    assert sum(len(run.rows) for run, _ in runs) == len(thinker_case(name).tensors["rows"]) - 1
    assert {known for _, known in runs} == {0}


def test_an_engine_sleeps_until_an_answer_begins(talker: SpeechModel) -> None:
    """The tokens of the answer, or its end without one, may come whenever they like."""
    golden = thinker_case("text").meta
    turns = Turns(golden["prompt"][9:])
    request = asked("text")[1]

    def spoken(early: bool, ids: list[int]) -> list[list[int]]:
        engine = loop_engine(talker)
        name = engine.submit(replace(request, max_frames=5), live=True, turns=turns)
        if not early:
            while not engine.sleeps:
                engine.step()
            assert engine.snapshot().requests[name].state is State.OPENING
        if ids:
            engine.feed(name, ids)
        engine.finish(name)
        return np.concatenate([chunk.codes for chunk in to_the_end(engine)]).tolist()

    for ids in ([], [7], [7, 8, 9]):
        assert spoken(True, ids) == spoken(False, ids)
    assert spoken(False, [7]) != spoken(False, [8])
