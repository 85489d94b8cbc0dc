"""The Python door to a model that answers: one question, many, conversations, threads, and early ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile
from golden_set import thinker_case, thinker_folder
from omni_recipe import clip

import omnitts_cli as omnitts
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.models.thinker import Message

GOLDEN = thinker_case("text").meta
SYSTEM, QUESTION = (parts[0] for _, parts in GOLDEN["turns"])


@pytest.fixture(scope="module")
def assistant() -> Iterator[omnitts.Assistant]:
    with omnitts.load_assistant(thinker_folder(), device="cpu", threads=1, context=256, slots=3) as opened:
        yield opened


def test_one_answer(assistant: omnitts.Assistant) -> None:
    answer = assistant.ask(QUESTION, system=SYSTEM, max_tokens=14)
    assert (answer.text, answer.stopped, answer.tokens) == (GOLDEN["text"], "end", tuple(GOLDEN["answer"][:-1]))
    assert answer.prompt_tokens == len(GOLDEN["prompt"])
    assert answer.first_s < answer.wall_s
    assert answer.tokens_per_s > 1


def test_a_stream_gives_whole_characters(assistant: omnitts.Assistant) -> None:
    cut = thinker_case("text_no_system").meta
    reply = assistant.stream(cut["turns"][0][1][0], max_tokens=6)
    pieces = list(reply)
    assert "".join(pieces) == cut["text"]
    assert all(pieces)
    assert reply.answer().text == cut["text"]


def test_many_questions_keep_their_order(assistant: omnitts.Assistant) -> None:
    questions = [QUESTION, "hello", "yes", "hello world", QUESTION]
    answers = assistant.ask_all(questions, system=SYSTEM, max_tokens=14)
    assert [one.text for one in answers] == [assistant.ask(q, system=SYSTEM, max_tokens=14).text for q in questions]
    assert answers[0].text == answers[-1].text == GOLDEN["text"]


def test_a_conversation_remembers_and_computes_only_what_is_new(assistant: omnitts.Assistant) -> None:
    talk = assistant.conversation(system=SYSTEM)
    first = talk.ask(QUESTION, max_tokens=14)
    second = talk.ask("hello", max_tokens=5)
    assert second.cached_tokens == first.prompt_tokens + len(first.tokens)
    assert [message.role for message in talk.messages] == ["system", "user", "assistant", "user", "assistant"]
    with omnitts.load_assistant(thinker_folder(), device="cpu", threads=1, context=256, slots=1) as fresh:
        again = fresh.conversation(talk.messages[:3]).ask("hello", max_tokens=5)
    assert again.cached_tokens == 0
    assert again.tokens == second.tokens


def test_an_early_end_frees_the_slot(assistant: omnitts.Assistant) -> None:
    for _ in range(5):
        with assistant.stream(QUESTION, system=SYSTEM, max_tokens=200) as reply:
            next(iter(reply))
        assert reply.stopped == "cancelled"
        assert list(reply) == []
    assert not assistant.loop.busy or assistant.loop.step() is not None
    assert assistant.ask(QUESTION, system=SYSTEM, max_tokens=14).text == GOLDEN["text"]


def test_a_spoken_question_and_a_written_one_after_it(tmp_path: Path) -> None:
    path = tmp_path / "q.flac"
    soundfile.write(path, clip("mid"), 16_000)
    with omnitts.load_assistant(thinker_folder(), device="cpu", threads=1, context=256, slots=1, sound=True) as opened:
        golden = thinker_case("audio").meta
        assert opened.ask(audio=path, system=SYSTEM, max_tokens=8).text == golden["text"]
        talk = opened.conversation(system=SYSTEM)
        first = talk.ask(audio=path, max_tokens=8)
        assert first.text == golden["text"]
        second = talk.ask("and now?", max_tokens=4)
        assert second.cached_tokens == first.prompt_tokens + len(first.tokens) - 1
        with pytest.raises(InputError, match="the question is empty"):
            opened.ask()


def test_without_ears_a_sound_is_refused(assistant: omnitts.Assistant, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "q.wav", clip("mid"), 16_000)
    with pytest.raises(UsageError, match="without its audio tower"):
        assistant.ask(audio=tmp_path / "q.wav")


def test_what_is_refused(assistant: omnitts.Assistant) -> None:
    with pytest.raises(InputError, match="the question is empty"):
        assistant.ask(" \n")
    with pytest.raises(UsageError, match="needs a question"):
        assistant.reply([Message("system", "x")])
    with pytest.raises(InputError, match="must not have more than 256"):
        assistant.ask("hello", max_tokens=250)
