"""From a folder of recordings to a saved voice, over a tiny random model whose verdict is given."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tune_kit
from command import Omnitts
from recordings_kit import WORDS, hum, many, write

import omnitts_cli
from omnitts_cli.audio.read import read_sound
from omnitts_cli.errors import Notice, UsageError
from omnitts_cli.speech import voice_files
from omnitts_cli.tuning import folder as folders
from omnitts_cli.tuning import run
from omnitts_cli.tuning.trainer import Trainer
from omnitts_cli.tuning.verdict import Sample


@pytest.fixture
def folder(home: Path) -> Path:
    return many(home / "recordings", 30, 2.5)


def judged(monkeypatch: pytest.MonkeyPatch, gain: float, lost: float = 0.0) -> None:
    """The verdict, and a model that knows its recordings: a random one knows none. `lost`: the share of the words that
    the model does not hear in the tuned voice."""

    def spoken(
        tts: Any, voice: Any, cloner: Any, texts: Sequence[str], person: np.ndarray, look: Any, word_errors: Any,
        missed: Any,
    ) -> list[Sample]:  # fmt: skip
        tuned = isinstance(voice, str) or voice.adapter is not None
        better = gain if tuned else 0.0
        heard = missed(texts[0], np.zeros(24_000, np.float32))
        assert heard is not None and 0 <= heard <= 1
        silence = np.zeros(2400, np.float32)
        return [
            Sample(silence, 0.5 + better + 0.01 * (n % 3), 14.0, word_errors(text, silence), lost * tuned)
            for n, text in enumerate(texts)
        ]

    monkeypatch.setattr(run, "spoken", spoken)
    monkeypatch.setattr(Trainer, "refuse_misfits", lambda self: None)


ARGUMENTS = ("--name", "me", "--epochs", "1", "--rank", "2")


def test_a_tuned_voice_is_saved_and_speaks(omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, 0.1)
    model = tune_kit.folder("small")
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    done = omnitts(
        "tune", str(folder), *ARGUMENTS, "-m", str(model), "--consent", "me, today", "--licence", "CC0", "--json"
    ).ended(0)
    record = done.json
    assert record["won"] and record["clips"] == 30 and record["held_out_after"] <= record["held_out_before"]
    voice = voice_files.load("me")
    assert voice.adapter is not None and voice.about["consent"] == "me, today" and voice.about["licence"] == "CC0"
    assert voice.about["clips"] == "26" and voice.about["rank"] == "2" and "before" in voice.about["losses"]
    place = Path(record["folder"])
    assert "me, today" in (place / "README.md").read_text() and (place / "curves.svg").read_text().startswith("<svg")
    rest = ("-o", "me.wav", "hello", "--max-frames", "4", "--retries", "0")
    assert omnitts("say", "-v", "me", *rest).code == 0
    assert {path: path.read_bytes() for path in model.rglob("*") if path.is_file()} == before
    assert omnitts("tune", str(folder), *ARGUMENTS, "--consent", "me").code == 3  # the name is taken
    assert omnitts("tune", "me", "--rm", "-y", "--json").json["removed"] == str(place) and not place.exists()
    assert omnitts("tune", "me", "--rm", "-y").code == 3 and voice_files.names() == ["me"]


def test_a_clone_is_kept_where_tuning_did_not_win(
    omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, 0.0)
    done = omnitts("tune", str(folder), *ARGUMENTS, "-m", str(tune_kit.folder("small")), "--consent", "me", "--json")
    assert done.code == 0 and not done.json["won"] and "clone" in done.err
    voice = voice_files.load("me")
    assert voice.adapter is None and voice.about["consent"] == "me"


def test_a_voice_that_lost_its_words_is_not_kept(
    omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, 0.1, lost=0.3)
    done = omnitts("tune", str(folder), *ARGUMENTS, "-m", str(tune_kit.folder("small")), "--consent", "me", "--json")
    assert done.code == 0 and not done.json["won"] and done.json["gain"] > done.json["interval"]
    assert done.json["missed"] == 0.3 and done.json["missed_cloned"] == 0.0
    assert voice_files.load("me").adapter is None


def test_consent_and_a_name_are_required(omnitts: Omnitts, folder: Path) -> None:
    assert omnitts("tune", str(folder), "--name", "me").code == 2
    assert omnitts("tune", str(folder), "--consent", "me").code == 2
    assert omnitts("tune", str(folder), "--name", "henry", "--consent", "me").code == 2  # it would hide the model's own
    with pytest.raises(UsageError):
        omnitts_cli.tune(folder, "me")
    assert voice_files.names() == []


def test_a_dry_run_learns_nothing(omnitts: Omnitts, folder: Path, home: Path) -> None:
    (folder / "extra.wav").write_bytes(b"")
    done = omnitts("tune", str(folder), "--name", "me", "--dry-run", "--json")
    assert done.code == 0 and done.json["dry_run"]
    assert done.json["left_out"] == {"no transcript": [str(folder / "extra.wav")]}
    assert not Path(done.json["folder"]).exists() and voice_files.names() == []


def test_a_check_can_be_overruled(omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, "short.wav", hum(0.6), "brown fox")
    plain = ("tune", str(folder), "--name", "me", "--dry-run", "--json")
    assert omnitts(*plain).json["left_out"] == {"too short": [str(folder / "short.wav")]}
    assert omnitts(*plain, "--allow", "too-short,clipped").json["left_out"] == {}
    assert omnitts(*plain, "--allow", "anything").code == 2
    monkeypatch.setattr(folders, "find_spec", lambda name: None)
    assert omnitts(*plain, "--tensorboard").code == 2


def test_whisper_checks_the_texts_without_being_asked(
    omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = list[int]()

    def hear(sound: np.ndarray) -> str:
        heard.append(sound.size)
        if len(heard) == 12:
            raise KeyboardInterrupt
        return "whatever somebody else has told them in winter"

    monkeypatch.setattr(run, "recogniser_here", lambda: hear)
    monkeypatch.setattr(run, "is_accurate", lambda model: True)
    (folder / "untold.wav").write_bytes((folder / "00.wav").read_bytes())
    plain = ("tune", str(folder), "--name", "me", "--dry-run", "--json", "--allow", "misheard")
    with pytest.raises(KeyboardInterrupt):
        omnitts_cli.tune(folder, "me", dry_run=True)
    assert omnitts(*plain[:-2]).code == 3  # nothing is left
    assert len(heard) == 11 + 1 + 19  # what was heard is kept when a run is stopped, and also when it is refused
    for _ in range(2):
        found = omnitts(*plain).json
        assert len(found["doubtful"]["words"]) == 30 and [*found["left_out"]] == ["no transcript"]
    assert len(heard) == 31


def test_recordings_of_somebody_else_are_told(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, 0.1)
    plain, notices = run.prepare, list[Notice]()

    def prepare(*given: Any) -> list[Any]:
        first, *others = plain(*given)
        return [replace(first, vector=-first.vector), *others]

    monkeypatch.setattr(run, "prepare", prepare)
    omnitts_cli.tune(folder, "me", consent="me", model=tune_kit.folder("small"), epochs=1, rank=2, folder=home / "run",
                     tell=notices.append)  # fmt: skip
    (told,) = [notice for notice in notices if notice.hint and "column 'speaker'" in notice.hint]
    assert told.cause and ".wav" in told.cause and "," not in told.cause


def test_the_vector_is_that_of_the_clips_that_the_data_name_for_it(
    omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in data for the published trainer."""
    judged(monkeypatch, 0.0)
    write(folder / "other", "reference.wav", hum(4.0, 99))
    rows = [{"audio": path.name, "text": path.with_suffix(".txt").read_text(), "ref_audio": "other/reference.wav"}
            for path in sorted(folder.glob("*.wav"))]  # fmt: skip
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = tune_kit.folder("small")
    done = omnitts("tune", str(folder), *ARGUMENTS, "-m", str(model), "--consent", "me", "--json")
    assert done.code == 0 and not done.json["won"], done.err
    with omnitts_cli.load(str(model), device="cpu", threads=1) as tts:
        cloner = tts.engine.model.cloner
        assert cloner is not None
        wanted = cloner.embedding(read_sound(folder / "other" / "reference.wav", rate=24_000).sound)
    assert np.allclose(voice_files.load("me").voice.embedding, wanted, atol=1e-5)


def test_bad_recordings_are_3(omnitts: Omnitts, home: Path) -> None:
    assert omnitts("tune", "nowhere", "--name", "me", "--consent", "me").code == 3
    few = many(home / "few", 3, 2.0)
    assert omnitts("tune", str(few), "--name", "me", "--consent", "me").code == 3
    for path in few.glob("*.txt"):
        path.unlink()
    done = omnitts("tune", str(few), "--name", "me", "--consent", "me", "--json")
    assert done.code == 3 and done.json["hint"]


def test_missing_texts_are_transcribed_once(
    omnitts: Omnitts, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, 0.1)
    for path in list(folder.glob("*.txt"))[:20]:
        path.unlink()
    heard: list[int] = []

    def recogniser(*asked: Any) -> Any:
        def hear(sound: np.ndarray) -> str:
            heard.append(sound.size)
            return "" if sound.size == 1600 else f"{WORDS} once more {len(heard)}"

        return hear

    monkeypatch.setattr(run, "recogniser", recogniser)
    model = ("-m", str(tune_kit.folder("small")), "-O", str(home / "run"), "--transcribe", "--consent", "me", "--json")
    assert omnitts("tune", str(folder), *ARGUMENTS, *model, "--dry-run").code == 0
    assert len(json.loads((home / "run" / "transcripts.json").read_text())) == 20
    done = omnitts("tune", str(folder), *ARGUMENTS, *model).ended(0)
    assert done.json["mended"]["transcribed"] == 20 and done.json["clips"] == 30
    assert done.json["wer"] == done.json["wer_cloned"] == 1.0 and done.json["won"]
    assert len(json.loads((home / "run" / "transcripts.json").read_text())) == 20
    again = len(heard)
    assert omnitts("voices", "rm", "me", "-y").code == 0
    done = omnitts("tune", str(folder), *ARGUMENTS, *model)
    assert done.code == 0 and done.json["clips"] == 30
    assert not [size for size in heard[again:] if size != 1600]  # the samples of the verdict only


def test_samples_are_spoken_after_each_epoch(
    omnitts: Omnitts, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, 0.1)
    model = ("-m", str(tune_kit.folder("small")), "-O", str(home / "run"), "--consent", "me", "--json", "--samples")
    assert omnitts("tune", str(folder), *ARGUMENTS, *model).code == 0
    names = {path.name for path in (home / "run" / "samples").iterdir()}
    assert {"epoch-01-1.flac", "epoch-01-3.flac", "clone-1.flac", "tuned-1.flac"} <= names
    lines = [json.loads(line) for line in (home / "run" / "curves.jsonl").read_text().splitlines()]
    (sampled,) = [line for line in lines if "likeness" in line]
    assert sampled["likeness"] == pytest.approx(0.61, abs=0.001) and sampled["missed"] == 0.0
    assert omnitts("tune", str(folder), *model, "--name", "other", "--full").code == 2


def test_the_voices_of_the_last_epochs_and_of_the_best_are_kept(
    omnitts: Omnitts, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, 0.1)
    plain = Trainer._end_epoch

    def ended(self: Trainer, journal: Any) -> None:
        plain(self, journal)
        self.course.best_epoch, self.course.ended = 1, "epochs" if self.course.epoch == 4 else ""

    monkeypatch.setattr(Trainer, "_end_epoch", ended)
    model = ("-m", str(tune_kit.folder("small")), "-O", str(home / "run"), "--consent", "me, today")
    arguments = ("--name", "me", "--rank", "2", "--epochs", "4")
    assert omnitts("tune", str(folder), *arguments, *model, "--keep", "2").code == 0
    kept = sorted((home / "run" / "epochs").iterdir())
    assert [path.name for path in kept] == [f"epoch-00{n}-me.voice" for n in (1, 3, 4)]
    voice = voice_files.read(kept[0])
    assert voice.adapter is not None and voice.about["consent"] == "me, today" and voice.about["source"] == "epoch 1"
    rest = ("-o", "one.wav", "hello", "--max-frames", "4", "--retries", "0")
    assert omnitts("say", "-v", str(kept[0]), *rest).code == 0
    none = ("-O", str(home / "none"), "--keep", "0")
    assert omnitts("voices", "rm", "me", "-y").code == 0
    assert omnitts("tune", str(folder), *ARGUMENTS, *model[:2], "--consent", "me", *none).code == 0
    assert not (home / "none" / "epochs").exists()


def test_a_voice_that_speaks_too_fast_is_told(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, 0.1)
    kind, notices = run.compare, list[Notice]()
    monkeypatch.setattr(run, "compare", lambda cloned, tuned, pace, errs: kind(cloned, tuned, pace * 0.5, errs))
    omnitts_cli.tune(folder, "me", consent="me", model=tune_kit.folder("small"), epochs=1, rank=2, folder=home / "run",
                     tell=notices.append)  # fmt: skip
    assert len([notice for notice in notices if notice.hint and "samples" in notice.hint]) == 1
    # to a random model, the codes have none of the words
    assert len([notice for notice in notices if notice.hint and "omnitts clone" in notice.hint]) == 1
    assert len([notice for notice in notices if notice.hint and "--transcribe" in notice.hint]) == 1


def test_speakers_get_a_voice_each(omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, 0.1)
    lines = [f"{path.name},{path.with_suffix('.txt').read_text()},{'Ann B' if n % 2 else 'bob'}"
             for n, path in enumerate(sorted(folder.glob("*.wav")))]  # fmt: skip
    (folder / "metadata.csv").write_text("\n".join(["file_name,text,speaker", *lines]))
    model = ("-m", str(tune_kit.folder("small")), "--consent", "both", "--json")
    done = omnitts("tune", str(folder), *ARGUMENTS, *model).ended(0)
    assert done.json["speakers"] == {"Ann B": "me-ann-b", "bob": "me-bob"} and voice_files.names() == [
        "me-ann-b",
        "me-bob",
    ]
    one, other = (voice_files.load(name) for name in voice_files.names())
    assert one.adapter is not None and other.adapter is not None and one.adapter.sha256 == other.adapter.sha256
    assert not np.array_equal(one.voice.embedding, other.voice.embedding)
    assert omnitts("tune", str(folder), *ARGUMENTS, *model, "--full").code == 2


def test_all_weights_become_a_model_folder(
    omnitts: Omnitts, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, 0.1)
    modules: list[Any] = []
    forget = run.TuneRun.forget_learned

    def forgotten(self: run.TuneRun) -> None:
        forget(self)
        modules.append(self.pieces.language.module)

    monkeypatch.setattr(run.TuneRun, "forget_learned", forgotten)
    model = ("-m", str(tune_kit.folder("small")), "-O", str(home / "run"), "--consent", "me, today", "--json", "--full")
    done = omnitts("tune", str(folder), *ARGUMENTS, *model).ended(0)
    assert done.json["won"] and Path(done.json["voice"]) == home / "run" / "model" and voice_files.names() == []
    rest = ("-o", "me.wav", "hello", "--max-frames", "4", "--retries", "0")
    assert omnitts("say", "-m", done.json["voice"], "-v", "me", *rest).code == 0
    assert "me, today" in (home / "run" / "model" / "README.md").read_text()
    (listening,) = modules  # the model listens as it was
    before = dict(tune_kit.case("small").language.named_parameters())
    assert all(torch.equal(one, before[name]) for name, one in listening.named_parameters())


def test_a_recogniser_that_is_missing_is_2(omnitts: Omnitts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("faster_whisper", "pocketsphinx"):
        monkeypatch.setitem(sys.modules, name, None)
    done = omnitts("tune", str(folder), *ARGUMENTS, "--transcribe", "--consent", "me", "--json")
    assert done.code == 2 and "--ref-text" not in done.json["hint"]
    assert omnitts("tune", str(folder), *ARGUMENTS, "--asr-model", "base", "--consent", "me").code == 2


def test_the_same_call_continues(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, 0.1)
    names: list[str] = []

    def tuned() -> Any:
        names.clear()
        return omnitts_cli.tune(
            folder, "me", consent="me", model=tune_kit.folder("small"), epochs=1, rank=2, folder=home / "run",
            replace=True, look=lambda stage: names.append(stage.name),
        )  # fmt: skip

    first = tuned()
    assert "learning" in names
    again = tuned()
    assert "learning" not in names and again.course.best == first.course.best and again.won
    lines = [json.loads(line) for line in (home / "run" / "curves.jsonl").read_text().splitlines()]
    assert sum("held" in line for line in lines) == 2


def test_the_plan_says_how_all_weights_fit(omnitts: Omnitts, folder: Path) -> None:
    """And nothing of it if an adapter learns."""
    model = str(tune_kit.folder("small"))
    given = ("tune", str(folder), *ARGUMENTS, "-m", model, "--dry-run", "--json")
    found = [json.loads(omnitts(*given, *more).out) for more in ((), ("--full",), ("--full", "--max-memory", "300MB"))]
    assert "memory_bytes" not in found[0]
    assert not found[1]["half_moments"] and found[1]["memory_bytes"] > 0
    assert found[2]["half_moments"] and found[2]["recomputes"]
