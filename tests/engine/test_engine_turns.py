"""The order of work at 64 streams, in virtual time on a modelled card: the same in every run, on any machine."""

import pytest
from virtual_card import Card, Clock, Found, Prefill, Stream, arrivals, closed, server

from omnitts_cli.engine import admission


def one_by_one(**more: float) -> Found:
    return closed(64, 1.5, http=False, spread=True, varied=0.5, **more)


def test_two_busy_streams_share_the_card() -> None:
    card = Card(Clock(), together=1.25)
    one, other = Stream(card), Stream(card)
    short, long = one.launch(10), other.launch(30)
    after = one.launch(5)
    card.finish(after)
    assert short.ended == pytest.approx(0.016)  # 10 ms at 0.625 of the card
    assert after.ended == pytest.approx(0.024) and long.ended is None
    card.finish(long)
    assert card.clock.now == pytest.approx(0.024 + 0.015)  # alone for the rest


def test_an_event_holds_a_stream_back() -> None:
    card = Card(Clock(), together=1.0)
    one, other = Stream(card), Stream(card)
    one.launch(10)
    other.wait_event(one.record_event())
    fetch = other.fetch()
    work = other.launch(1)
    assert fetch.done() and work.ended is None
    card.finish(work)
    assert card.clock.now == pytest.approx(0.011)


def test_the_same_run_twice_is_the_same() -> None:
    first, second = (closed(8, 0.3, http=True, spread=True, varied=0.5) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("streams", "slots", "measured"), [(1, 64, 48.3), (64, 64, 1200), (128, 256, 1743)])
def test_the_model_is_about_as_fast_as_an_h200(streams: int, slots: int, measured: float) -> None:
    found = closed(streams, 4.0, http=False, spread=False, frames=100, slots=slots)  # many rounds
    assert found.audio_s_per_s == pytest.approx(measured, rel=0.06)


def test_with_256_slots_larger_steps_give_more_sound() -> None:
    """Half of all enter in one turn and 64 are decoded in one call, against 32 of both; 2,195 and 2,101 on an H200."""

    def sound(**plan: int) -> float:
        return closed(256, 2.0, http=False, spread=False, frames=100, slots=256, **plan).audio_s_per_s

    assert sound() > 1.03 * sound(admissions=32, burst=64)


@pytest.mark.parametrize(
    ("users", "frames", "differ", "share"), [(64, 200, 0.0, 0.86), (16, 100, 0.0, 0.85), (128, 50, 0.4, 0.79)]
)
def test_users_who_come_and_go_get_nearly_as_much(users: int, frames: int, differ: float, share: float) -> None:
    """Beside users who begin and end together: 0.79, 0.82 and 0.75 if no request waits for another's end."""

    def sound(spread: bool) -> float:
        varied = differ if spread else 0.0
        return closed(users, 2.5, http=False, spread=spread, varied=varied, frames=frames, slots=users).audio_s_per_s

    assert sound(True) > share * sound(False)


def test_a_request_that_has_its_frames_frees_its_slot_soon() -> None:
    """Its slot is taken until the codec has decoded its end: of 64 slots 14 on average, in several small steps."""
    assert one_by_one().waiting < 7


def test_a_listener_always_has_sound() -> None:
    """Larger chunks come later; a player that starts with the first packet still never runs dry."""
    assert one_by_one().least_lead_ms > 30
    assert arrivals(20, 3.0).least_lead_ms > 30


def test_first_sounds_of_a_burst_come_sooner_together() -> None:
    """64 at once while no request runs: the last ones wait for fewer frames of the first ones."""

    def last(**plan: int) -> float:
        with server(**plan) as one:
            for _ in range(64):
                one.ask(20, lambda: None, http=False)
            one.run()
            assert len(one.first) == 64
            return max(one.first)

    assert last() < 0.95 * last(burst=1)


def test_first_sounds_do_not_wait_for_the_second_frame_of_newcomers() -> None:
    """Each of 64 streams sends its next request at once: 12.5 ms, or 14 if the second frame runs beside the codec."""
    with server() as one:
        left = 3 * 64

        def again() -> None:
            nonlocal left
            if left > 0:
                left -= 1
                one.ask(100, again, http=False)

        for _ in range(64):
            again()
        one.run()
        assert len(one.first) == 3 * 64
        assert sorted(one.first)[96] < 0.0132


def test_prompts_beside_running_requests_share_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """At an idle engine, groups of 16; beside others, all that may enter at once."""
    groups: list[int] = []
    launch = Prefill.launch
    monkeypatch.setattr(Prefill, "launch", lambda steps, runs: (groups.append(len(runs)), launch(steps, runs))[1])
    with server() as one:
        for count in (40, 24):
            for _ in range(count):
                one.ask(50, lambda: None, http=False)
            one.run(one.clock.now + 0.02)
        assert groups == [16, 16, 8, 24]
        one.run()


@pytest.mark.parametrize(("full", "shared"), [(24, [6]), (1000, [1, 1, 3, 1])])
def test_newcomers_who_follow_others_share_a_prefill(
    full: int, shared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six requests end together, and those that follow come 2 ms apart, as a server reads them."""
    groups: list[int] = []
    launch = Prefill.launch
    monkeypatch.setattr(Prefill, "launch", lambda steps, runs: (groups.append(len(runs)), launch(steps, runs))[1])
    monkeypatch.setattr(admission, "FULL", full)
    with server() as one:
        delays = iter(range(6))

        def follow() -> None:
            one.at(one.clock.now + 0.002 * next(delays), lambda: one.ask(20, lambda: None, http=False))

        for number in range(36):
            one.ask(12 if number < 6 else 60, follow if number < 6 else lambda: None, http=False)
        one.run()
    assert groups[3:] == shared


def test_chunks_are_large_where_frames_come_fast() -> None:
    """Eight a request once the time of a frame is known; 14 if a frame is taken to last as long as it plays."""
    with server() as one:
        for _ in range(2):
            one.sent.clear()
            for _ in range(64):
                one.ask(50, lambda: None, http=False)
            one.run()
        assert sum(count for _, count in one.sent) == 64 * 50
        assert len(one.sent) < 9 * 64
