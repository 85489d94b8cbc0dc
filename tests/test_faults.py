"""Planted faults: each of them, in a copy of the package, must make the tests that watch it fail.

pytest -m slow tests/test_faults.py
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

HOUSE = Path(__file__).parents[1]


class Fault(NamedTuple):
    file: str  # in omnitts_cli/
    right: str
    wrong: str
    tests: str  # in tests/, with what follows `-k`, if anything


FAULTS = [
    # engine
    Fault(
        "engine/slots.py",
        "self.launched > self.written",
        "self.launched > self.written + 1",
        "engine/test_slots.py",
    ),
    Fault("engine/slots.py", "self.launched < self.limit", "self.launched <= self.limit", "engine/test_slots.py"),
    Fault("engine/codec_jobs.py", "lead_s / 2 / frame_s", "lead_s / frame_s", "engine/test_codec_jobs_due.py"),
    Fault("engine/admission.py", "max(record.launched - 1, 0)", "record.launched", "engine/test_admission.py"),
    Fault("engine/admission.py", "self.free.append(record.slot)", "pass", "engine/test_engine.py -k cancelling_frees"),
    Fault("engine/engine.py", "if record.state is State.DONE:", "if False:", "engine/test_engine.py -k late_words"),
    Fault("bench/meter.py", "if held < 0:", "if held < -1:", "bench/test_meter.py"),
    # models and plain operations
    Fault("kernels/plain_frame.py", "made >= limit, LIMIT", "made > limit, LIMIT", "kernels/cpu/test_frame.py"),
    Fault("kernels/plain.py", "low * cos - high * sin", "low * cos + high * sin", "kernels/test_plain.py"),
    Fault(
        "models/codec_layers.py",
        "(wide * scale).sin().square()",
        "(wide * scale).sin()",
        "models/test_codec_decoder.py",
    ),
    Fault("models/shapes.py", "lost[-1] * rate + rate", "lost[-1] + rate", "models/test_codec_decoder_code2wav.py"),
    Fault("models/slot_decoder.py", "self._frames.index_fill_(0, slots, 0)", "pass", "models/test_slot_decoder.py"),
    Fault("models/prompts.py", "self._places.clear()", "pass", "models/test_embed.py"),
    # families
    Fault(
        "families/common/live.py", '"".join(self._held).rstrip()', '"".join(self._held)', "families/common/test_live.py"
    ),
    Fault(
        "families/common/fields.py",
        '.text("content")) != word',
        ".text(\"content\")) == ''",
        "families/qwen3_tts/test_config.py",
    ),
    Fault(
        "families/qwen3_tts/prompt.py",
        "[control.think, control.think_begin, start.language,",
        "[control.think_begin, control.think, start.language,",
        "families/qwen3_tts/test_prompt.py",
    ),
    # speech
    Fault("speech/speaking.py", "{seed} {number} {attempt}", "{seed} {number}", "speech/test_speaking.py"),
    Fault("audio/tape.py", "np.linspace(1.0, 0.0,", "np.linspace(0.0, 1.0,", "audio/test_tape.py"),
    Fault(
        "speech/voice_files.py",
        "embedding * np.float32(weight / total)",
        "embedding * np.float32(weight)",
        "speech/test_voice_files.py",
    ),
    Fault("speech/voice_files.py", "new=not replace", "new=False", "speech/test_voice_files.py"),
    # settings
    Fault("settings/setting.py", "type(v) is int and low <= v <= high", "type(v) is int", "settings/test_setting.py"),
    Fault(
        "settings/layers.py", "for layer in self.layers:", "for layer in reversed(self.layers):", "cli/test_config.py"
    ),
]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house, with a package that may be changed."""
    house = tmp_path_factory.mktemp("faults")
    for path in HOUSE.iterdir():
        if path.name == "omnitts_cli":
            shutil.copytree(path, house / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not path.name.startswith("."):
            (house / path.name).symlink_to(path)
    return house


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.wrong}")
def test_a_planted_fault_is_seen(fault: Fault, copy: Path) -> None:
    file = copy / "omnitts_cli" / fault.file
    text = file.read_text("utf-8")
    assert text.count(fault.right) == 1, "the list of faults is to follow the code"
    tests, _, words = fault.tests.partition(" -k ")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", f"tests/{tests}"]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    file.write_text(text.replace(fault.right, fault.wrong), "utf-8")
    try:
        done = subprocess.run(
            command + (["-k", words] if words else []), cwd=copy, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    finally:
        file.write_text(text, "utf-8")
    assert done.returncode == 1 and " failed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
