"""Player programs; scripts of the same names stand in for them."""

import signal
from pathlib import Path

import numpy as np
import pytest
from patience import eventually

from omnitts_cli.audio import player
from omnitts_cli.audio.player import COMMANDS, PlayerOutput, find_player
from omnitts_cli.errors import DeviceError

SOUND = np.linspace(-0.5, 0.5, 4800, dtype=np.float32)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Installs a script as a player; PATH holds nothing else that plays."""
    for name in ("cat", "sleep", "sh"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))

    def script(name: str, body: str) -> Path:
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
        return tmp_path

    return script


def playing() -> PlayerOutput:
    output = find_player(24000)
    assert output is not None
    return output


def test_nothing_installed(install) -> None:  # type: ignore[no-untyped-def]
    assert find_player(24000) is None


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_player_gets_every_sample(name: str, install) -> None:  # type: ignore[no-untyped-def]
    folder = install(name, 'echo "$@" > "$0.said"; exec cat > "$0.heard"')
    output = find_player(24000)
    assert output is not None and output.name == name
    output.write(SOUND)
    output.drain()
    heard = np.frombuffer((folder / f"{name}.heard").read_bytes(), "<i2")
    assert heard.size == 1200 + SOUND.size, "a little silence tries the player out"
    assert "24000" in (folder / f"{name}.said").read_text()
    assert output.played_s == pytest.approx(0.25)


def test_a_player_without_a_device_is_passed_over(install, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(player.TRIAL_S, "pw-play", 60.0)  # it ends sooner, on a busy machine too
    install("pw-play", "exit 1")
    install("paplay", "exec cat > /dev/null")
    output = find_player(24000)
    assert output is not None and output.name == "paplay"
    output.stop()


def test_a_player_that_dies_is_a_device_error(install) -> None:  # type: ignore[no-untyped-def]
    folder = install("aplay", 'while [ ! -e "$0.end" ]; do sleep 0.02; done; exit 3')
    output = playing()
    (folder / "aplay.end").touch()
    output._child.wait(60)
    with pytest.raises(DeviceError, match="aplay"):
        for _ in range(100):
            output.write(SOUND)
        output.drain()


def test_stopping_leaves_no_child(install, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(player, "LAST_WORD_S", 0.3)
    folder = install("aplay", "trap '' TERM; : > \"$0.ready\"; while :; do sleep 0.1; done")
    output = playing()
    eventually((folder / "aplay.ready").exists)
    output.pause(True)
    output.stop()
    assert output._child.poll() == -signal.SIGKILL, "after its last word"


def test_the_position_runs_in_real_time_and_stands_still_in_a_pause(install, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    now = [100.0]
    monkeypatch.setattr(player.time, "monotonic", lambda: now[0])
    install("aplay", "exec cat > /dev/null")
    output = playing()
    output.write(np.zeros(24000, np.float32))  # the player takes a second at once, and 0.05 s of silence before
    now[0] += 0.5
    assert output.played_s == pytest.approx(0.5)
    output.pause(True)
    now[0] += 5.0
    assert output.played_s == pytest.approx(0.5)
    output.pause(False)
    now[0] += 0.25
    assert output.played_s == pytest.approx(0.75)
    now[0] += 60.0
    assert output.played_s == pytest.approx(1.05), "no more than it was given"
    output.write(np.zeros(2400, np.float32))
    now[0] += 0.05
    assert output.played_s == pytest.approx(1.10), "the time without sound does not count"
    output.stop()
