"""When frames go to the codec: the first at once, later ones as the lead allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnitts_cli.engine.codec_jobs import LEAST_LEAD_S, Due, due, grows, largest, together
from omnitts_cli.engine.slots import Record, State
from omnitts_cli.request import Request

SIZES = (1, 2, 4, 8, 16)
FRAME_S = 0.08


def speaking(**facts: object) -> Record:
    """A request in the middle of its speech unless said otherwise."""
    usual = {"state": State.RUNNING, "limit": 100, "launched": 20, "closed": True}
    return Record("x", Request("hi"), **usual | facts)


def frames(record: Record, available: int, lead_s: float = 0.0, first: int = 1) -> int | None:
    one = due(record, available, lead_s, SIZES, first, FRAME_S)
    return None if one is None else one.frames


def test_the_first_chunk_goes_as_soon_as_it_is_there() -> None:
    assert frames(speaking(), 0) is None
    assert frames(speaking(), 1) == 1
    assert frames(speaking(), 5) == 1
    assert frames(speaking(), 1, first=2) is None
    assert frames(speaking(), 2, first=2) == 2


@pytest.mark.parametrize("facts", [{"state": State.FINISHING}, {"paused": True}, {"closed": False, "written": 3}])
def test_a_first_chunk_that_will_not_grow_goes_as_it_is(facts: dict[str, object]) -> None:
    assert frames(speaking(**facts), 1, first=4) == 1


def test_work_in_bulk_goes_in_chunks_of_at_least_some_frames() -> None:
    def chunk(record: Record, pending: int) -> int | None:
        one = due(record, record.decoding + pending, 0.0, SIZES, 1, FRAME_S, least=8)
        return None if one is None else one.frames

    for one in (speaking(), speaking(decoding=4, first_sound=1.0)):
        assert [chunk(one, pending) for pending in (0, 1, 7, 8, 15)] == [None, None, None, 8, 8]
    for facts in ({"state": State.FINISHING}, {"paused": True}):
        assert [chunk(speaking(**facts), pending) for pending in (1, 3)] == [1, 2]


def test_a_reference_goes_first_and_alone() -> None:
    assert frames(speaking(reference=21), 23) == 16
    assert frames(speaking(reference=21, decoding=16), 23) == 4
    assert frames(speaking(reference=21, decoding=20), 23) == 1
    one = due(speaking(reference=21), 23, 0.0, SIZES, 1, FRAME_S)
    assert one is not None and one.urgency < 0
    assert frames(speaking(reference=21, decoding=21), 23) == 1  # now the first chunk that is played


def test_chunks_grow_with_the_lead() -> None:
    one = speaking(decoding=4, first_sound=1.0)
    assert [frames(one, 40, lead) for lead in (0.26, 0.4, 0.7, 1.5, 9.0)] == [1, 2, 4, 8, 16]
    assert frames(one, 7, 9.0) is None


def test_a_request_about_to_underrun_gets_all_its_frames() -> None:
    assert frames(speaking(decoding=4, first_sound=1.0), 11, LEAST_LEAD_S / 2) == 4
    busy = speaking(decoding=4, first_sound=1.0, jobs=1)
    assert frames(busy, 11, LEAST_LEAD_S / 2) == 1


def test_the_end_comes_after_those_about_to_run_dry_and_before_all_others() -> None:
    """Whatever the lead is."""
    ending = speaking(decoding=4, first_sound=1.0, state=State.FINISHING)
    assert frames(ending, 7, 60.0) == 2
    dues = [
        due(one, 40, lead, SIZES, 1, FRAME_S)
        for one, lead in (
            (speaking(decoding=4, first_sound=1.0), 5.0),
            (ending, 60.0),
            (speaking(decoding=4, first_sound=1.0), 0.1),
        )
    ]
    assert [one.urgency for one in dues if one is not None] == [5.0, LEAST_LEAD_S, 0.1]


def test_chunks_grow_sooner_where_frames_come_faster() -> None:
    one = speaking(decoding=4, first_sound=1.0)
    chunks = [due(one, 40, lead, SIZES, 1, 0.01) for lead in (0.2, 0.26, 0.4)]
    assert [chunk.frames for chunk in chunks if chunk is not None] == [16, 8, 16]  # the first takes all it can get


def test_a_chunk_may_wait_for_half_of_its_turns() -> None:
    def patience(pending: int, lead_s: float = 60.0, **facts: object) -> int:
        one = due(speaking(decoding=4, first_sound=1.0, **facts), 4 + pending, lead_s, SIZES, 1, FRAME_S)
        assert one is not None
        return one.patience

    assert [patience(pending) for pending in (16, 20, 24, 30)] == [8, 4, 0, -6]
    assert patience(4, lead_s=4.1 * 2 * FRAME_S) == 2
    assert [patience(16, lead_s=LEAST_LEAD_S / 2), patience(16, state=State.FINISHING), patience(16, paused=True)] == [
        0
    ] * 3


def test_a_batch_waits_only_for_those_who_will_be_there_in_time() -> None:
    batch = [Due(speaking(), 16, 1.0, patience=patience) for patience in (8, 5)]
    assert grows(batch, {11}) and grows(batch, {2, 15})
    assert not grows(batch, {10}) and not grows(batch, {16, 40}) and not grows(batch, ())
    assert not grows([Due(speaking(), 16, 1.0)], {15})


def test_the_end_is_one_step_where_batches_are_padded() -> None:
    ending = speaking(decoding=4, first_sound=1.0, state=State.FINISHING)

    def end(pending: int, room: int = 99, of: Record = ending) -> tuple[int, int, int]:
        one = due(of, of.decoding + pending, 0.1, SIZES, 2, FRAME_S, room=room)
        assert one is not None
        return one.frames, one.padding, one.size

    assert [end(pending) for pending in (1, 3, 13, 16)] == [(1, 0, 1), (3, 1, 4), (13, 3, 16), (16, 0, 16)]
    assert end(17) == (16, 0, 16)  # the last one follows
    assert end(13, room=15) == (8, 0, 8)  # a step reads no further than the slot
    assert end(13, of=speaking(decoding=4, first_sound=1.0)) == (8, 0, 8)  # more frames may come
    assert end(3, of=speaking(state=State.FINISHING)) == (2, 0, 2)  # the first sound is not made later


@given(
    made=st.integers(0, 40),
    reference=st.integers(0, 20),
    behind=st.integers(0, 40),
    lead_s=st.floats(-5, 60),
    first=st.integers(1, 8),
    begun=st.booleans(),
    over=st.booleans(),
    sizes=st.sampled_from([(1,), (1, 2), (1, 3, 5), SIZES]),
)
def test_never_more_than_there_is_and_never_nothing(
    made: int, reference: int, behind: int, lead_s: float, first: int, begun: bool, over: bool, sizes: tuple[int, ...]
) -> None:
    available = reference + made
    decoding = min(behind, available)
    record = speaking(
        reference=reference,
        decoding=decoding,
        first_sound=1.0 if begun and decoding > reference else None,
        state=State.FINISHING if over else State.RUNNING,
    )
    one = due(record, available, lead_s, sizes, first, FRAME_S)
    pending = available - decoding
    if one is not None:
        assert one.frames in sizes and one.frames <= pending
        assert decoding >= reference or decoding + one.frames <= reference
    elif over:
        assert pending <= 0
    else:
        assert pending < max(first, max(sizes))


def test_together_groups_equals_and_puts_the_most_urgent_first() -> None:
    dues = [Due(speaking(), frames, urgency) for frames, urgency in ((4, 2.0), (1, 0.5), (4, 0.1), (1, 0.0), (4, 3.0))]
    batches = together(dues, most_rows=2)
    assert [[d.urgency for d in batch] for batch in batches] == [[0.0, 0.5], [0.1, 2.0], [3.0]]
    assert all(len({d.frames for d in batch}) == 1 for batch in batches)
    assert together([], 4) == []


def test_together_counts_the_frames_of_all() -> None:
    dues = [Due(speaking(), frames, float(i)) for i, frames in enumerate([4] * 7 + [1] * 3 + [16] * 2)]
    batches = together(dues, most_rows=8, most_frames=12)
    assert [(batch[0].frames, len(batch)) for batch in batches] == [(4, 3), (4, 3), (4, 1), (1, 3), (16, 1), (16, 1)]
    assert [due for batch in batches for due in batch] == dues
    assert [len(batch) for batch in together(dues, most_rows=2, most_frames=12)[:4]] == [2, 2, 2, 1]


def test_largest() -> None:
    assert [largest(SIZES, most) for most in (0, 1, 3, 16, 99)] == [0, 1, 2, 16, 16]
