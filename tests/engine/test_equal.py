"""The same request gives the same speech, whatever the other requests, the chunks and the time of arrival."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from company import spoken_among
from engine_kit import Result, as_alone, engine_of, requests_of, same, solo, speak

from omnitts_cli.audio.chunk import Clip
from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.engine.slots import State
from omnitts_cli.models.roles import SpeechModel
from omnitts_cli.request import Failed
from omnitts_cli.voices import Cloned, Named


@pytest.fixture(scope="module")
def said_plainly(model: SpeechModel) -> dict[str, Result]:
    return speak(requests_of(14), engine=engine_of(5, of=model))


@pytest.mark.parametrize("operations", ["on_cpu", "in_c"])
def test_the_operations_of_a_cpu_say_the_same(
    operations: str, request: pytest.FixtureRequest, said_plainly: dict[str, Result]
) -> None:
    """Slot by slot instead of op by op, a stack at once: alone, side by side, and cut in other places."""
    requests, on_cpu, plain = requests_of(14), request.getfixturevalue(operations), said_plainly
    for slots, chunks, frames in ((1, (1, 2, 4, 8, 16), None), (5, (1, 3, 5), None), (5, (1, 2, 4), 6)):
        fast = speak(requests, engine=engine_of(slots, of=on_cpu, chunks=chunks, sound_frames=frames))
        for name in plain:
            same(plain[name], fast[name])


def test_threads_for_the_codec_change_nothing(in_c: SpeechModel) -> None:
    """Neither codes nor a bit of the sound, with two engines at once on threads of their own."""
    requests = requests_of(14)
    alone = speak(requests, engine=engine_of(3, of=in_c))

    def spoken(slots: int) -> dict[str, Clip | Failed]:
        return speak(requests, engine=engine_of(slots, device=CPUDevice(1, cores=3), of=in_c, chunks=(1, 3, 5)))

    with ThreadPoolExecutor(2) as threads:
        for result in threads.map(spoken, (5, 2)):
            for name, clip in alone.items():
                same(clip, result[name])
                assert not isinstance(clip, Clip) or np.array_equal(clip.pcm, result[name].pcm)


def test_exact_on_a_cpu(in_c: SpeechModel) -> None:
    """Codes and samples of every request, alone and in random batches, in chunks of other sizes."""
    requests = [replace(request, id=str(index)) for index, request in enumerate(requests_of(10))]
    alone = spoken_among(engine_of(1, of=in_c, fixed_chunks=True), requests, 1, 0)
    for slots, chunks in ((2, (1, 3, 5)), (7, (1, 25))):
        for fixed in (True, False):
            engine = engine_of(slots, of=in_c, fixed_chunks=fixed, chunks=chunks, first_chunk=chunks[-1])
            assert spoken_among(engine, requests, slots, slots) == alone


def test_requests_differ() -> None:
    """The other tests prove something only if voice, text, sampling settings and seed all matter."""
    first = requests_of(1, max_frames=20, ignore_end=True, text_mode="streamed")[0]
    others = [
        replace(first, id="seed", seed=7),
        replace(first, id="text", text="hullo"),
        replace(first, id="voice", voice=Named("ben")),
        replace(first, id="taste", sampling=replace(first.sampling, temperature=0.5)),
        replace(first, id="mode", text_mode="whole"),
    ]
    codes = [clip.codes.tobytes() for clip in speak([first, *others]).values()]
    assert len(set(codes)) == len(codes)


def test_failures_change_no_other_request() -> None:
    requests = requests_of(6)
    bad = [
        replace(requests[0], id="nobody", voice=Named("nobody")),
        replace(requests[0], id="empty", text="  "),
        replace(requests[0], id="long", text="x" * 3000, text_mode="whole"),
        replace(requests[0], id="none", max_frames=0),
        replace(requests[0], id="seed", seed=2**64),
    ]
    mixed = [one for pair in zip(requests, [*bad, None], strict=True) for one in pair if one is not None]
    over = speak(mixed, 2)
    as_alone(requests, over)
    assert all(isinstance(over[request.id], Failed) for request in bad)


@pytest.mark.parametrize("first_chunk", [1, 2, 5])
@pytest.mark.parametrize("chunks", [(1,), (1, 2), (1, 3, 5), (1, 2, 4, 8, 16), (1, 16)])
def test_streamed_is_whole(model: SpeechModel, chunks: tuple[int, ...], first_chunk: int) -> None:
    requests = requests_of(5)
    as_alone(requests, speak(requests, 3, chunks=chunks, first_chunk=first_chunk))


def test_the_sound_is_the_codec_over_all_codes_after_a_reference_of_any_length(model: SpeechModel) -> None:
    """Exact numbers of samples; the reference is decoded first and dropped."""
    rng = np.random.default_rng(3)
    requests = []
    for frames in (0, 1, 2, 15, 16, 17, 33):
        codes = rng.integers(0, model.facts.codes, (frames, model.facts.groups))
        voice = Cloned(rng.standard_normal(model.facts.hidden).astype(np.float32), *[codes, "said"][: 2 * (frames > 0)])
        requests += requests_of(1, voice=voice, id=f"n{frames}", max_frames=9, ignore_end=True)
    over = speak(requests, 3)
    for request in requests:
        clip = over[request.id]
        codes = clip.codes if request.voice.codes is None else np.concatenate([request.voice.codes, clip.codes])
        with torch.no_grad():
            whole = model.codec(torch.from_numpy(codes)[None])[0].numpy()
        assert len(clip.codes) == 9 and clip.pcm.shape == (9 * model.facts.samples_per_frame,)
        np.testing.assert_allclose(clip.pcm, whole[-len(clip.pcm) :], rtol=0, atol=2e-5)


def test_long_prompts_in_several_runs() -> None:
    requests = requests_of(7)
    at_once = speak(requests, 3, prefill_rows=(128,))
    for sizes in ((1,), (4,), (3, 8)):
        in_runs = speak(requests, 3, prefill_rows=sizes)
        for name in at_once:
            same(at_once[name], in_runs[name])


def test_a_prefix_from_the_store_is_as_good_as_new() -> None:
    for kept in (64, 1, 0):
        engine = engine_of(2, prefixes=kept)
        again = [replace(request, id=f"again{request.id}") for request in requests_of(4)]
        over = speak([*requests_of(4), *again], engine=engine)
        assert engine.snapshot().prefixes <= kept
        as_alone([*requests_of(4), *again], over)


def test_a_prefix_is_not_kept_from_the_slot_of_another() -> None:
    """The first request leaves before its first frame."""
    engine, (gone, other) = engine_of(1), requests_of(2)
    engine.submit(replace(gone, id="gone"))
    engine.pause("gone")
    while engine.snapshot().by_state(State.WAITING):
        engine.step()
    engine.cancel("gone")
    for request in (other, gone):
        same(solo(request), engine.clip(request))


def test_a_prefix_is_copied_instead_of_computed() -> None:
    engine, rows = engine_of(1), []
    prefill = engine.model.talker.prefill
    engine._context.model = replace(engine.model, talker=copy.copy(engine.model.talker))
    engine._context.model.talker.prefill = lambda given, *more: rows.append(given.shape[1]) or prefill(given, *more)
    for name in ("one", "two"):
        engine.clip(requests_of(1, id=name)[0])
    assert 0 < rows[1] < rows[0]


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_reading_reports_late_changes_nothing(ahead: int) -> None:
    as_alone(requests_of(6), speak(requests_of(6), 2, ahead=ahead))
