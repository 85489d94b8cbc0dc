"""A run learns, stops, keeps the best, and continues after a kill with the losses of an unbroken one."""

import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import warm
from tune_kit import PLAN
from tune_kit import trainer as made

from omnitts_cli.errors import InputError, Notice, OutputError
from omnitts_cli.tuning import trainer
from omnitts_cli.tuning.trainer import Course, refuse_few


def quiet(course: Course, first: float, rest: float) -> None:
    """Nobody watches."""


def told(notice: Notice) -> None:
    """Nobody listens."""


def test_it_learns_and_ends(tmp_path: Path) -> None:
    one = made()
    course = one.run(tmp_path, told, quiet)
    assert course.ended == "epochs" and course.epoch == 4 and course.step > 4
    assert course.best < course.first - 0.05 and course.best == pytest.approx(one.measure().loss)
    adapter, vectors = one.result()
    assert adapter is not None
    assert any(np.abs(pair.b).max() > 0 for pair in adapter.pairs.values())
    assert not np.array_equal(vectors[""], one.given[0])
    assert (tmp_path / "curves.jsonl").read_text().count('"held"') == 5


def test_a_run_that_was_killed_continues_as_if_it_had_not_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made().run(tmp_path / "whole", told, quiet)
    monkeypatch.setattr(trainer, "SAVE_EVERY_S", 0.0)
    chance, kills = np.random.default_rng(5), 0
    while kills < 20:
        left = int(chance.integers(1, 3))

        def killed(course: Course, first: float, rest: float) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise KeyboardInterrupt

        try:
            broken = made().run(tmp_path / "broken", told, killed)
        except KeyboardInterrupt:
            kills += 1
        else:
            break
    assert kills > 3
    broken = made().run(tmp_path / "broken", told, quiet)
    assert (broken.best, broken.last, broken.step) == (whole.best, whole.last, whole.step)
    assert [one["held"] for one in broken.curve] == [one["held"] for one in whole.curve]


def test_a_run_that_was_killed_after_the_last_step_of_an_epoch_continues(tmp_path: Path) -> None:
    whole = made().run(tmp_path / "whole", told, quiet)
    one = made()

    def killed(course: Course, first: float, rest: float) -> None:
        if course.step == one._before(1):
            one.save(tmp_path / "broken")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.run(tmp_path / "broken", told, killed)
    broken = made().run(tmp_path / "broken", told, quiet)
    assert (broken.best, broken.last, broken.step) == (whole.best, whole.last, whole.step)


CHILD = """
import sys
sys.path[:0] = sys.argv[2:]
from dataclasses import replace
from pathlib import Path
import tune_kit
from omnitts_cli.tuning import trainer
trainer.SAVE_EVERY_S = 0.0
plan = replace(tune_kit.PLAN, epochs=20)
tune_kit.trainer(plan).run(Path(sys.argv[1]), print, lambda course, first, rest: print(course.step, flush=True))
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    plan = replace(PLAN, epochs=20)
    whole = made(plan).run(tmp_path / "whole", told, quiet)
    chance, kills = random.Random(7), 0
    command = [sys.executable, "-c", CHILD, str(tmp_path / "broken"), *sys.path]
    for _ in range(20):
        with warm.Process(command, stdout=subprocess.PIPE) as child:
            for _ in range(chance.randint(1, 3)):
                if not child.stdout.readline():
                    break
            time.sleep(chance.uniform(0, 0.05))
            kills += child.poll() is None
            child.kill()
    broken = made(plan).run(tmp_path / "broken", told, quiet)
    assert kills == 20
    assert (broken.best, broken.last, broken.step) == (whole.best, whole.last, whole.step)
    assert [one["held"] for one in broken.curve] == [one["held"] for one in whole.curve]


def test_a_run_that_ended_by_its_minutes_continues(tmp_path: Path) -> None:
    ended = made(replace(PLAN, minutes=0.0)).run(tmp_path, told, quiet)
    assert ended.ended == "minutes"
    assert made().run(tmp_path, told, quiet).ended == "epochs"


def test_another_plan_begins_anew(tmp_path: Path) -> None:
    made().run(tmp_path, told, quiet)
    other = made(replace(PLAN, seed=4))
    assert other.resume(tmp_path).step == 0
    assert made().resume(tmp_path).ended == "epochs"


def test_it_stops_without_a_gain_and_keeps_the_best(tmp_path: Path) -> None:
    one = made(replace(PLAN, gain=100.0, patience=2))
    course = one.run(tmp_path, told, quiet)
    assert course.ended == "no gain" and course.epoch == 2 and course.best == course.first
    adapter, vectors = one.result()
    assert adapter is not None
    assert all(np.abs(pair.b).max() == 0 for pair in adapter.pairs.values()) and np.array_equal(
        vectors[""], one.given[0]
    )


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    one, notices = made(), list[Notice]()

    def poison(course: Course, first: float, rest: float) -> None:
        if course.step == 2:
            with torch.no_grad():
                next(iter(one.learned.values())).fill_(float("nan"))

    course = one.run(tmp_path, notices.append, poison)
    assert course.ended == "diverged" and course.step == 3 and notices[0].hint
    adapter, _ = one.result()
    assert adapter is not None
    assert all(np.isfinite(pair.a).all() for pair in adapter.pairs.values())


def test_speakers_have_vectors_of_their_own(tmp_path: Path) -> None:
    one = made(replace(PLAN, epochs=1), speakers=("ann", "bob"))
    assert one.speakers == ["ann", "bob"] and not np.array_equal(*one.given)
    one.run(tmp_path, told, quiet)
    one.best = one.copy()
    _, vectors = one.result()
    assert [*vectors] == ["ann", "bob"]
    moved = [vectors[who] - given for who, given in zip(vectors, one.given, strict=True)]
    assert all(np.abs(one).max() > 0 for one in moved) and not np.allclose(*moved)


def test_all_weights_learn_and_the_text_table_does_not(tmp_path: Path) -> None:
    one = made(replace(PLAN, full=True, rate=1e-3))
    before = {name: weight.detach().clone() for name, weight in one.language.named_parameters()}
    course = one.run(tmp_path, told, quiet)
    assert course.best < course.first - 0.05
    adapter, _ = one.result()
    assert adapter is None and one.measure().loss == pytest.approx(course.best)
    still = {name for name, weight in one.language.named_parameters() if torch.equal(weight, before[name])}
    assert still == {"text.table"}


def test_the_time_is_limited(tmp_path: Path) -> None:
    assert made(replace(PLAN, minutes=0.0)).run(tmp_path, told, quiet).ended == "minutes"


def test_parts_of_a_step_change_nothing() -> None:
    plan = replace(PLAN, dropout=0.0, step_s=100.0)
    one, other = made(plan), made(plan)
    numbers = one._steps_of(0)[0]
    losses = one.learn(numbers, 0)
    other.most = 40
    assert other.learn(numbers, 0) == pytest.approx(losses, rel=1e-5)
    for mine, its in zip(one.learned.values(), other.learned.values(), strict=True):
        assert torch.allclose(mine, its, atol=1e-4)


def test_a_full_disk_keeps_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made()
    one.course.first = 1.0
    one.save(tmp_path)
    before = (tmp_path / "state.0.safetensors").read_bytes()

    def full(*values: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trainer.checkpoints, "save_file", full)
    with pytest.raises(OutputError) as caught:
        one.save(tmp_path)
    assert caught.value.cause and caught.value.hint
    assert (tmp_path / "state.0.safetensors").read_bytes() == before


def test_too_few_clips_are_refused() -> None:
    with pytest.raises(InputError):
        refuse_few([])


def test_a_table_is_narrowed_only_if_it_stays_the_same() -> None:
    whole = torch.randn(5, 8)
    assert trainer.narrowed(whole) is whole
    stored = whole.bfloat16()
    assert trainer.narrowed(stored.float()).dtype == torch.bfloat16
    assert torch.equal(trainer.narrowed(stored.float()), stored) and torch.equal(trainer.narrowed(stored), stored)
