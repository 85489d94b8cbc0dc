"""Speed of answers: lengths that are kept, times in order, and a report in the known layout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from golden_set import thinker_folder

from omnitts_cli.bench.answers import Answered, AnswerWorkload, lines, measured, questions, steady
from omnitts_cli.speech.load_thinker import open_answer_loop

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def report() -> Any:
    settings = {"device": "cpu", "threads": 1}
    return measured(str(thinker_folder()), (1, 3), None, AnswerWorkload(20, 6), 5, settings)


def test_every_answer_has_the_wanted_length(report: Any) -> None:
    for users, level in zip((1, 3), report.levels, strict=True):
        assert level.concurrency == users
        assert level.requests == max(4, 2 * users)
        assert level.output_throughput * level.duration_s == pytest.approx(6 * level.requests)
        assert level.total_throughput * level.duration_s == pytest.approx(26 * level.requests)


def test_times_are_in_order(report: Any) -> None:
    for level in report.levels:
        assert 0 < level.ttft_ms["median"] < level.e2el_ms["median"] <= 1000 * level.duration_s
        assert level.e2el_ms["mean"] >= level.ttft_ms["mean"] + 5 * level.tpot_ms["mean"] - 1e-6
        assert level.itl_ms["mean"] == pytest.approx(level.tpot_ms["mean"])
    assert report.levels[0].steps == 4 * 6


def test_the_layout_is_that_of_other_engines(report: Any) -> None:
    text = "\n".join(lines(report.levels[0]))
    for line in ("Successful requests:", "Output token throughput (tok/s):", "Mean TTFT (ms):", "P99 ITL (ms):"):
        assert line in text
    assert "Total input tokens:                      80" in text
    assert {len(line) for line in text.splitlines()} == {50}


def test_questions_share_no_prefix() -> None:
    loop = open_answer_loop(str(thinker_folder()), device="cpu", slots=1, positions=64)
    made = [request for request, _ in questions(loop, 3, AnswerWorkload(40, 5), 1)]
    assert {len(request.prompt) for request in made} == {40}
    assert len({request.prompt[0] for request in made}) > 1
    assert all(request.ignore_end for request in made)


def test_spoken_answers_to_recordings() -> None:
    settings = {"device": "cpu", "threads": 1}
    work = AnswerWorkload(40, 8, spoken=True, recording_s=1.0)
    report = measured(str(thinker_folder()), (1, 2), 3, work, 5, settings)
    for level in report.levels:
        assert level.requests == 3
        assert (level.audio_frames, level.recording_s) == (60, 1.0)
        assert level.audio_s == pytest.approx(3 * (20 * 1920 - 555) / 24_000)
        assert level.output_throughput * level.duration_s == pytest.approx(24)
        assert 0 < level.ttft_ms["median"] <= level.audio_ttfp_ms["median"] <= level.e2el_ms["median"]
        assert level.audio_rtf["mean"] == pytest.approx(level.e2el_ms["mean"] / 1000 / (level.audio_s / 3))
    text = "\n".join(lines(report.levels[0]))
    for line in ("Total audio frames generated:            60", "Median AUDIO_TTFP (ms):", "P99 AUDIO_RTF:"):
        assert line in text
    assert {len(line) for line in text.splitlines()} == {50}


def test_the_steady_rate_counts_while_all_are_answered() -> None:
    answers = [Answered(0.0, [1.0, 2.0, 3.0, 4.0]), Answered(0.0, [1.5, 2.5, 3.5, 4.5])]
    assert steady(answers, 2) == pytest.approx(5 / 2.5)
    assert steady(answers, 3) is None


def test_the_command(omnitts: Call, home: Path) -> None:
    short = ["-m", str(thinker_folder()), "-d", "cpu", "-n", "2", "--prompt-tokens", "9", "--answer-tokens", "4"]
    done = omnitts("bench", "ask", *short, "-c", "1,2", "--save", "ask.json")
    assert done.code == 0
    assert done.out.decode().count("Serving Benchmark Result") == 2
    saved = json.loads(Path("ask.json").read_text())
    assert [level["concurrency"] for level in saved["levels"]] == [1, 2]
    done = omnitts("bench", "ask", *short, "-c", "2", "--json")
    assert "audio_rtf" not in done.json or done.json["audio_rtf"] is None
    assert (done.json["prompt_tokens"], done.json["requests"], done.json["dtype"]) == (9, 2, "float32")


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["answer"], "unexpected: answer"),
        (["ask", "--rate", "3"], "--rate has no effect with bench ask"),
        (["ask", "--url", "http://x"], "--url has no effect with bench ask"),
        (["--prompt-tokens", "9"], "--prompt-tokens is for omnitts bench ask"),
        (["--spoken"], "--spoken is for omnitts bench ask"),
    ],
)
def test_what_does_not_fit(arguments: list[str], said: str, omnitts: Call) -> None:
    done = omnitts("bench", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_question_without_room_for_its_recording(omnitts: Call) -> None:
    short = ["-m", str(thinker_folder()), "-d", "cpu", "-c", "1", "--prompt-tokens", "9", "--answer-tokens", "4"]
    done = omnitts("bench", "ask", *short, "--recording", "1")
    assert done.code == 2
    assert "too few for the chat template" in done.err
    again = omnitts("bench", "ask", *short[:-3], done.err.rpartition("--prompt-tokens ")[2].strip(), *short[-2:], "-n",
                    "1", "--recording", "1", "--spoken")  # fmt: skip
    assert again.code == 0
    assert "Mean AUDIO_RTF" in again.out.decode()
