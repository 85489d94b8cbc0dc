"""Keep: the files hold what was measured."""

import json
from pathlib import Path

import pytest
from bench_kit import fake_engine, script, works

from omnitts_cli.bench.campaign import Shape, campaign
from omnitts_cli.bench.keep import LIST, Keeper
from omnitts_cli.bench.local import EngineTarget
from omnitts_cli.errors import OutputError

soundfile = pytest.importorskip("soundfile")


def test_the_seconds_that_were_reported_are_in_the_files(tmp_path: Path) -> None:
    engine = fake_engine(script((0.01, 3), (0.03, 5)), script((0.02, 7)), script((0.01, 1), failure="lost"))
    keeper = Keeper(tmp_path / "sound")
    with EngineTarget(engine, keep=True) as target:
        shape = Shape(levels=(2,), requests=9, warmup=0)
        level = next(campaign({"": target}, works, shape, None, keeper.keep))
    rows = [json.loads(line) for line in (tmp_path / "sound" / LIST).read_text().splitlines()]
    lengths = {}
    for row in rows:
        info = soundfile.info(tmp_path / "sound" / row["file"])
        assert info.samplerate == 24_000
        lengths[row["file"]] = info.frames / info.samplerate
        assert lengths[row["file"]] == pytest.approx(row["audio_s"], abs=1e-6)
    good = [row for row in rows if row["failure"] is None]
    assert (len(rows), len(good)) == (9, 6)
    assert level.audio_s == pytest.approx(sum(lengths[row["file"]] for row in good))
    assert sorted(lengths) == sorted(path.name for path in (tmp_path / "sound").glob("*.wav"))
    assert {round(row["audio_s"], 2) for row in good} == {0.64, 0.56}


def test_sound_that_is_no_number_is_kept_for_a_look(tmp_path: Path) -> None:
    engine = fake_engine(script((0.01, 1, 0, True)))
    keeper = Keeper(tmp_path)
    with EngineTarget(engine, keep=True) as target:
        next(campaign({"": target}, works, Shape(levels=(1,), requests=1, warmup=0), None, keeper.keep))
    row = json.loads((tmp_path / LIST).read_text())
    assert row["failure"] == "samples that are not finite"
    assert soundfile.info(tmp_path / row["file"]).frames == 1920


def test_a_folder_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write to"):
        Keeper(tmp_path / "file" / "sound")
