"""Campaign: levels in turn, warm-up left out, variants that alternate."""

from itertools import islice
from typing import Any

import pytest
from bench_kit import Clock, fake_engine, script, works

from omnitts_cli.bench.campaign import Shape, campaign, turns
from omnitts_cli.bench.load import Extent
from omnitts_cli.bench.local import EngineTarget
from omnitts_cli.bench.stats import LoadLevel
from omnitts_cli.errors import ModelError


def levels_of(engine: Any, **shape: Any) -> list[LoadLevel]:
    with EngineTarget(engine) as target:
        return list(campaign({"": target}, works, Shape(**shape)))


def test_every_level_with_its_requests_and_without_its_warm_up() -> None:
    engine = fake_engine(script((0.01, 2)))
    levels = levels_of(engine, levels=(1, 3), requests=5, warmup=2)
    assert [(level.concurrency, level.requests, level.variant) for level in levels] == [(1, 5, None), (3, 5, None)]
    assert len(engine.deliveries) == 2 * (2 + 5)
    assert levels[0].host_syncs_per_frame == pytest.approx(7 / 10)
    assert levels[0].peak_memory_bytes == 123 << 20


def test_the_warm_up_is_a_round_unless_set() -> None:
    engine = fake_engine(script((0.01, 2)))
    levels = levels_of(engine, levels=(1, 5), requests=5)
    assert [level.requests for level in levels] == [5, 5]
    assert len(engine.deliveries) == (2 + 5) + (5 + 5)
    assert Shape(rate=10.0).warm_ups(None) == 2
    assert Shape(warmup=0).warm_ups(64) == 0


def test_a_slow_first_request_is_not_counted(clock: Clock) -> None:
    engine = fake_engine(script((0.5, 2)), *[script((0.02, 2))] * 9)
    (level,) = levels_of(engine, levels=(1,), requests=6, warmup=1)
    assert level.e2el_ms["p99"] < 300


def test_variants_take_turns_on_the_same_works(clock: Clock) -> None:
    engines = {"": fake_engine(script((0.02, 4))), "eager": fake_engine(script((0.06, 4)))}
    order = []
    kept = []
    with EngineTarget(engines[""]) as main, EngineTarget(engines["eager"]) as eager:
        levels = list(
            campaign(
                {"": main, "eager": eager},
                works,
                Shape(levels=(2,), requests=8, warmup=0),
                lambda result: order.append(result.meter.submitted),
                lambda level, results: kept.append((level.variant, len(results))),
            )
        )
    assert [(level.variant, level.requests) for level in levels] == [(None, 8), ("eager", 8)]
    assert kept == [(None, 8), ("eager", 8)]
    assert 1.5 < levels[1].e2el_ms["median"] / levels[0].e2el_ms["median"] < 4
    spans = {name: [delivery.submitted for delivery in engine.deliveries] for name, engine in engines.items()}
    assert max(spans[""]) > min(spans["eager"]), "one after the other is not in turn"
    assert 0.02 * 4 <= levels[0].duration_s < 0.06 * 4  # its own turns only


def test_a_level_can_be_a_time(clock: Clock) -> None:
    engine = fake_engine(script((0.02, 2)))
    (level,) = levels_of(engine, levels=(2,), duration_s=0.4)
    assert level.requests > 15
    assert 0.4 <= level.duration_s < 0.7


def test_nothing_is_measured_of_a_target_that_only_fails() -> None:
    engine = fake_engine(script(failure="no such voice"))
    with pytest.raises(ModelError) as caught:
        levels_of(engine)
    assert caught.value.cause == "no such voice"
    assert len(engine.deliveries) == 2


@pytest.mark.parametrize(("extent", "level", "shares"), [
    (Extent(16), 4, [4, 4, 4, 4]), (Extent(18), 4, [5, 5, 4, 4]), (Extent(16), 10, [16]), (Extent(3), 1, [1, 1, 1]),
])  # fmt: skip
def test_turns_keep_the_sum_and_full_levels(extent: Extent, level: int, shares: list[int]) -> None:
    assert [turn.requests for turn in turns(extent, level, 2)] == shares
    assert turns(extent, level, 1) == [extent]


@pytest.mark.parametrize(
    ("lasts_s", "shares"), [(8.0, [2.0] * 4), (3.0, [1.0] * 3), (2.0, [1.0] * 2), (0.5, [0.25] * 2)]
)
def test_turns_of_a_time(lasts_s: float, shares: list[float]) -> None:
    assert [turn.duration_s for turn in turns(Extent(duration_s=lasts_s), 4, 2)] == shares
    assert turns(Extent(duration_s=lasts_s), 4, 1) == [Extent(duration_s=lasts_s)]


def test_how_much_is_planned() -> None:
    assert Shape(levels=(1, 4, 10)).planned() == 8 + 16 + 40
    assert Shape(rate=3).planned() == 30
    assert Shape(requests=5, levels=(1, 2)).planned() == 10
    assert Shape(duration_s=5).planned() is None
    assert len(list(islice(works(), 3))) == 3
