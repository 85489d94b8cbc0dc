"""omnitts ask aloud: files, pipes, loudspeakers, many lines, conversations, signals, and what is refused."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from golden_set import silent_folder, thinker_case, thinker_folder
from omni_recipe import clip
from patience import LONG_S

Call = Callable[..., Any]
GOLDEN = thinker_case("text").meta
SYSTEM, QUESTION = (parts[0] for _, parts in GOLDEN["turns"])
SHORT = ["--max-tokens", "3", "--seed", "5"]


@pytest.fixture(scope="module")
def model() -> list[str]:
    return ["-m", str(thinker_folder()), "-d", "cpu", "--context", "512"]


@pytest.fixture(autouse=True)
def short_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random weights speak up to the limit for runaways: a second instead of eleven."""
    from omnitts_cli.engine import admission

    monkeypatch.setattr(admission, "GUARD_FRAMES", 8)
    monkeypatch.setattr(admission, "GUARD_FRAMES_PER_TOKEN", 2)


@pytest.fixture
def player(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for a loudspeaker: it stores what it plays."""
    folder, played = home / "bin", home / "played.raw"
    folder.mkdir()
    program = folder / "pw-play"
    program.write_text(f"#!/bin/sh\nexec cat > {played}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return played


def sound(path: str | Path) -> np.ndarray:
    return soundfile.read(path, dtype="int16")[0]


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal up to the rounding of chunks of other sizes, which depend on time."""
    return one.size == other.size and int(np.abs(one.astype(int) - other).max()) <= 2


def test_text_on_stdout_and_sound_in_a_file(omnitts: Call, model: list[str]) -> None:
    done = omnitts("ask", *model, *SHORT, "--system", SYSTEM, "-o", "a.wav", QUESTION)
    alone = omnitts("ask", *model, *SHORT, "--system", SYSTEM, "--text-only", QUESTION)
    assert done.code == alone.code == 0
    assert done.out == alone.out
    assert sound("a.wav").size > 1000
    again = omnitts("ask", *model, *SHORT, "--system", SYSTEM, "-o", "b.wav", "-v", "aiden", QUESTION)
    assert again.out == alone.out
    assert not same(sound("b.wav"), sound("a.wav"))
    again = omnitts("ask", *model, *SHORT, "--system", SYSTEM, "-o", "c.flac", "-v", "Ethan", QUESTION)
    assert same(sound("c.flac"), sound("a.wav"))


def test_events_come_as_they_are_made(omnitts: Call, model: list[str]) -> None:
    done = omnitts("ask", *model, *SHORT, "--json", "--stats", "--system", SYSTEM, "-o", "a.wav", QUESTION)
    events = [one["event"] for one in done.objects]
    assert set(events) == {"text", "sound", "done"}
    assert events.index("sound") < len(events) - 1 - events[::-1].index("text")
    end = done.json
    assert end["audio_s"] == pytest.approx(sum(one.get("audio_s", 0) for one in done.objects[:-1]), abs=0.01)
    assert end["audio_s"] == pytest.approx(sound("a.wav").size / 24_000, abs=0.001)
    assert 0 < end["ttft_ms"] < end["ttfs_ms"] < end["wall_ms"]
    assert end["rtf"] == pytest.approx(end["wall_ms"] / 1000 / end["audio_s"], rel=0.01)
    assert (end["output"], end["audio_tokens"], end["seed"]) == ("a.wav", 0, 5)
    assert "s of speech, first sound after" in done.err
    assert "seed 5" in done.err


def test_sound_on_stdout_and_text_on_stderr(omnitts: Call, model: list[str]) -> None:
    omnitts("ask", *model, *SHORT, "-o", "a.wav", QUESTION)
    done = omnitts("ask", *model, *SHORT, "-o", "-", QUESTION)
    wanted = omnitts("ask", *model, *SHORT, "-o", "b.wav", QUESTION).out.decode()
    assert done.code == 0
    assert done.out[:4] == b"RIFF"
    assert same(np.frombuffer(done.out[44:], "<i2"), sound("a.wav"))
    assert done.err.startswith(wanted[:5])
    assert omnitts("ask", *model, *SHORT, "-o", "-", "--play", QUESTION).code == 2


def test_a_spoken_question_gets_a_spoken_answer(omnitts: Call, model: list[str]) -> None:
    soundfile.write("question.wav", clip("mid"), 16_000)
    asked = ["--audio", "question.wav", "--system", SYSTEM, "--max-tokens", "8", "--seed", "7"]
    done = omnitts("ask", *model, *asked, "--json", "-o", "a.wav")
    assert done.json["text"] == thinker_case("audio").meta["text"]
    assert done.json["audio_tokens"] == 18
    assert sound("a.wav").size


def test_spoken_answers_have_a_style_of_their_own(omnitts: Call, model: list[str]) -> None:
    def tokens(*arguments: str) -> int:
        return omnitts("ask", *model, *SHORT, "--json", *arguments, QUESTION).json["tokens_in"]

    silent, spoken = tokens(), tokens("-o", "a.wav")
    assert spoken > silent + 100
    assert tokens("-o", "a.wav", "--system", "") == silent
    assert tokens("-o", "a.wav", "--system", SYSTEM) == tokens("--system", SYSTEM)


def test_the_style_is_kept_in_the_file_of_a_conversation(omnitts: Call, model: list[str]) -> None:
    talk = [*model, *SHORT, "--chat", "talk.jsonl", "-o", "a.wav"]
    assert omnitts("ask", *talk, "hello").code == 0
    lines = [json.loads(line) for line in Path("talk.jsonl").read_text().splitlines()]
    assert [line["role"] for line in lines] == ["system", "user", "assistant"]
    assert lines[0]["content"].startswith("You are Qwen-Omni")
    assert omnitts("ask", *talk, "and now?").code == 0
    lines = [json.loads(line)["role"] for line in Path("talk.jsonl").read_text().splitlines()]
    assert lines == ["system", "user", "assistant", "user", "assistant"]


def test_many_lines_each_with_its_file(omnitts: Call, model: list[str]) -> None:
    questions = ["hello", "this is a test", "hello world", "yes", "hello"]
    done = omnitts(
        "ask", *model, *SHORT, "--lines", "--json", "-O", "answers", "-F", "flac", stdin="\n".join(questions).encode()
    ).ended(0)
    assert [one["output"] for one in done.objects] == [f"answers/{n}.flac" for n in range(1, 6)]
    for one in done.objects:
        assert sound(one["output"]).size == pytest.approx(one["audio_s"] * 24_000, abs=24)
    assert same(sound("answers/1.flac"), sound("answers/5.flac"))
    assert omnitts("ask", *model, *SHORT, "-o", "a.flac", "hello").code == 0
    assert same(sound("a.flac"), sound("answers/1.flac"))


def test_playing(omnitts: Call, model: list[str], player: Path) -> None:
    omnitts("ask", *model, *SHORT, "--play", "-o", "a.wav", QUESTION).ended(0)
    made, played = sound("a.wav"), np.frombuffer(player.read_bytes(), "<i2")
    assert played.size > made.size  # silence at the end, for players that cut it
    omnitts("ask", *model, *SHORT, "--play", "--lines", stdin=QUESTION.encode()).ended(0)
    assert player.stat().st_size == 2 * played.size


def test_chunks_of_sound(omnitts: Call, model: list[str]) -> None:
    def chunks(*arguments: str) -> list[float]:
        done = omnitts("ask", *model, *SHORT, "--json", "-o", "a.wav", *arguments, QUESTION)
        return [one["audio_s"] for one in done.objects if one["event"] == "sound"]

    assert chunks("--first-chunk", "4", "--chunk", "4")[0] > 3 * chunks("--first-chunk", "1", "--chunk", "4")[0]


def test_an_empty_answer_is_a_file_without_sound(omnitts: Call, tmp_path: Path) -> None:
    silent = ["-m", str(silent_folder(tmp_path / "silent")), "-d", "cpu", "--context", "512"]
    done = omnitts("ask", *silent, "--json", "-o", "a.wav", "hello")
    assert (done.code, done.json["text"], done.json["audio_s"], done.json["ttfs_ms"]) == (0, "", 0, None)
    assert sound("a.wav").size == 0


def test_ctrl_c_keeps_the_speech_so_far(started: Call, model: list[str], home: Path) -> None:
    long = [*model[:-1], "4096", "--max-tokens", "3000", "--temperature", "1", "--seed", "0", "--json"]
    process = started("ask", *long, "-o", "a.wav", "--chat", "talk.jsonl", "hello")
    while (line := process.stdout.readline()) and b'"sound"' not in line:
        pass
    assert line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert "interrupted; the speech so far is in a.partial.wav" in err.decode()
    assert sound("a.partial.wav").size
    assert not Path("a.wav").exists()
    assert not Path("talk.jsonl").exists()


@pytest.mark.parametrize(
    "arguments, code, said, hint",
    [
        (("--text-only", "--play"), 2, "--play cannot be used with --text-only", None),
        (("--text-only", "-o", "a.wav"), 2, "-o cannot be used with --text-only", None),
        (("--text-only", "-v", "aiden"), 2, "--voice cannot be used with --text-only", None),
        (("-v", "aiden"), 2, "--voice is for spoken answers", "--play   or   -o answer.wav"),
        (("--first-chunk", "2"), 2, "--first-chunk and --chunk are for spoken answers", "-o answer.wav"),
        (("--text-only", "--chunk", "2"), 2, "--first-chunk and --chunk are for spoken answers", None),
        (("-O", "answers"), 2, "--output-dir is for --lines", "-o answer.wav"),
        (("-o", "none/a.wav"), 8, "none/a.wav", None),
        (("-o", "a.wav", "-v", "nobody"), 4, "voice 'nobody' not found", "omnitts voices list"),
        (("--play",), 5, "there is no sound output on this machine", None),
    ],
)
def test_what_is_refused(
    arguments: tuple[str, ...], code: int, said: str, hint: str | None, omnitts: Call, model: list[str], home: Path
) -> None:
    done = omnitts("ask", *model, *arguments, "hello")
    assert said in done.err
    assert (done.code, done.out) == (code, b"")
    assert hint is None or hint in done.err
    assert not list(home.glob("*.wav*"))


def test_only_one_answer_goes_to_a_file(omnitts: Call, model: list[str]) -> None:
    assert "-O DIR writes a file for each line" in omnitts("ask", *model, "--lines", "-o", "a.wav", stdin=b"hi").err


def test_settings_for_say_do_not_make_ask_speak(
    omnitts: Call, model: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"VOICE": "henry", "FIRST_CHUNK": "3", "CHUNK": "8"}.items():
        monkeypatch.setenv(f"OMNITTS_{name}", value)
    assert omnitts("ask", *model, "--max-tokens", "2", "hello").code == 0
    assert omnitts("ask", *model, "--max-tokens", "2", "-o", "a.wav", "hello").code == 0
