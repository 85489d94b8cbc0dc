"""Job: a whole run on the toy and against a server, and what the report says about the circumstances."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden_set import checkpoint
from speech_server import SpeechServer

from omnitts_cli.bench.campaign import Shape
from omnitts_cli.bench.job import BenchJob, BenchTexts, BenchVoice, slot_seconds
from omnitts_cli.bench.server import Asking
from omnitts_cli.bench.workload import BenchText
from omnitts_cli.errors import UsageError
from omnitts_cli.kernels.cpu import library
from omnitts_cli.settings.engine import EngineSettings

SETTINGS = EngineSettings(device="cpu", threads=1, slots=4, seconds=10.0, offline=True)


def job(**given: Any) -> BenchJob:
    base: dict[str, Any] = {
        "model": "random:toy", "settings": SETTINGS, "shape": Shape(levels=(1, 4), requests=4, warmup=1),
        "speaker": BenchVoice(), "texts": BenchTexts((BenchText("Good morning.", "english"),)),
        "command": "omnitts bench", "frames": 6,
    }  # fmt: skip
    return BenchJob(**(base | given))


def run(one: BenchJob) -> Any:
    results, seen = [], list[int]()
    report = one.run(results.append, lambda so_far: seen.append(len(so_far.levels)))
    assert seen == list(range(1, len(report.levels) + 1))
    return report, results


@pytest.mark.parametrize("speaker", [
    BenchVoice("clone"), BenchVoice("clone", transcript="hello."),
    BenchVoice("clone", transcript="hello.", fresh=True), BenchVoice("design", words="an old man"),
    BenchVoice("voice", voice="ben"),
], ids=lambda s: f"{s.mode}{'-text' if s.transcript else ''}{'-fresh' if s.fresh else ''}")  # fmt: skip
def test_every_mode_runs(speaker: BenchVoice) -> None:
    report, _ = run(job(speaker=speaker, shape=Shape(levels=(2,), requests=2, warmup=0)))
    assert (report.levels[0].requests, report.levels[0].failed) == (2, 0)
    assert report.workload["mode"] == speaker.mode
    assert report.workload["transcript"] == (speaker.transcript is not None)
    assert report.workload["reference"] == ("fresh" if speaker.fresh else "cached")


def test_a_variant_runs_beside_it_and_the_ratio_is_printed() -> None:
    report, results = run(job(versus="nobuckets", shape=Shape(levels=(1,), requests=4, warmup=1)))
    assert [level.variant for level in report.levels] == [None, "nobuckets"]
    assert len(results) == 8
    assert report.ratios[0]["variant"] == "nobuckets"
    assert report.ratios[0]["rtf"] > 0


def test_a_server_is_measured_by_the_same_clock() -> None:
    server = SpeechServer()
    with server:
        asking = Asking("some-model", body={"seed": 1})
        report, _ = run(job(url=server.url, asking=asking, frames=None, texts=BenchTexts(length="short")))
    assert [level.failed for level in report.levels] == [0, 0]
    assert 49 <= report.levels[0].ttfp_ms["median"] <= report.levels[0].e2el_ms["median"]
    assert (report.model, report.device, report.dtype) == ("some-model", None, None)
    assert "torch" not in report.versions
    assert report.workload["target"] == server.url
    assert report.workload["languages"] == ["english"]


def test_texts_follow_the_languages_of_the_model() -> None:
    assert {text.language for text in BenchTexts().chosen(("english", "german", "klingon"))} == {"english", "german"}
    assert {text.language for text in BenchTexts(language="french").chosen(("english",))} == {"french"}
    with pytest.raises(UsageError, match="no sample texts"):
        BenchTexts().chosen(("klingon",))


def test_slots_are_as_long_as_the_work() -> None:
    assert slot_seconds(None) == 120.0
    assert slot_seconds(20) == 10.0
    assert slot_seconds(1000) == pytest.approx(82.0)
    clip = np.zeros(16_000, np.float32)
    assert slot_seconds(20, BenchVoice("clone", clip=clip, clip_rate=8000, transcript="a").reference_s) == 12.0
    assert BenchVoice("clone", clip=clip, clip_rate=8000).reference_s == 0.0
    assert BenchVoice("clone", transcript="a").reference_s == 6.0


@pytest.mark.skipif(not library.usable(), reason="needs the compiled library")
def test_exact_is_in_the_report_with_its_fingerprint() -> None:
    report, _ = run(job(settings=replace(SETTINGS, exact=True), shape=Shape(levels=(1,), requests=1, warmup=0)))
    assert re.fullmatch("[0-9a-f]{12}", report.workload["exact"])
    report, _ = run(job(shape=Shape(levels=(1,), requests=1, warmup=0)))
    assert "exact" not in report.workload


def test_a_clip_is_brought_to_the_rate_of_the_model() -> None:
    sound = BenchVoice("clone", clip=np.ones(16_000, np.float32), clip_rate=16_000).sound(8000)
    assert sound is not None and sound.size == 8000


BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
SCRIPTS = ("frame", "predictor", "codec", "speak", "company", "peers", "peer")
SERVERS = ("serve", "servers", "turns")


@pytest.mark.parametrize("name", [*SCRIPTS, *SERVERS])
def test_the_scripts_of_benchmarks_import_without_anything_heavy(name: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import {name}; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCRIPTS if not name.startswith("peer")])
def test_the_scripts_of_benchmarks_run_on_the_toy_and_end_in_json(name: str) -> None:
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "-m", "random:toy", "-d", "cpu", "-t", "1", "--no-keep"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout.splitlines()[-1])
    assert row["bench"] == name
    assert {"device", "versions", "commit", "created"} <= set(row)


def test_a_folder_of_plain_letters_is_asked_what_say_would_ask(tmp_path: Path) -> None:
    folder = shutil.copytree(checkpoint("base"), tmp_path / "own")
    config = json.loads((folder / "config.json").read_text())
    config["omnitts"] = {"plain_letters": True, "longest_piece": 30}
    (folder / "config.json").write_text(json.dumps(config))
    texts = BenchTexts((BenchText("It costs only $5. Really, no more than 5!", "english"),))
    one = job(model=str(folder), texts=texts, speaker=BenchVoice("clone", transcript="I am 5"), frames=2)
    with one.opened() as bench:
        assert [text.words for text in bench.load.texts] == [
            "It costs only five dollars.",
            "Really, no more than five!",
        ]
        assert bench.load.voice.transcript == "I am five."  # type: ignore[union-attr]


def test_a_language_that_the_model_lacks_is_refused_before_it_is_measured() -> None:
    with pytest.raises(UsageError, match="random:toy does not support French"):
        run(job(texts=BenchTexts((BenchText("Bonjour."),), language="french")))
    with job(texts=BenchTexts(language="german")).opened() as bench:
        assert {text.language for text in bench.load.texts} == {"german"}
