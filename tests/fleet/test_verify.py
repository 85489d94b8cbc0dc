"""Verification: word errors, what else gives a bad take away, retries, and rows that never pass."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnitts_cli.fleet import job, verify
from omnitts_cli.fleet.speaker import RowSpeaker
from omnitts_cli.fleet.verify import TakeCheck, Verifier, aligned, silences, words_of
from omnitts_cli.speech.clip import Chunk

Call = Callable[..., Any]
RATE = 8000


def tone(seconds: float) -> np.ndarray:
    return (0.3 * np.sin(np.arange(int(seconds * RATE)) * 0.3)).astype(np.float32)


# ---- words


@pytest.mark.parametrize(("text", "language", "words"), [
    ("It's 25 %, Mr. O'Neil!", "en", ["its", "twenty", "five", "percent", "mister", "oneil"]),
    ("Ein schöner Tag – ja.", "de", ["ein", "schöner", "tag", "ja"]), ("你好，世界。", "zh", ["你", "好", "世", "界"]),
    ("안녕 하세요", "ko", ["안", "녕", "하", "세", "요"]), ("ＡＢＣ Été", "fr", ["abc", "été"]), ("?!", "en", []),
])  # fmt: skip
def test_both_sides_are_compared_in_the_same_words(text: str, language: str, words: list[str]) -> None:
    assert words_of(text, language) == words


@pytest.mark.parametrize(("text", "hypothesis", "errors", "missing", "before"), [
    ("a b c d", "a b c d", 0, False, ()), ("a b c d", "a b c", 1, True, ()), ("a b c d", "a b c x", 1, False, ()),
    ("a b c d", "x y a b c d", 2, False, ("x", "y")), ("a b c d", "b c d", 1, False, ()),
    ("a b c d", "", 4, True, ()), ("a", "a a", 1, False, ()), ("", "a", 1, False, ("a",)),
])  # fmt: skip
def test_alignment(text: str, hypothesis: str, errors: int, missing: bool, before: tuple[str, ...]) -> None:
    found = aligned(text.split(), hypothesis.split())
    assert (found.errors, found.words, found.last_missing) == (errors, len(text.split()), missing)
    assert not before or len(found.added_before) == len(before)


def test_the_distance_is_levenshteins() -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        one, other = (["abcd"[n] for n in draw.integers(0, 4, draw.integers(0, 9))] for _ in range(2))
        row = list(range(len(other) + 1))
        for i, word in enumerate(one, 1):
            before, row[0] = row[0], i
            for j, hypothesis in enumerate(other, 1):
                before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != hypothesis))
        assert aligned(one, other).errors == row[-1]


def test_silence_is_measured_between_sounds() -> None:
    quiet = np.zeros(RATE * 2, np.float32)
    assert silences(np.concatenate([quiet, tone(1), quiet, tone(1), quiet]), RATE) == pytest.approx(2.0, abs=0.05)
    assert silences(quiet, RATE) == pytest.approx(2.0) and silences(tone(1), RATE) < 0.05


# ---- verdicts


class Says:
    """A recogniser that always understands the same."""

    def __init__(self, hypothesis: str) -> None:
        self.text = hypothesis

    def words(self, sound: np.ndarray, language: str | None = None) -> str:
        return self.text


def verdict(text: str, hypothesis: str, sound: np.ndarray, clip: str | None = None) -> verify.Verdict:
    verifier = Verifier(Says(hypothesis), 0.2)
    take = TakeCheck(verifier, RATE, "en", longest_pause_s=0.6, speed=1.0, clip_words=clip)
    take.write(sound)
    take.sentence(text)
    found = take.verdict()
    verifier.close()
    return found


def test_what_a_bad_take_is_found_by() -> None:
    text = "one two three four five six"
    assert verdict(text, text, tone(2)).passed
    assert verdict(text, "one two three four five", tone(2)).reasons == ("last word missing",)
    assert verdict(text, "six seven eight", tone(2)).reasons[0] == "wer"
    gap = np.concatenate([tone(1), np.zeros(RATE * 3, np.float32), tone(1)])
    assert verdict(text, text, gap).reasons == ("silence inside",)
    assert verdict(text, f"friends {text}", tone(2), "hello my friends").reasons == ("words of the clip",)
    assert verdict(text, f"well {text}", tone(2), "hello my friends").passed
    assert verdict(text, "", np.zeros(RATE, np.float32)).wer == 1.0


def test_an_odd_tempo_is_found_once_the_usual_one_is_known() -> None:
    text = "one two three four five six"
    verifier = Verifier(Says(text), 0.2)

    def take(seconds: float) -> verify.Verdict:
        check = TakeCheck(verifier, RATE, "en", longest_pause_s=0.6, speed=1.0, clip_words=None)
        check.write(tone(seconds))
        check.sentence(text)
        return check.verdict()

    assert take(9).passed  # nothing to compare with
    for _ in range(verify.TEMPO_ROWS):
        assert take(2).passed
    assert take(9).reasons == ("tempo",) and take(2.5).passed and take(0.5).reasons == ("tempo",)
    verifier.close()


def test_long_rows_are_checked_in_spans_of_sentences() -> None:
    verifier = Verifier(Says("a b c"), 0.2)
    take = TakeCheck(verifier, RATE, "en", longest_pause_s=0.6, speed=1.0, clip_words=None)
    for _ in range(12):
        take.write(tone(5))
        take.sentence("a b c" if len(take._texts) == 0 else "")
    assert len(take._spans) == 2 and sum(part.size for part in take._sound) == 10 * RATE
    assert take.verdict().wer == 0.0
    verifier.close()


# ---- rows


@pytest.fixture
def recogniser(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """A recogniser that understands everything, but what a text asks it not to: its takes, counted."""
    takes: Counter[str] = Counter()
    expected = threading.local()
    original = Verifier._transcribe

    def transcribing(self: Verifier, sound: np.ndarray, rate: int, text: str, language: str | None) -> Any:
        expected.text = text
        return original(self, sound, rate, text, language)

    class Stand:
        def __init__(self, model: str | None, **options: Any) -> None:
            assert model == "base"

        def words(self, sound: np.ndarray, language: str | None = None) -> str:
            text: str = expected.text
            takes[text] += 1
            if "never" in text or ("once" in text and takes[text] == 1):
                return "something else"
            if "cut" in text and takes[text] == 1:
                return " ".join(text.split()[:-1])
            return text

    monkeypatch.setattr(Verifier, "_transcribe", transcribing)
    monkeypatch.setattr(job, "Whisper", Stand)
    return takes


TEXTS = ("This is good.", "This fails once or so.", "The end of this is cut off today.", "This can never pass.")
ASR = [
    "-m", "random:toy", "--max-frames", "8", "--verify", "asr", "--asr-model", "base", "--json", "--progress", "none",
]  # fmt: skip


def corpus(omnitts: Call, *more: str, code: int) -> list[dict[str, Any]]:
    Path("m.txt").write_text("\n".join(TEXTS))
    omnitts("batch", "m.txt", "-O", "out", *ASR, *more).ended(code)
    return [json.loads(line) for line in Path("out/manifest.jsonl").read_text().splitlines()]


def test_bad_takes_are_found_retried_and_reported(omnitts: Call, recogniser: Counter[str]) -> None:
    rows = corpus(omnitts, code=6)
    assert [row["tries"] for row in rows] == [1, 2, 2, 3]
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "unverified"]
    assert rows[1]["wer"] == 0.0 and rows[3]["wer"] > 0.2 and "wer" in rows[3]["message"]
    assert rows[3]["asr_text"] == "something else"
    report = Path("out/report.md").read_text()
    assert "| did not pass verification | 1 |" in report and "| 2 | 2 |" in report and "line 4" in report
    before = recogniser.total()
    corpus(omnitts, code=6)
    assert recogniser.total() == before  # a row that did not pass is not spoken again by itself
    rows = corpus(omnitts, "--retry-failed", code=6)
    assert rows[3]["tries"] == 6 and recogniser.total() == before + 3
    assert corpus(omnitts, "--keep-unverified", code=0)[3]["status"] == "unverified"


def test_the_best_take_is_kept(omnitts: Call, recogniser: Counter[str]) -> None:
    """Of takes that are equally bad the earliest; its seed makes the same speech."""
    rows = corpus(omnitts, "--tries", "2", "--seed", "4", code=6)
    assert rows[3]["tries"] == 2
    unverified = corpus(omnitts, "--tries", "1", "--seed", "4", code=6)[3]
    assert unverified["seed"] == rows[3]["seed"] and unverified["sha256"] == rows[3]["sha256"]
    assert list(Path("out/.omnitts/parts").iterdir()) == []


# ---- for real


class Planted:
    """A stream whose sound is not what its sentences say."""

    def __init__(self, real: Any, how: str, other: Any) -> None:
        self._real, self._how, self._other = real, how, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __iter__(self) -> Iterator[Chunk]:
        chunks = list(self._real)
        sound = np.concatenate([chunk.samples for chunk in chunks])
        if self._how == "cut":
            sound = sound[: int(sound.size * 0.55)]
        elif self._how == "silence":
            sound = np.concatenate(
                [sound[: sound.size // 2], np.zeros(3 * 24_000, np.float32), sound[sound.size // 2 :]]
            )
        else:
            sound = np.concatenate([chunk.samples for chunk in self._other])
        yield Chunk(sound, chunks[0].sample_rate)
        yield from (Chunk(sound[:0], chunk.sample_rate, chunk.sentence) for chunk in chunks if chunk.sentence)


def whisper_base() -> Path | None:
    """The folder of Whisper base, if the variable WHISPER_BASE names it."""
    named = os.environ.get("WHISPER_BASE")
    return Path(named) if named and Path(named, "model.bin").is_file() else None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(whisper_base() is None, reason="WHISPER_BASE does not name a model")
def test_planted_rows_are_found_by_whisper(omnitts: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faster_whisper")
    texts = [
        "Rice is often served in round bowls.", "Glue the sheet to the dark blue background.",
        "These days a chicken leg is a rare dish.", "The box was thrown beside the parked truck.",
        "Four hours of steady work faced us.", "A large size in stockings is hard to sell.",
    ]  # fmt: skip
    kinds = ("good", "cut", "wrong", "silence")
    rows = [  # with a seed of its own, or a row would be a copy of the one with the same text
        {"id": f"{how}{n}", "text": text, "seed": 10 * n + number}
        for n, text in enumerate(texts)
        for number, how in enumerate(kinds)
    ]
    Path("m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stream, first = RowSpeaker._stream, set[str]()

    def planted(self: RowSpeaker, row: Any, seed: int) -> Any:
        real = stream(self, row, seed)
        how = row.id.rstrip("0123456789")
        if how == "good" or row.id in first:
            return real
        first.add(row.id)
        other = (
            stream(self, row._replace(text="We had never seen such a thing before."), seed) if how == "wrong" else None
        )
        return Planted(real, how, other)

    monkeypatch.setattr(RowSpeaker, "_stream", planted)
    more = ("--verify", "asr", "--asr-model", str(whisper_base()), "-v", "clara", "--max-wer", "0.35")
    done = omnitts("batch", "m.jsonl", "-O", "out", "--seed", "1", *more)
    assert done.code in (0, 6), done.err
    found = {row["id"]: row for row in map(json.loads, Path("out/manifest.jsonl").read_text().splitlines())}
    good = [row for id, row in found.items() if id.startswith("good")]
    bad = [row for id, row in found.items() if not id.startswith("good")]
    assert all(row["tries"] > 1 for row in bad), [(row["id"], row["wer"]) for row in bad if row["tries"] == 1]
    assert sum(row["tries"] > 1 for row in good) <= 1
    assert sum(row["status"] == "ok" for row in found.values()) >= 0.9 * len(found)
