"""On several cards the right stages run side by side, once each, and all end together."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import training_kit
from training_kit import SENTENCES, learned_tokens

from omnitts_cli.errors import PartialError, UsageError
from omnitts_cli.request import Request
from omnitts_cli.speech.load import open_engine
from omnitts_cli.training import __main__, cards
from omnitts_cli.training.picture import lines_of
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.stage_results import exported_codec, residual_books, trained_codec
from omnitts_cli.training.teacher_files import WEIGHTS
from omnitts_cli.training.texts import TrainingLine, write
from omnitts_cli.voices import Named

soundfile = pytest.importorskip("soundfile")

STAND_IN = """
import os, pathlib, sys, time
REPORT = "E1128 13:45:45.566000 21647 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 3)"
words = sys.argv[1:]
team = int(words[1]) if words[0] == "team" else 1
words = words[3:] if words[0] == "team" else words
stage, work = words[0], pathlib.Path(words[words.index("--work") + 1])
top = pathlib.Path(__file__).parent
with (top / "called").open("a") as called:
    called.write(f"{team} {' '.join(words)}\\n")
(top / f"pid.{os.getpid()}").touch()

def wait_for(name):
    while not (top / name).exists():
        time.sleep(0.01)

if stage == "speak":
    (work / "shards").mkdir(exist_ok=True)
    series = words[words.index("--series") + 1]
    for number in range(3):
        (work / "shards" / f"{series}-{number:05d}.safetensors").touch()
    if (top / "speaks on").exists():
        wait_for("never")
elif stage == "codec":
    if (top / "fails").exists():
        print("first this", "then that", REPORT, "much more", sep="\\n")
        sys.exit(3)
    if (top / "signal").exists():
        os.kill(os.getppid(), int((top / "signal").read_text()))
        wait_for("never")
    (work / "codec.0.safetensors").touch()
elif stage in ("polish", "speech"):
    assert (work / "codec.0.safetensors").exists() and (work / "shards" / "5-00000.safetensors").exists()
    (top / stage).touch()
    if not (top / "in turn").exists():
        wait_for("speech" if stage == "polish" else "polish")
"""

HUMS = """
import sys
sys.path[:0] = SUPPORT
from training_kit import Hummer
from omnitts_cli.training import __main__
__main__.Teacher = Hummer
if __name__ == "__main__":
    __main__.main()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in of the stages and of torchrun lies."""
    script = tmp_path / "stage.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(cards, "TRAINING", (str(script),))
    monkeypatch.setattr(cards, "TEAM", (str(script), "team"))
    monkeypatch.setattr(cards, "LOOK_S", 0.01)
    return tmp_path


def train(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs the command; returns what it called."""
    work = ["--work", str(folder / "work"), "--recordings", "people", "--series", "5"]
    others = ["--device", "cpu", "--languages", "es", "--minutes", "2", "codec=4.5", "--hours", "1"]
    monkeypatch.setattr(sys, "argv", ["training", "cards", "--cards", str(count), *work, *others])
    __main__.main()
    return called(folder)


def called(folder: Path) -> list[str]:
    return (folder / "called").read_text().replace(str(folder / "work"), "W").splitlines()


def still_run(folder: Path) -> Iterator[int]:
    for path in folder.glob("pid.*"):
        number = int(path.suffix[1:])
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            continue
        yield number


def test_which_stages_run_on_which_cards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = train(folder, 3, monkeypatch)
    own = "--languages es --device cpu"
    assert found[:2] == [f"1 teacher --work W {own}", f"1 texts --work W {own} --recordings people"]
    speakers = [f"1 speak --work W {own} --series {n} --hours 1.0 --minutes 2.0" for n in (5, 6, 7)]
    learners = [f"1 polish --work W/polish {own} --minutes 2.0", f"2 speech --work W {own} --minutes 2.0"]
    codec = f"3 codec --work W {own} --minutes 4.5"
    assert sorted(found[2:-3]) == sorted([f"1 record --work W {own} --recordings people", *speakers, codec, *learners])
    assert found[-3:] == [
        f"1 export --work W/polish {own} --share 1.0",
        f"1 export --work W {own} --decoder W/polish/tiny/speech_tokenizer --share 1.0",
        f"1 rows --work W {own}",
    ]
    assert train(folder, 3, monkeypatch) == found  # all of it has ended
    logs = {path.name for path in (folder / "work" / "log").iterdir()}
    assert {"record.log", "speak.0.log", "speak.2.log", "codec.log", "speech.log", "export.log"} < logs


def test_cards_have_numbers_and_a_team_takes_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Two:
        torch_device = type("Named", (), {"type": "cuda"})

    asked: list[str] = []
    monkeypatch.setattr(__main__, "choose", lambda name: asked.append(name) or Two)
    devices = {line.split()[1]: line.split("--device ")[1].split()[0] for line in train(folder, 2, monkeypatch)}
    assert {"record": "cpu", "codec": "cuda", "speech": "cuda:0", "polish": "cuda:1"}.items() <= devices.items()
    assert asked == ["cpu", "cuda:1"]  # whether the last card is there


def test_one_card_polishes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "in turn").touch()
    stages = [line.split()[1] for line in train(folder, 1, monkeypatch)]
    assert stages[-6:] == ["codec", "polish", "speech", "export", "export", "rows"]


def test_what_failed_is_told_with_the_end_of_its_log_and_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fails", "speaks on"):
        (folder / name).touch()
    with pytest.raises(PartialError, match="codec failed with exit code 3") as caught:
        train(folder, 2, monkeypatch)
    assert caught.value.cause and caught.value.cause.startswith("\nfirst this\nthen that\nE1128")
    assert "much more" not in caught.value.cause
    assert caught.value.hint and str(folder / "work" / "log" / "codec.log") in caught.value.hint
    assert not [*still_run(folder)]
    (folder / "fails").unlink()
    again = train(folder, 2, monkeypatch)  # the teachers speak on when all has been learned, and are ended
    assert [line.split()[1] for line in again].count("texts") == 1
    assert again[-1].startswith("1 rows") and not [*still_run(folder)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_process(number: signal.Signals, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "speaks on").touch()
    (folder / "signal").write_text(str(int(number)))
    before = signal.getsignal(number)
    with pytest.raises(PartialError, match=f"stopped by {number.name}") as caught:
        train(folder, 2, monkeypatch)
    assert caught.value.exit_code == 128 + number and signal.getsignal(number) == before
    assert [line.split()[1] for line in called(folder)].count("codec") == 1 and not [*still_run(folder)]


def test_too_little_speech_for_so_many_cards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="too little speech for 4 cards"):
        train(folder, 4, monkeypatch)


def test_minutes_of_stages_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    given = __main__.arguments().parse_args(["all", "--work", "W", "--minutes", "5", "speech=0.5"])
    assert [__main__.value(stage, "minutes", given) for stage in ("speak", "codec", "speech")] == [5, 5, 0.5]
    with pytest.raises(SystemExit):
        __main__.arguments().parse_args(["all", "--work", "W", "--minutes", "export=1"])
    assert "export has no minutes; speak, codec, polish, speech have" in capsys.readouterr().err


@pytest.mark.slow
def test_the_miniature_on_three_cards(small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real stages and real teams, on the CPU; the teacher hums."""
    script, work, people = tmp_path / "hums.py", tmp_path / "work", tmp_path / "people"
    script.write_text(HUMS.replace("SUPPORT", repr([str(Path(training_kit.__file__).parent)])))
    monkeypatch.setattr(cards, "TRAINING", (str(script),))
    for folder in (work / "kokoro", people):
        folder.mkdir(parents=True)
    (work / "kokoro" / WEIGHTS).touch()
    write(work / "texts.tsv", [TrainingLine(text, text, text) for text in SENTENCES])
    learned_tokens().write(work)
    hum = np.sin(np.arange(48_000) * 0.05) * 0.3
    soundfile.write(people / "ann.flac", hum, 24_000)
    (people / "list.tsv").write_text("ann.flac\tann\tf\t0.0\t1.5\t\n")
    options = ["--work", str(work), "--kokoro", str(work / "kokoro"), "--recordings", str(people), "--miniature"]
    timed = ["--minutes", "codec=0.1", "polish=0.02", "speech=0.1", "--device", "cpu", "--cards", "3"]
    monkeypatch.setattr(sys, "argv", ["training", "cards", *options, *timed])
    __main__.main()
    lines = [*lines_of(work / "curves.jsonl"), *lines_of(work / "polish" / "curves.jsonl")]
    members = {line["stage"]: line["members"] for line in lines if line.get("event") == "start"}
    assert members == {"codec": 3, "polish": 1, "speech": 2}
    exported = exported_codec(small, work / "tiny" / "speech_tokenizer")
    for folder, same in ((work, False), (work / "polish", True)):
        other = trained_codec(small, folder)
        weights = other.decoder.state_dict().items()
        own = exported.decoder.state_dict()
        assert all(torch.equal(own[name], weight.half().float()) for name, weight in weights) == same
        assert torch.equal(residual_books(exported), residual_books(other))
    # the whole model speaks
    engine = open_engine(str(work / "tiny"), device="cpu", threads=1, slots=1, capture=False)
    assert len(engine.clip(Request("The cat.", Named("emily"), max_frames=5)).pcm)
