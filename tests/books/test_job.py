"""Books from the command: chapters, cover and tags by ffprobe; what is spoken again; killed runs; early errors."""

import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import soundfile
from books import PNG, epub, page, probe
from command import Done, Omnitts, Started, interrupted_in
from patience import LONG_S, eventually
from sounds import speech

from omnitts_cli.audio import pyav
from omnitts_cli.books.cache import UnitCache
from omnitts_cli.books.speaker import SAMPLE
from omnitts_cli.engine.engine import Engine, News
from omnitts_cli.speech.tts import TTS

needs_ffmpeg = pytest.mark.skipif(not (shutil.which("ffmpeg") and shutil.which("ffprobe")), reason="needs ffmpeg")

TOY = ["-m", "random:toy", "--max-frames", "6", "--progress", "none"]
FIELDS = "---\ntitle: A Book\nauthor: Jane Roe\n---\n"
BOOK = FIELDS + "# One; a = b\n\nFirst words.\n\n# Two # \\\\\n\n{}\n\n# Three\n\nLast words.\n"


def book(text: str = BOOK.format("Middle words."), name: str = "book.md") -> str:
    Path(name).write_text(text)
    return name


def made(omnitts: Omnitts, *arguments: str, work: str = "work") -> dict[str, Any]:
    done = omnitts("say", *TOY, "--json", "--work", work, *arguments).ended(0)
    return done.json


# ---- the finished file


def small_book(name: str = "book.epub", first: str = "One: a/b", **more: Any) -> str:
    pages = [(first, page("First words.", "One")), ("Two", page("Second words.", "Two"))]
    Path(name).write_bytes(epub(pages, title="The Title", **more))
    return name


def tags_of(path: str) -> dict[str, str]:
    found = probe(path)
    return {key.lower(): value for key, value in (found["format"].get("tags") or found["streams"][0]["tags"]).items()}


@needs_ffmpeg
@pytest.mark.parametrize("level", [(), ("--loudness", "-30")])
def test_a_folder_gets_a_file_for_each_chapter(omnitts: Omnitts, level: tuple[str, ...]) -> None:
    whole = made(omnitts, "-f", small_book(), "-o", "whole.flac", *level)
    made(omnitts, "-f", "book.epub", "-O", "out", "-F", "flac", *level)
    assert sorted(os.listdir("out")) == ["01 One a b.flac", "02 Two.flac"]
    made(omnitts, "-f", "book.epub", "-O", "m4a", "-F", "m4a", *level)
    for tags in (tags_of("out/02 Two.flac"), tags_of("m4a/02 Two.m4a")):
        assert (tags["title"], tags["album"], tags["artist"], tags["track"]) == ("Two", "The Title", "Jane Roe", "2/2")
    parts = [soundfile.read(f"out/{name}", dtype="int16")[0] for name in sorted(os.listdir("out"))]
    assert np.array_equal(np.concatenate(parts), soundfile.read("whole.flac", dtype="int16")[0])
    assert parts[0].size == round(whole["chapters"][1]["start"] * whole["sample_rate"])


def test_a_book_beside_other_files_has_no_folder(omnitts: Omnitts) -> None:
    Path("a.txt").write_text("Words.")
    done = omnitts("say", *TOY, "-f", "a.txt", "-f", small_book(), "-O", "out")
    assert done.code == 2 and "-f book.epub -O" in done.err and not Path("out").exists()


@needs_ffmpeg
def test_an_audiobook_of_an_epub(omnitts: Omnitts) -> None:
    items = '<item id="i" href="c.png" media-type="image/png" properties="cover-image"/>'
    name = small_book(first="One = #1; \\", items=items, OEBPS__c_dot_png=PNG)
    result = made(omnitts, "-f", name, "-o", "book.m4b")
    found = probe("book.m4b")
    assert [one["tags"]["title"].strip() for one in found["chapters"]] == ["One = #1; \\", "Two"]
    times = [(float(one["start_time"]), float(one["end_time"])) for one in found["chapters"]]
    assert times == [(one["start"], one["end"]) for one in result["chapters"]]
    assert times[0][0] == 0 and times[0][1] == times[1][0] and times[1][1] == result["audio_s"]
    assert abs(float(found["format"]["duration"]) - result["audio_s"]) < 0.03
    tags = found["format"]["tags"]
    assert (tags["title"], tags["artist"], tags["genre"]) == ("The Title", "Jane Roe", "Audiobook")
    kinds = {one["codec_type"]: one for one in found["streams"]}
    assert kinds["audio"]["codec_name"] == "aac" and kinds["audio"]["channels"] == 1
    assert kinds["video"]["codec_name"] == "png" and kinds["video"]["disposition"]["attached_pic"] == 1
    assert sorted(os.listdir()) == ["book.epub", "book.m4b", "work"]


@needs_ffmpeg
def test_typed_tags_a_cover_and_no_gap(omnitts: Omnitts) -> None:
    Path("c.png").write_bytes(PNG)
    made(
        omnitts, "-f", book(), "-o", "b.m4b", "--title", "T", "--author", "A", "--cover", "c.png", "--chapter-gap", "0"
    )
    found = probe("b.m4b")
    assert (found["format"]["tags"]["title"], found["format"]["tags"]["artist"]) == ("T", "A")
    assert [one["tags"]["title"].strip() for one in found["chapters"]] == ["One; a = b", "Two # \\", "Three"]
    assert any(one["codec_type"] == "video" for one in found["streams"])


def test_a_list_of_chapters_needs_no_model_and_no_output(omnitts: Omnitts) -> None:
    done = omnitts("say", "-f", book(), "--list-chapters", "-m", "nowhere")
    assert done.code == 0 and [line.split("\t")[2] for line in done.out.decode().splitlines()] == [
        "One; a = b", "Two # \\", "Three",
    ]  # fmt: skip
    rows = omnitts("say", "-f", "book.md", "--list-chapters", "--json", "--chapters", "2-").objects
    assert [(row["chapter"], row["title"]) for row in rows] == [(2, "Two # \\"), (3, "Three")]
    assert os.listdir() == ["book.md"]


def test_some_chapters_into_a_wave_file(omnitts: Omnitts) -> None:
    every = made(omnitts, "-f", book(), "-o", "all.wav", "--chapters", "1-")
    some = made(omnitts, "-f", "book.md", "-o", "a.wav", "--chapters", "3,1", "--subs", "a.srt")
    assert [row["chapter"] for row in some["chapters"]] == [1, 3] and some["spoken"] == 0
    sound, rate = soundfile.read("a.wav")
    whole, _ = soundfile.read("all.wav")
    cut = round(every["chapters"][0]["end"] * rate)
    assert rate == 8000 and len(sound) == round(some["audio_s"] * rate) and np.array_equal(sound[:cut], whole[:cut])
    assert Path("a.srt").read_text().count("-->") == 4


@needs_ffmpeg
@pytest.mark.parametrize("name", ["a.opus", "a.flac", "a.mp3", "a.ogg", "a.m4a"])
def test_every_format_has_tags_and_chapters(omnitts: Omnitts, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AAC alone needs ffmpeg."""
    with monkeypatch.context() as patch:
        if name != "a.m4a":
            patch.setenv("PATH", "")
        result = made(omnitts, "-f", book(), "-o", name)
    tags = tags_of(name)
    assert (tags["title"], tags["artist"]) == ("A Book", "Jane Roe")
    found = [(one["tags"]["title"], float(one["start_time"])) for one in probe(name)["chapters"]]
    assert found == [(row["title"], pytest.approx(row["start"], abs=0.002)) for row in result["chapters"]]
    assert sorted(os.listdir()) == [name, "book.md", "work"]


def test_the_same_sound_however_many_slots(omnitts: Omnitts) -> None:
    """Without any other option: books have a seed of their own."""
    for slots in ("1", "3"):
        made(omnitts, "-f", small_book(), "-o", f"{slots}.wav", "-b", slots, work=f"work{slots}")
    assert Path("1.wav").read_bytes() == Path("3.wav").read_bytes()


def test_one_loudness_for_the_whole_book(omnitts: Omnitts) -> None:
    from omnitts_cli.audio.loudness import lufs

    made(omnitts, "-f", book(), "-o", "plain.wav", "--chapters", "1-")
    result = made(
        omnitts, "-f", "book.md", "-o", "level.wav", "--chapters", "1-", "--loudness", "-30", "--subtype", "pcm24"
    )
    plain, level = (soundfile.read(name)[0].astype(np.float32) for name in ("plain.wav", "level.wav"))
    assert abs(lufs(level, 8000) + 30) < 0.2 and len(plain) == len(level) == round(result["audio_s"] * 8000)
    again = made(
        omnitts, "-f", "book.md", "-o", "again.wav", "--chapters", "1-", "--loudness", "-35", "--subtype", "pcm24"
    )
    assert again["spoken"] == 0  # a gain is no reason to speak again


@pytest.mark.parametrize("more", [["-f", "book.md", "--chapters", "1-"], ["First words. Middle words."]])
def test_subtitles_by_words(omnitts: Omnitts, more: list[str]) -> None:
    book()
    for name in ("a.json", "b.json"):
        work = ["--work", "work"] if "-f" in more else []
        omnitts("say", *TOY, "--seed", "3", *work, "-o", "a.wav", "--subs", name, "--subs-by", "words", *more).ended(0)
    assert Path("a.json").read_text() == Path("b.json").read_text()
    assert json.loads(Path("a.json").read_text())["words_by"] == "alignment"
    for row in json.loads(Path("a.json").read_text())["sentences"]:
        assert " ".join(word for _, _, word in row["words"]) == row["text"]
        times = [row["start"], *(time for start, end, _ in row["words"] for time in (start, end)), row["end"]]
        assert times == sorted(times)


class HalfEach:
    """A recogniser for which words follow each other at once, from the middle of the sound."""

    calls: ClassVar[list[list[str]]] = []

    def __init__(self, model: str, *, offline: bool) -> None:
        self.model = model

    def place(self, sound: np.ndarray, words: list[str], language: str | None) -> list[float]:
        self.calls.append(words)
        half = sound.size / 32_000
        return [half + half * number / len(words) for number in range(len(words) + 1)]


@pytest.mark.parametrize("more", [["-f", "book.md", "--chapters", "1-"], ["First words. Middle words."]])
def test_subtitles_by_a_recogniser(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, more: list[str]) -> None:
    """Also for a book, whose cache knows what has found the words."""
    monkeypatch.setattr("omnitts_cli.speech.recognised.Whisper", HalfEach)
    monkeypatch.setattr(HalfEach, "calls", [])
    book()
    work = ["--work", "work"] if "-f" in more else []
    common = ("say", *TOY, "--seed", "3", *work, "-o", "a.wav", "--subs", "words")
    for number, recogniser in enumerate(([], ["--asr-model", "some/base"], ["--asr-model", "some/base"])):
        assert omnitts(*common, *recogniser, *more).code == 0
        assert len(HalfEach.calls) == (0 if not number else 6 if work else number)
    made = json.loads(Path("a.json").read_text())
    assert made["words_by"] == "faster-whisper base"
    for row in made["sentences"]:
        assert " ".join(word for _, _, word in row["words"]) == row["text"]
        assert row["words"][0][0] >= (row["start"] + row["end"]) / 2 - 0.01
    assert sorted(path.name for path in Path().glob("a.*")) == ["a.json", "a.srt", "a.vtt", "a.wav"]
    assert "<c>Middle</c>" in Path("a.vtt").read_text() and "Middle words." in Path("a.srt").read_text()


def test_subtitles_in_all_formats_need_a_file(omnitts: Omnitts) -> None:
    for output in (["-o", "-"], ["--play"], ["-o", "/dev/null"]):
        done = omnitts("say", "Hello.", *output, "--subs", "words", "-m", "nowhere")
        assert done.code == 2 and "--subs words needs the name of an output file" in done.err
    Path("a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHi.\n")
    done = omnitts("say", "-f", "a.srt", "-o", "a.wav", "--subs", "words")
    assert done.code == 3 and "a.srt would be overwritten, but it is read too" in done.err
    done = omnitts("say", "Hello.", *TOY, "-o", "a.wav", "--subs", "words", "--no-clobber")
    assert done.code == 3 and "a.srt" in done.err and os.listdir() == ["a.srt"]


def test_a_missing_recogniser_is_found_before_the_work(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("empty").mkdir()
    book()
    for more in (["-f", "book.md", "--chapters", "1-"], ["Hello."]):
        common = ("say", *more, "-m", "nowhere", "-o", "a.wav", "--subs", "words", "--offline", "--asr-model", "empty")
        with monkeypatch.context() as missing:
            missing.setitem(sys.modules, "faster_whisper", None)
            done = omnitts(*common)
        assert done.code == 2 and "--asr-model needs faster-whisper, which is not installed" in done.err
        pytest.importorskip("faster_whisper")
        omnitts(*common).ended(4, "empty is not a speech recogniser of faster-whisper")
        assert sorted(os.listdir()) == ["book.md", "empty"]


# ---- what is spoken again


def test_only_what_changed_is_spoken_again(omnitts: Omnitts) -> None:
    first = made(omnitts, "-f", book(), "-o", "a.wav", "--chapters", "1-")
    assert (first["spoken"], first["units"]) == (3, 3)
    assert made(omnitts, "-f", "book.md", "-o", "b.wav", "--chapters", "1-")["spoken"] == 0
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()
    changed = made(omnitts, "-f", book(BOOK.format("Other words.")), "-o", "c.wav", "--chapters", "1-")
    assert [row["spoken"] for row in changed["chapters"]] == [0, 1, 0]
    for more in (["-v", "ann", "--seed", "3"], ["--speed", "1.2"], ["--temperature", "0.5"]):
        assert made(omnitts, "-f", "book.md", "-o", "d.wav", "--chapters", "1-", *more)["spoken"] == 3


def test_a_damaged_part_is_spoken_again(omnitts: Omnitts) -> None:
    made(omnitts, "-f", book(), "-o", "a.wav", "--chapters", "1-")
    one, other = sorted(Path("work").glob("??/*.flac"))[:2]
    one.write_bytes(one.read_bytes()[:-10])
    other.with_suffix(".json").write_text("{")
    assert made(omnitts, "-f", "book.md", "-o", "b.wav", "--chapters", "1-")["spoken"] == 2
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


def test_a_killed_run_goes_on_where_it_was(omnitts: Omnitts, started: Started) -> None:
    text = "".join(f"# Chapter {n}\n\n" + f"Sentence {n} of the book. " * 40 + "\n\n" for n in range(1, 9))
    target = ["-f", book(text), "-o", "a.wav", "--chapters", "1-", "-b", "2"]
    process = started("say", *TOY, "--work", "work", *target)
    until = time.monotonic() + LONG_S
    while len(list(Path("work").glob("??/*.json"))) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in Path("work").glob("??/*.flac")}
    result = made(omnitts, *target)
    assert 2 <= len(kept) < result["units"] and result["spoken"] <= result["units"] - len(kept) + 1
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert list(Path("work/runs").iterdir()) == []
    made(omnitts, *target[:2], "-o", "b.wav", *target[4:], work="fresh")
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


def test_an_interrupted_run_says_that_it_can_go_on(started: Started) -> None:
    target = ["-f", book("# A\n\n" + "Words of a book. " * 3000), "-o", "a.wav", "--chapters", "1"]
    process = started("say", *TOY, "--work", "work", *target)
    eventually(lambda: list(Path("work").glob("??/*.json")) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130 and b"the same command continues" in err
    assert sorted(os.listdir()) == ["book.md", "work"] and list(Path("work/runs").iterdir()) == []


@pytest.mark.parametrize(
    ("place", "name", "call"),
    [
        (threading.Thread, "start", 1),
        (threading.Thread, "start", 3),  # of many: the others have not begun
        (TTS, "open", 1),
        (UnitCache, "put", 1),
        (UnitCache, "put", 2),
    ],
)
def test_ctrl_c_is_always_130(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, place: type, name: str, call: int
) -> None:
    calls = interrupted_in(monkeypatch, place, name, call)
    text = "# A\n\n" + "".join(f"Paragraph {number} of a book.\n\n" for number in range(60))
    done = omnitts("say", *TOY, "--work", "work", "-f", book(text), "-o", "a.wav", "--chapters", "1", "-b", "2")
    assert done.code == 130 and next(calls) > call
    assert done.err.splitlines()[-1] == "interrupted; finished parts are kept, and the same command continues"
    assert "Traceback" not in done.err
    assert sorted(os.listdir()) == ["book.md", "work"] and list(Path("work/runs").iterdir()) == []


# ---- dialogues

PLAY = """Scene one.

A street.

ANNA: Hello, Ben.
BEN: Hello, Anna. How are you?
Anna: Fine. [voice: BEN] So am I.
[voice: narrator]

They leave.
"""


@pytest.fixture
def cast() -> str:
    soundfile.write("ben.wav", speech(4.0), 24_000)
    members = {"ANNA": {"voice": "ann"}, "BEN": {"ref_audio": "ben.wav"}, "NARRATOR": {"description": "a low voice"}}
    Path("cast.json").write_text(json.dumps(members))
    return "cast.json"


def test_a_play_is_spoken_in_order_by_its_cast(omnitts: Omnitts, cast: str) -> None:
    Path("play.txt").write_text(PLAY)
    result = made(omnitts, "-f", "play.txt", "--cast", cast, "-o", "play.wav", "--subs", "play.json")
    spoken = [row["text"] for row in json.loads(Path("play.json").read_text())["sentences"]]
    assert " ".join(spoken) == "Scene one. A street. Hello, Ben. Hello, Anna. How are you? Fine. So am I. They leave."
    assert result["units"] == 6 and result["spoken"] == 6


def test_twenty_parts_together_come_in_order(omnitts: Omnitts, cast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, cloned and described voices share the batch of one model."""
    step, beside = Engine.step, []

    def counted(self: Engine) -> list[News]:
        speaking = [one for one in self._admitted if one.has_columns]
        beside.append({type(one.request.voice).__name__ for one in speaking})
        most.append(len(speaking))
        return step(self)

    most: list[int] = []
    monkeypatch.setattr(Engine, "step", counted)
    names = ["ANNA", "BEN", "NARRATOR", "Ben"]
    lines = [(names[n % 4], f"Line number {n} is here.") for n in range(20)]
    Path("play.txt").write_text("\n\n".join(f"{name}: {words}" for name, words in lines))
    result = made(omnitts, "-f", "play.txt", "--cast", cast, "-o", "a.wav", "--subs", "a.json", "-b", "8")
    assert [row["text"] for row in json.loads(Path("a.json").read_text())["sentences"]] == [one for _, one in lines]
    assert result["units"] == 20 and len(result["models"]) == 1
    assert max(most) >= 6 and max(map(len, beside)) == 2


@pytest.mark.parametrize(("more", "cloned"), [([], [SAMPLE]), (["--chapters", "2"], [])])
def test_a_described_character_is_one_person(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, more: list[str], cloned: list[str]
) -> None:
    """The clone of one sentence in the described voice, made only for what has to be spoken."""
    clone, transcripts = TTS.clone, []

    def noted(self: TTS, audio: Any, transcript: str | None = None, **options: Any) -> Any:
        transcripts.append(transcript)
        return clone(self, audio, transcript, **options)

    monkeypatch.setattr(TTS, "clone", noted)
    Path("cast.json").write_text('{"EVE": {"description": "a low voice", "seed": 7}, "ANNA": "ann"}')
    Path("play.md").write_text("# One\n\nEVE: Hello.\n\nANNA: Yes.\n\nEVE: Good.\n\n# Two\n\nANNA: Bye.\n")
    for output in ("a.wav", "b.wav"):
        made(omnitts, "-f", "play.md", "--cast", "cast.json", "-o", output, *more)
    assert transcripts == cloned and Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("ANA: Hello.", "'ANA' is not in the cast", "ANNA"),
        ("[voice: Bob] Hello.", "'Bob' is not in the cast", "add it to cast.json"),
    ],
)
def test_unknown_characters_are_refused_first(omnitts: Omnitts, cast: str, text: str, message: str, hint: str) -> None:
    Path("play.md").write_text(f"# Act\n\nANNA: Well.\n\n{text}\n")
    done = omnitts("say", "-f", "play.md", "--cast", cast, "-o", "play.m4b", "-m", "nowhere")
    assert done.code == 3 and message in done.err and "ANNA, BEN, NARRATOR" in done.err and hint in done.err
    assert not Path("play.m4b").exists()


def test_a_tag_may_name_a_voice_that_is_not_in_the_cast(omnitts: Omnitts, cast: str) -> None:
    """Of the model, or a saved one; a line with a name is a character, and must be in the cast."""
    common = ("say", "-m", "tiny", "--cast", cast, "--list-chapters", "-f", "play.md")
    for text, code in (("[voice: Emily] Hello.", 0), ("EMILY: Hello.", 3), ("[voice: emliy] Hello.", 3)):
        Path("play.md").write_text(f"ANNA: Well.\n\n{text}\n")
        done = omnitts(*common)
        assert done.code == code and (not code or "is not in the cast" in done.err), (text, done.err)


def test_voices_in_the_text_without_a_cast(omnitts: Omnitts) -> None:
    result = made(omnitts, "--dialogue", "-o", "a.wav", "One. [voice: ann] Two. [voice: default] Three.")
    assert result["units"] == 3
    done = omnitts("say", *TOY, "--work", "work", "--dialogue", "-o", "b.wav", "[voice: nobody] Hello.")
    assert done.code == 4 and "voice 'nobody' not found" in done.err and not Path("b.wav").exists()
    plain = made(omnitts, "-f", book("# A\n\n[voice: x] is read."), "-o", "c.wav", "--chapters", "1")
    assert plain["units"] == 1  # without --dialogue, brackets are words


@pytest.mark.parametrize("text", ["[voice: henri] Hello.", "Hello. [voice: clara] Hello. [voice: henri] Hello."])
def test_an_unknown_voice_is_refused_before_loading(
    omnitts: Omnitts, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("omnitts_cli.speech.load.load_model", load)
    done = omnitts("say", "-m", "tiny", "--work", "work", "--dialogue", "-o", "a.wav", text)
    assert done.code == 4 and "voice 'henri' not found" in done.err and "did you mean 'henry'?" in done.err
    assert not Path("a.wav").exists()
    done = omnitts("say", "-m", "tiny", "--work", "work", "--dialogue", "-o", "a.wav", "[voice: Clara] Hello.")
    assert "a model was loaded" in done.err  # names are compared without case


# ---- errors before work


def refused(omnitts: Omnitts, code: int, *arguments: str) -> Done:
    """An error before a model is opened: there is none of that name."""
    done = omnitts("say", "-m", "nowhere", "--work", "work", *arguments).ended(code)
    assert not list(Path().glob("*.m4b")) and not list(Path().glob(".*"))
    return done


def test_no_ffmpeg(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(pyav, "present", lambda: False)
    done = refused(omnitts, 5, "-f", book(), "-o", "b.m4b")
    assert "b.m4b needs ffmpeg" in done.err and "apt install ffmpeg" in done.err and "-o b.opus" in done.err


@needs_ffmpeg
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-f", "gone.epub", "-o", "b.m4b"], 3, "cannot read text file gone.epub"),
        (["-f", "bad.epub", "-o", "b.m4b"], 3, "not an EPUB file"),
        (["-f", "book.md", "-o", "b.m4b", "--chapters", "9"], 2, "the book has 3 chapters"),
        (["-f", "book.md", "-o", "b.m4b", "--chapters", "0"], 2, "--chapters 1-3   (--list-chapters shows them)"),
        (["-f", "book.md", "-o", "b.m4b", "--chapters", "3-1"], 2, "--chapters 1-3"),
        (["-f", "book.md", "-o", "b.m4b", "--cover", "book.md"], 3, "not a JPEG or PNG"),
        (["-f", "book.md", "-o", "gone/b.m4b"], 8, "folder does not exist"),
        (["-f", "book.md", "-o", "b.m4b", "--cast", "gone.json"], 3, "cannot read cast gone.json"),
        (["-f", "book.md", "-o", "b.m4b", "--codes", "c.safetensors"], 2, "--codes"),
        (["-f", "book.md", "-o", "b.m4b", "--play"], 2, "--play"),
        (["-f", "book.md", "-O", "out", "--chapters", "1", "--subs", "a.srt"], 2, "single output"),
        (["-f", "book.md", "-o", "b.m4b", "--via", "http://127.0.0.1:9"], 2, "--via"),
        (["-f", "book.md", "-o", "b.m4b", "--no-clobber", "--subs", "a.txt"], 2, "not a subtitle format"),
        (["-f", "book.md", "-o", "b.m4b"], 4, "nowhere"),
    ],
)
def test_errors_before_work(omnitts: Omnitts, arguments: list[str], code: int, message: str) -> None:
    book()
    Path("bad.epub").write_bytes(b"PK\3\4 not really")
    assert message in refused(omnitts, code, *arguments).err


def test_an_audiobook_through_pyav(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ffmpeg: chapters, tags and cover, read back."""
    av = pytest.importorskip("av")
    monkeypatch.setenv("PATH", "")
    Path("c.png").write_bytes(PNG)
    result = made(omnitts, "-f", small_book(), "-o", "book.m4b", "--cover", "c.png")
    with av.open("book.m4b") as found:
        chapters = [(one["metadata"]["title"], float(one["start"] * one["time_base"])) for one in found.chapters()]
        assert chapters == [(one["title"], pytest.approx(one["start"], abs=0.001)) for one in result["chapters"]]
        assert found.metadata["title"] == "The Title" and found.streams.video[0].codec_context.name == "png"
        assert found.streams.audio[0].codec_context.name == "aac"
    assert sorted(os.listdir()) == ["book.epub", "book.m4b", "c.png", "work"]
    assert omnitts("say", *TOY, "-o", "a.m4a", "Hello there.").code == 0 and Path("a.m4a").stat().st_size > 500
