"""omnitts speechd: installing and removing the module, the generic file, and the command itself."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from command import PYTHON, Omnitts
from patience import LONG_S

from omnitts_cli.cli.speechd import GENERIC
from omnitts_cli.weights.find import TINY


def test_install_writes_a_module_that_runs_and_says_how_to_undo_it(omnitts: Omnitts, home: Path) -> None:
    done = omnitts("speechd", "--install")
    module = home / ".local" / "libexec" / "speech-dispatcher-modules" / "sd_omnitts"
    assert done.code == 0 and done.out.decode().strip() == str(module) and os.access(module, os.X_OK)
    assert "omnitts speechd --uninstall" in done.err
    seen = home / ".local" / "share" / ".." / "libexec" / "speech-dispatcher-modules"  # as the server spells it
    assert (seen / "sd_omnitts").exists()
    environment = {**os.environ, "OMNITTS_DEVICE": "cpu", "OMNITTS_MODEL": "random:toy"}
    asked = b"INIT\nLIST VOICES\nCHAR\na\n.\n"
    spoken = subprocess.run(
        [str(module), "omnitts.conf"], input=asked, capture_output=True, timeout=LONG_S, env=environment, check=False
    )
    lines = spoken.stdout.split(b"\n")
    assert spoken.returncode == 0 and lines[1] == b"299 OK LOADED SUCCESSFULLY", spoken.stderr.decode()
    assert b"200 OK VOICE LIST SENT" in lines and b"701 BEGIN" in lines
    assert omnitts("speechd", "--uninstall").code == 0 and not module.exists()
    assert omnitts("speechd", "--uninstall").code == 2


def test_settings_that_name_the_modules_are_noticed(omnitts: Omnitts, home: Path) -> None:
    settings = home / ".config" / "speech-dispatcher" / "speechd.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text('# AddModule "x"\nDefaultRate 0\n')
    assert "AddModule" not in omnitts("speechd", "--install").err
    settings.write_text('AddModule "espeak-ng" "sd_espeak-ng" "espeak-ng.conf"\n')
    assert 'AddModule "omnitts" "sd_omnitts"' in omnitts("speechd", "--install").err


def test_the_generic_file_is_printed(omnitts: Omnitts) -> None:
    done = omnitts("speechd", "--print-generic")
    assert done.code == 0 and done.out.decode() == GENERIC.read_text()
    assert omnitts("speechd", "--print-generic", "--install").code == 2


@pytest.mark.parametrize("rate", ["-1", "0.5", "1.7"])
def test_the_generic_command_speaks(home: Path, rate: str) -> None:
    """As the generic module runs it, once it has put in the text, the voice and the rate."""
    lines = [line for line in GENERIC.read_text().splitlines() if not line.startswith("#")]
    start = next(number for number, line in enumerate(lines) if line.startswith("GenericExecuteSynth"))
    command = lines[start + 1].strip('"').replace("\\'", "'")
    values = {"$DATA": "Hello there.", "$VOICE": "ann", "$RATE": rate, "$PLAY_COMMAND": "cat > x.wav"}
    for name, value in values.items():
        command = command.replace(name, value)
    (home / "omnitts").write_text(f'#!/bin/sh\nexec {" ".join(PYTHON)} "$@" -m random:toy -d cpu\n')
    (home / "omnitts").chmod(0o755)
    environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", command], capture_output=True, timeout=LONG_S, env=environment, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr.decode()
    assert Path("x.wav").read_bytes()[:4] == b"RIFF"


def test_every_voice_of_the_generic_file_exists() -> None:
    voices = json.loads((TINY / "config.json").read_text())["omnitts"]["voices"]
    named = [
        line.split('"')[-2] for line in GENERIC.read_text().splitlines() if line.startswith(("AddVoice", "Default"))
    ]
    assert set(named) == set(voices)
