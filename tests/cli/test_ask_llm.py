"""omnitts ask --llm: answers of other chat models, printed and spoken."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile
from chat_kit import DONE, company, event, small_model

Call = Callable[..., Any]
SPEAKER = ["-m", "random:toy", "-d", "cpu"]


def answer(asked: Any) -> Iterator[bytes]:
    yield event("Because of the air. ")
    yield event("It scatters light.") + DONE


def test_an_answer_is_printed_and_spoken(omnitts: Call, home: Path) -> None:
    with company(answer) as server:
        plain = omnitts("ask", "--llm", server.url, "Why?")
        assert (plain.code, plain.out.decode()) == (0, "Because of the air. It scatters light.\n"), plain.err
        assert [turn["role"] for turn in server.asked[0]["messages"]] == ["user"]
        spoken = omnitts("ask", "--llm", server.url, *SPEAKER, "-o", "answer.wav", "--json", "Why?")
        assert spoken.code == 0 and spoken.json["audio_s"] > 0.2 and spoken.json["tokens_out"] is None
        assert [turn["role"] for turn in server.asked[1]["messages"]] == ["system", "user"]
    assert soundfile.info("answer.wav").duration == pytest.approx(spoken.json["audio_s"], abs=0.01)


def test_a_conversation_is_kept_without_tokens(omnitts: Call, home: Path) -> None:
    with company(answer) as server:
        for _ in range(2):
            assert omnitts("ask", "--llm", server.url, "--chat", "talk.jsonl", "Why?").code == 0
        assert len(server.asked[1]["messages"]) == 3
    lines = [json.loads(line) for line in Path("talk.jsonl").read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant"] * 2 and not any("ids" in line for line in lines)


def test_lines_are_answered_in_order(omnitts: Call) -> None:
    with company(lambda asked: iter([event(asked["messages"][-1]["content"].upper()) + DONE])) as server:
        done = omnitts("ask", "--llm", server.url, "--lines", stdin=b"one\ntwo\n")
    assert done.out == b"ONE\nTWO\n"


def test_what_was_spoken_stays_when_a_server_fails(omnitts: Call, home: Path) -> None:
    with company(lambda asked: iter([event("Because of the air. ")])) as server:
        done = omnitts("ask", "--llm", server.url, *SPEAKER, "-o", "answer.wav", "Why?")
    assert done.code == 5 and "try:" in done.err and done.out.decode().startswith("Because of the air.")
    assert soundfile.info("answer.partial.wav").duration > 0.2 and not Path("answer.wav").exists()


def test_a_model_of_a_folder_answers(omnitts: Call, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = small_model(tmp_path / "chat")
    done = omnitts("ask", "--llm", f"hf:{folder}", "-d", "cpu", "--max-tokens", "6", "--json", "Why?")
    assert done.code == 0 and 0 < done.json["tokens_out"] <= 6 and done.json["tokens_in"] == 7


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--llm", "gpt"], 2), (["--llm", "hf:"], 2), (["--llm", "http://127.0.0.1:1/v1", "--audio", "x.wav"], 2),
     (["--llm", "http://127.0.0.1:1/v1"], 5), (["--llm", "hf:someone/nothing", "--offline", "-d", "cpu"], 4)],
)  # fmt: skip
def test_what_cannot_answer_is_refused(omnitts: Call, arguments: list[str], code: int) -> None:
    omnitts("ask", *arguments, "Why?").ended(code, "try:")
