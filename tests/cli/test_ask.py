"""omnitts ask: questions as words, from pipes, lines and files; conversations; and everything that is refused."""

import json
import os
import pty
import select
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import golden_set
import numpy as np
import pytest
import soundfile
from golden_set import thinker_case, thinker_folder
from omni_recipe import clip
from patience import LONG_S

from omnitts_cli.speech import chat_file, load_thinker

Call = Callable[..., Any]
GOLDEN = thinker_case("text").meta
SYSTEM, QUESTION = (parts[0] for _, parts in GOLDEN["turns"])
FIRST = thinker_case("text_cut").meta["text"]


@pytest.fixture(scope="module")
def model() -> list[str]:
    return ["-m", str(thinker_folder()), "-d", "cpu", "--context", "512"]


def test_an_answer_is_the_official_one(omnitts: Call, model: list[str]) -> None:
    done = omnitts("ask", *model, "--system", SYSTEM, QUESTION)
    assert (done.code, done.out.decode()) == (0, GOLDEN["text"] + "\n")
    assert done.err == ""
    same = omnitts("ask", *model, "--text-only", "--system", SYSTEM, *QUESTION.split(" "))
    assert same.out == done.out


def test_json_gives_the_text_as_it_is_written(omnitts: Call, model: list[str]) -> None:
    done = omnitts("ask", *model, "--json", "--system", SYSTEM, QUESTION)
    assert [one["event"] for one in done.objects[:-1]] == ["text"] * (len(done.objects) - 1)
    assert len(done.objects) > 4
    assert "".join(one["text"] for one in done.objects[:-1]) == GOLDEN["text"]
    end = done.json
    assert (end["event"], end["status"], end["stopped"], end["text"]) == ("done", "ok", "end", GOLDEN["text"])
    assert (end["tokens_in"], end["tokens_out"], end["tokens_cached"]) == (len(GOLDEN["prompt"]), 8, 0)
    assert 0 < end["ttft_ms"] < end["wall_ms"]


def test_stats_and_a_cut_answer(omnitts: Call, model: list[str]) -> None:
    done = omnitts("ask", *model, "--stats", "--max-tokens", "5", "--system", SYSTEM, QUESTION)
    assert done.out.decode() == FIRST + "\n"
    assert "the answer was cut after 5 tokens" in done.err
    assert "--max-tokens 10" in done.err
    assert "36 tokens in, 5 out, first after" in done.err


def test_stdin_follows_the_question(omnitts: Call, model: list[str]) -> None:
    def asked(*arguments: str, stdin: bytes) -> bytes:
        return omnitts("ask", *model, "--max-tokens", "4", *arguments, stdin=stdin).out

    whole = asked("what changed?\n\n+ a line\n- another", stdin=b"")
    assert asked("what changed?", stdin=b"+ a line\n- another\n") == whole
    assert asked(stdin=b"\xef\xbb\xbfwhat changed?\n\n+ a line\n- another\n") == whole
    assert asked("-", stdin=b"what changed?\n\n+ a line\n- another\n") == whole


def test_lines_are_answered_together_and_in_order(omnitts: Call, model: list[str]) -> None:
    questions = ["hello", "this is a test", "hello world", "don't you think so?", "hello", "yes"]
    single = [omnitts("ask", *model, "--max-tokens", "5", one).out.decode() for one in questions]
    done = omnitts("ask", *model, "--lines", "--max-tokens", "5", stdin="\n\n".join(questions).encode())
    assert done.out.decode().splitlines() == [" ".join(one.split()) for one in single]
    done = omnitts("ask", *model, "--lines", "--json", "--max-tokens", "5", stdin="\n".join(questions).encode())
    assert [(one["line"], one["asked"]) for one in done.objects] == list(enumerate(questions, 1))
    assert [one["text"] + "\n" for one in done.objects] == single


def test_a_conversation_in_a_file(omnitts: Call, model: list[str], home: Path) -> None:
    first = omnitts("ask", *model, "--chat", "talk.jsonl", "--system", SYSTEM, "--max-tokens", "5", "hello")
    lines = [json.loads(line) for line in Path("talk.jsonl").read_text().splitlines()]
    assert [line["role"] for line in lines] == ["system", "user", "assistant"]
    assert lines[2]["content"] + "\n" == first.out.decode()
    assert len(lines[2]["ids"]) == 5
    # a file that an editor left without its last line end is continued all the same
    Path("talk.jsonl").write_text(Path("talk.jsonl").read_text().rstrip("\n"))
    done = omnitts("ask", *model, "--chat", "talk.jsonl", "--json", "--max-tokens", "3", "and now?")
    assert done.json["tokens_in"] > 36
    lines = [json.loads(line) for line in Path("talk.jsonl").read_text().splitlines()]
    assert [line["role"] for line in lines] == ["system", "user", "assistant", "user", "assistant"]
    again = omnitts("ask", *model, "--chat", "talk.jsonl", "--system", "another", "hello").ended(2)
    assert "has a system prompt already" in again.err


def test_files_without_a_conversation(
    omnitts: Call, model: list[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, said in {"/dev/full": "is a pipe or a device, not a file", str(home): "is a folder, not a file"}.items():
        omnitts("ask", *model, "--chat", name, "hello").ended(3, said)
    Path("talk.jsonl").write_text('{"role": "user", "content": "hello"}\n')
    monkeypatch.setattr(chat_file.os, "access", lambda path, mode: path != Path("talk.jsonl"))
    done = omnitts("ask", *model, "--chat", "talk.jsonl", "hello")
    assert (done.code, done.out) == (8, b"")  # before the answer
    assert "cannot write conversation talk.jsonl: permission denied" in done.err


def test_settings_of_ask_alone(omnitts: Call, model: list[str], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.toml").write_text(
        f'temperature = 1.5\nmodel = "tiny"\nmax-tokens = 9\n[ask]\nmodel = "{model[1]}"\nmax-tokens = 5\n'
    )
    monkeypatch.setenv("OMNITTS_CONFIG", "mine.toml")
    monkeypatch.setenv("OMNITTS_TOP_K", "7")  # of `say`
    assert omnitts("ask", *model[2:], "--system", SYSTEM, QUESTION).out.decode() == FIRST + "\n"
    assert omnitts("ask", *model[2:], "--system", SYSTEM, "--max-tokens", "8", QUESTION).out.decode() != FIRST + "\n"
    Path("mine.toml").write_text("[ask]\ntemperature = 11\n")
    omnitts("ask", *model, "hello").ended(3, "temperature = 11 is not a number from 0 to 10")
    Path("mine.toml").write_text("[ask]\nmax-token = 11\n")
    assert "did you mean 'max-tokens'?" in omnitts("ask", *model, "hello").err


def test_a_sampled_answer_has_a_seed(omnitts: Call, model: list[str]) -> None:
    hot = ["--temperature", "2", "--max-tokens", "12", "hello"]
    one = omnitts("ask", *model, *hot, "--seed", "3").out
    assert omnitts("ask", *model, *hot, "--seed", "3").out == one
    assert omnitts("ask", *model, *hot, "--seed", "4").out != one
    done = omnitts("ask", *model, *hot, "--stats")
    seed = done.err.rpartition("seed ")[2].strip()
    assert omnitts("ask", *model, *hot, "--seed", seed).out == done.out


def test_an_empty_answer_is_delivered(omnitts: Call, tmp_path: Path) -> None:
    folder = golden_set.silent_folder(tmp_path / "silent")
    model = ["-m", str(folder), "-d", "cpu", "--context", "64", "--max-tokens", "9"]
    done = omnitts("ask", *model, "hello")
    assert (done.code, done.out) == (0, b"")
    done = omnitts("ask", *model, "--json", "--chat", "talk.jsonl", "hello")
    assert [one["event"] for one in done.objects] == ["done"]
    assert (done.json["text"], done.json["stopped"], done.json["ttft_ms"]) == ("", "end", None)
    assert omnitts("ask", *model, "--json", "--chat", "talk.jsonl", "again").json["stopped"] == "end"


@pytest.mark.parametrize("form", ["wav", "flac"])
def test_a_spoken_question(form: str, omnitts: Call, model: list[str], home: Path) -> None:
    golden, name = thinker_case("audio").meta, f"question.{form}"
    soundfile.write(name, clip("mid"), 16_000)
    done = omnitts("ask", *model, "--audio", name, "--system", SYSTEM, "--max-tokens", "8", "--json")
    assert (done.code, done.json["text"]) == (0, golden["text"])
    assert done.json["tokens_in"] == pytest.approx(len(golden["prompt"]), abs=2)


def test_recordings_from_pipes_of_other_programs(omnitts: Call, model: list[str], home: Path, tmp_path: Path) -> None:
    """A WAV head without lengths, as programs write to pipes, through stdin and through <(program)."""
    golden = thinker_case("audio").meta
    soundfile.write("question.wav", clip("mid"), 16_000)
    data = bytearray(Path("question.wav").read_bytes())
    data[4:8] = data[40:44] = b"\xff\xff\xff\xff"
    asked = ["ask", *model, "--system", SYSTEM, "--max-tokens", "8"]
    assert omnitts(*asked, "--audio", "-", stdin=bytes(data)).out.decode() == golden["text"] + "\n"
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_bytes, args=(bytes(data),), daemon=True)
    writer.start()
    assert omnitts(*asked, "--audio", "pipe").out.decode() == golden["text"] + "\n"
    writer.join(LONG_S)


def test_a_stereo_mp3_of_another_rate(omnitts: Call, model: list[str], home: Path) -> None:
    t = np.arange(44_100) / 44_100
    soundfile.write("q.mp3", np.stack([0.3 * np.sin(880 * t), 0.2 * np.sin(1000 * t)], 1), 44_100)
    done = omnitts("ask", *model, "--audio", "q.mp3", "--max-tokens", "2", "--json").ended(0)
    assert done.json["audio_tokens"] in (13, 14)


def test_words_of_a_pipe_follow_the_sound_too(omnitts: Call, model: list[str], home: Path) -> None:
    soundfile.write("question.wav", clip("mid"), 16_000)
    asked = ["ask", *model, "--audio", "question.wav", "--max-tokens", "4"]
    alone = omnitts(*asked).out
    assert omnitts(*asked, stdin=b"\n").out == alone
    assert omnitts(*asked, stdin=b"what is it?\n").out == omnitts(*asked, "what is it?").out != alone


@pytest.mark.slow
def test_ten_minutes_are_answered(omnitts: Call, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "patient"
    shutil.copytree(thinker_folder(), folder)
    config = json.loads((folder / "config.json").read_text())
    config["thinker_config"]["text_config"]["max_position_embeddings"] = 8192
    (folder / "config.json").write_text(json.dumps(config))
    soundfile.write("q.flac", np.random.default_rng(0).uniform(-0.1, 0.1, 600 * 8000), 8000)
    done = omnitts("ask", "-m", str(folder), "-d", "cpu", "--audio", "q.flac", "--max-tokens", "2", "--json").ended(0)
    assert (done.json["audio_tokens"], done.json["tokens_out"]) == (7800, 2)


def test_words_follow_the_sound(omnitts: Call, model: list[str], home: Path) -> None:
    golden = thinker_case("audio_text").meta
    soundfile.write("question.wav", clip("long"), 16_000)
    words = golden["turns"][1][1][1]
    done = omnitts("ask", *model, "--audio", "question.wav", "--system", SYSTEM, "--max-tokens", "8", words)
    assert done.out.decode() == golden["text"] + "\n"


@pytest.mark.parametrize(
    "seconds, content, said",
    [
        (0.05, None, ["at least 0.1 s is needed", "a recording of 0.1 s to 10 minutes"]),
        (601, None, ["lasts 10 min 01 s; at most 10 min 00 s can be read"]),
        (600.2, None, ["lasts 10 min 01 s; at most 10 min 00 s can be read", "ffmpeg -i q.wav -t 600 short.wav"]),
        (None, b"no sound at all, only words", ["is not audio"]),
        (None, b"", ["is an empty file", "a recording of 0.1 s to 10 minutes"]),
        (None, None, ["not found"]),
    ],
)
def test_sounds_that_cannot_be_questions(
    seconds: float | None, content: bytes | None, said: list[str], omnitts: Call, home: Path
) -> None:
    if seconds is not None:
        soundfile.write("q.wav", np.zeros(int(seconds * 8000), np.float32), 8000)
    elif content is not None:
        Path("q.wav").write_bytes(content)
    done = omnitts("ask", "-m", "random:omni-thinker", "-d", "cpu", "--audio", "q.wav")  # before the model is opened
    assert done.code == 3 and all(words in done.err for words in said), done.err
    assert "clone" not in done.err


@pytest.mark.parametrize(
    "arguments, stdin, code, said",
    [
        ((), b"", 3, "the question is empty"),
        (("  ",), b"", 3, "the question is empty"),
        (("-",), b"\n", 3, "the question is empty"),
        (("--lines",), b"\n \n", 3, "there is no question on stdin"),
        (("--lines", "hello"), b"", 2, "--lines reads its questions from stdin"),
        (("hello",), b"good\n\xff\xfe", 3, "stdin, line 2: not UTF-8"),
        (("--system", "@none.txt", "hello"), b"", 3, "cannot read system prompt none.txt"),
        (("--chat", "none/talk.jsonl", "hello"), b"", 3, "there is no such folder"),
        (("--context", "40", "--max-tokens", "99", "hello"), b"", 3, "has 10 tokens and the answer may have 99"),
        (("--context", "30", "--max-tokens", "1", "hello " * 30), b"", 3, "together they must not have more than 30"),
        (("--max-tokens", "0", "hello"), b"", 2, "--max-tokens '0' is not"),
        (("--seed", "99999999999999999999", "hello"), b"", 2, "--seed 9223372036854775807"),
        (("--lines",), b"hello\n" + b"word " * 600, 3, "question 2: the question has "),
    ],
)
def test_bad_questions(
    arguments: tuple[str, ...], stdin: bytes, code: int, said: str, omnitts: Call, model: list[str]
) -> None:
    model = model[:-2] if "--context" in arguments else model
    done = omnitts("ask", *model, *arguments, stdin=stdin).ended(code, said)
    assert done.out == b""


@pytest.mark.parametrize(
    "line",
    ["{", "[1]", '{"role": "robot", "content": "x"}', '{"role": "user"}',
     '{"role": "assistant", "content": "x", "ids": ["a"]}'],
)  # fmt: skip
def test_a_broken_line_of_a_conversation(line: str, omnitts: Call, model: list[str]) -> None:
    Path("talk.jsonl").write_text('{"role": "user", "content": "hello"}\n' + line + "\n")
    done = omnitts("ask", *model, "--json", "--chat", "talk.jsonl", "hello").ended(3)
    assert done.json["where"] == {"file": "talk.jsonl", "line": 2}


def test_a_conversation_that_does_not_fit(omnitts: Call, model: list[str]) -> None:
    Path("talk.jsonl").write_text('{"role": "user", "content": "%s"}\n' % ("word " * 600))
    done = omnitts("ask", *model, "--chat", "talk.jsonl", "hello").ended(3)
    assert "the conversation has " in done.err and "start a new conversation" in done.err


def test_no_download_is_proposed_that_would_not_fit(omnitts: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_thinker, "conversations", lambda device: (114 << 30, 0))
    done = omnitts("ask", "hello")
    assert done.code == 4 and "114.0 GiB" in done.err and "models pull" not in done.err


def test_models_that_cannot_answer(omnitts: Call, model: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_thinker, "conversations", lambda device: (114 << 30, 3))
    omnitts("ask", "-m", "tiny", "hello").ended(
        4, "tiny speaks text, but cannot answer questions", "omnitts ask -m omni"
    )
    done = omnitts("ask", "hello").ended(4, "the thinker of model 'omni' is not on this machine")
    assert "omnitts models pull omni --with-thinker   (65.7 GiB, once)" in done.err
    for name in ("0.6b", "1.7b-base", "codec"):  # never downloaded in vain
        assert "cannot answer questions" in omnitts("ask", "-m", name, "hello").err
    done = omnitts("models", "pull", "omni", "--with-thinker", "--offline")
    assert "omnitts models pull omni --with-thinker" in done.err
    omnitts("ask", "-m", str(golden_set.omni_folder()), "-d", "cpu", "hello").ended(4, "downloaded for speech only")
    omnitts("ask", "-m", "random:omni-thinker", "-d", "cpu", "hello").ended(5, "needs 113.7 GiB for its weights")
    omnitts("ask", "-m", "random:nothing", "hello").ended(4, "random:omni-thinker")


def test_ctrl_c_stops_an_answer(started: Call, model: list[str]) -> None:
    long = [*model[:-1], "4096", "--max-tokens", "4000", "--temperature", "1", "--seed", "0"]
    process = started("ask", *long, "--chat", "talk.jsonl", "hello")
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert out.endswith(b"\n")
    assert err.decode().strip() == "interrupted"
    assert not Path("talk.jsonl").exists()  # neither question nor half an answer


def test_a_reader_that_leaves(started: Call, model: list[str]) -> None:
    long = [*model[:-1], "4096", "--max-tokens", "4000", "--temperature", "1", "--seed", "0"]
    process = started("ask", *long, "hello")
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.wait(LONG_S) == 141


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--audio", "-"), "--audio - reads a recording from stdin, which is a terminal"),
        (("--no-input",), "no question was given, and --no-input is set"),
    ],
)
def test_what_a_terminal_cannot_give(arguments: tuple[str, ...], said: str, started: Call, model: list[str]) -> None:
    ours, theirs = pty.openpty()
    process = started("ask", *model, *arguments, stdin=theirs)
    os.close(theirs)
    _, err = process.communicate(timeout=LONG_S)
    os.close(ours)
    assert process.returncode == 2
    assert said in err.decode()


def test_a_conversation_at_a_terminal(started: Call, model: list[str]) -> None:
    ours, theirs = pty.openpty()
    pipes = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = started("ask", *model, "--max-tokens", "6", "--stats", **pipes)
    os.close(theirs)
    shown = ""

    def wait_for(word: str) -> str:
        nonlocal shown
        deadline = time.monotonic() + LONG_S
        while word not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 4096).decode("utf-8", "replace")
        before, _, shown = shown.partition(word)
        return before

    wait_for("> ")
    os.write(ours, b"hello\n")
    wait_for("6 out")
    wait_for("> ")
    os.write(ours, b"and now?\n")
    assert "cached" in wait_for("6 out")  # the first question and answer are not computed again
    wait_for("> ")
    os.write(ours, b"\x04")
    assert process.wait(LONG_S) == 0
