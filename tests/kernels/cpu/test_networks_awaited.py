"""A first sound takes a second thread where other programs leave a core."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from omnitts_cli.kernels.cpu import library, networks
from omnitts_cli.settings.environment import EMBEDDED
from omnitts_cli.speech.tts import load


@pytest.fixture
def chosen() -> Iterator[None]:
    """What devices have set is put back at the end."""
    before = dict(networks._chosen)
    yield
    networks._chosen.update(before)


class Machine:
    """What Linux says about one, in files of its own, and its clock."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.idle_s, self.ours_s, self.now = 1000.0, 5.0, 100.0
        self._idle, self._running = folder / "uptime", folder / "loadavg"
        self.pass_by(0.0, idle=0.0)
        monkeypatch.setattr(networks, "IDLE", str(self._idle))
        monkeypatch.setattr(networks, "RUNNING", str(self._running))
        monkeypatch.setattr(networks.time, "process_time", lambda: self.ours_s)

    def pass_by(self, seconds: float, *, idle: float, ours: float = 0.0, running: int = 1) -> None:
        """Seconds in which so many cores were idle, and so many ours; now so many threads run."""
        self.now += seconds
        self.idle_s += idle * seconds
        self.ours_s += ours * seconds
        self._idle.write_text(f"9000.00 {self.idle_s:.2f}")
        self._running.write_text(f"0.10 0.20 0.30 {running}/99 4242")

    def cores(self, count: int) -> networks.Cores:
        return networks.Cores(count, lambda: self.now)

    def break_down(self) -> None:
        self._idle.write_text("nothing")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("count", "seen", "left"),
    [
        (2, {"idle": 1.9}, True),
        (2, {"idle": 1.0, "ours": 0.9, "running": 2}, True),
        (2, {"idle": 1.0}, False),  # another program had one of the two
        (2, {"idle": 1.9, "running": 5}, True),  # threads that sleep again at once
        (2, {"idle": 1.9, "running": 7}, False),  # others have just begun
        (1, {"idle": 1.9}, False),
        (16, {"idle": 6.0, "running": 11}, True),
    ],
)
def test_a_core_is_left(machine: Machine, count: int, seen: dict[str, float], left: bool) -> None:
    cores = machine.cores(count)
    assert not cores.leave_one()  # nothing is known yet
    machine.pass_by(1.0, **seen)  # type: ignore[arg-type]
    assert cores.leave_one() is left


def test_a_look_holds_for_a_moment(machine: Machine) -> None:
    cores = machine.cores(2)
    assert not cores.leave_one()  # nothing is known yet
    machine.pass_by(1.0, idle=2.0)
    assert cores.leave_one()
    machine.pass_by(0.01, idle=0.0)
    assert cores.leave_one()
    machine.pass_by(0.1, idle=0.0)
    assert not cores.leave_one()


def test_where_the_system_says_nothing_there_is_one_thread(machine: Machine) -> None:
    cores = machine.cores(2)
    assert not cores.leave_one()
    machine.pass_by(1.0, idle=2.0)
    machine.break_down()
    assert not cores.leave_one()
    assert not machine.cores(2).leave_one()


@pytest.mark.usefixtures("chosen")
def test_the_chosen_cores_decide() -> None:
    networks.use_threads(1, 1)
    assert networks.threads_awaited() == 1


@pytest.mark.usefixtures("chosen")
@pytest.mark.skipif(not library.usable(), reason="the library of the CPU was not compiled")
def test_sound_does_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = list[np.ndarray](), set[int]()

    def awaited(count: int) -> int:
        asked.add(count)
        return count

    with load(EMBEDDED, device="cpu") as tts:
        for count in (1, 2):
            monkeypatch.setattr(networks, "threads_awaited", partial(awaited, count))
            made.append(tts.speak("Good morning. It is warm.", voice="clara", seed=3).samples)
    assert asked == {1, 2} and np.array_equal(made[0], made[1])
