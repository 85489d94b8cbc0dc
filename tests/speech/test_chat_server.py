"""Chat models behind a server: what is asked, spoken answers, and servers that fail."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from chat_kit import DONE, company, event
from patience import LONG_S

from omnitts_cli.errors import DeviceError, ModelError, UsageError
from omnitts_cli.models.thinker import Message
from omnitts_cli.speech import chat_server, tts
from omnitts_cli.speech.chat_model import ChatAssistant, ChatReply, Unthought
from omnitts_cli.speech.chat_server import ChatServer

TALK = [Message("system", "Be brief."), Message("user", "Why?")]


def told(*texts: str, end: bytes = DONE) -> Any:
    """An answer in these pieces."""
    return lambda asked: iter([*map(event, texts), end])


@pytest.fixture(scope="module")
def voice() -> Iterator[tts.TTS]:
    with tts.load("random:toy", threads=1, slots=2, device="cpu") as found:
        yield found


def test_an_answer_and_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_LLM_KEY", "secret")
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
    with company(told("Light ", "is blue.", end=b": a comment\n\n" + event("", "stop") + usage)) as server:
        answer = ChatAssistant(ChatServer(server.url)).reply(TALK, max_tokens=9, temperature=0.5, seed=3).answer()
    assert (answer.text, answer.stopped, answer.prompt_tokens, answer.tokens_out) == ("Light is blue.", "end", 7, 2)
    asked = server.asked[0]
    assert asked["model"] == "little" and asked["stream"] and asked["seed"] == 3 and asked["max_tokens"] == 9
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert server.keys == ["Bearer secret"]


def test_the_model_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with company(told("Yes.", end=event("", "length"))) as server:
        answer = ChatAssistant(ChatServer(f"{server.url}#large:4b")).reply(TALK).answer()
        assert answer.stopped == "limit" and answer.tokens_out is None and server.asked[0]["model"] == "large:4b"
        assert server.keys == [None]
        server.models = []
        with pytest.raises(ModelError):
            ChatServer(server.url)
    with pytest.raises(UsageError):
        ChatServer("http://example.org/v1", offline=True)
    monkeypatch.setenv("OMNITTS_LLM_KEY", "secret")
    with pytest.raises(UsageError):
        ChatServer("http://example.org/v1#any")  # the key would be sent unencrypted


def test_thoughts_are_neither_answered_nor_spoken(voice: tts.TTS) -> None:
    apart = b'data: {"choices": [{"delta": {"reasoning_content": "Blue?", "reasoning": "Blue?"}}]}\n\n'
    pieces = list("<think>\nIs it blue? 1 < 2.</think>\n\nIt is blue: 1 <th 2.<think>Or not?</think> Yes. <")
    with company(told(*pieces, end=apart + DONE)) as server:
        reply = ChatAssistant(ChatServer(server.url), voice).spoken_reply(TALK, seed=1)
        spoken = list[str]()
        write = reply._speech.write  # type: ignore[union-attr]
        reply._speech.write = lambda text: (spoken.append(text), write(text))  # type: ignore[union-attr, assignment]
        assert reply.answer().text == "".join(spoken) == "It is blue: 1 <th 2.Yes. <"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_thoughts_are_removed_wherever_they_are_cut(size: int) -> None:
    written = "<think>a</think>\n\n b <thin> c</think> d<think>e</think>f</thi <think>g"
    answer = Unthought()
    parts = [answer.add(written[i : i + size]) for i in range(0, len(written), size)] + [answer.rest()]
    assert "".join(parts) == "b <thin> cdf</thi "


def heard(reply: ChatReply) -> int:
    return sum(samples.size for samples in reply._sound)


def test_the_first_sentence_is_spoken_before_the_answer_is_complete(voice: tts.TTS) -> None:
    go = threading.Event()

    def answer(asked: Any) -> Iterator[bytes]:
        yield event("This is the first sentence. ")
        yield event("And this ")
        assert go.wait(LONG_S)  # until the first is spoken
        yield event("is the second.") + DONE

    with company(answer) as server:
        reply = ChatAssistant(ChatServer(server.url), voice).spoken_reply(TALK, seed=1)
        for one in reply.events():
            if one.samples.size:
                go.set()
        answered = reply.answer()
    assert answered.text == "This is the first sentence. And this is the second." and answered.stopped == "end"
    assert answered.clip is not None and answered.clip.samples.size == heard(reply) and answered.clip.codes.size
    assert answered.first_sound_s is not None and answered.first_sound_s < answered.text_s


def test_what_was_written_before_a_failure_is_spoken(voice: tts.TTS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_server, "SILENT_S", 0.2)
    silent = threading.Event()

    def stops(asked: Any) -> Iterator[bytes]:
        yield event("This is a sentence. ")
        silent.wait(LONG_S)

    for answer in (stops, told("This is a sentence. ", end=b""), told("This is a sentence.", end=b"data: no\n\n")):
        with company(answer) as server:
            reply = ChatAssistant(ChatServer(server.url), voice).spoken_reply(TALK, seed=1)
            with pytest.raises(DeviceError) as found:
                reply.answer()
            assert found.value.hint and heard(reply) > 1000
            silent.set()


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [(401, b"", DeviceError), (404, b'{"error": {"message": "no such model"}}', ModelError),
     (500, b"<html>", DeviceError), (200, b'data: {"error": "overloaded"}\n\n', DeviceError),
     (200, b"data: [1, 2]\n\n", DeviceError), (200, b"", DeviceError)],
)  # fmt: skip
def test_refusals_are_errors_with_a_next_step(status: int, said: bytes, kind: type[Exception]) -> None:
    with company(lambda asked: iter([said]), status) as server:
        with pytest.raises(kind) as found:
            ChatAssistant(ChatServer(server.url)).reply(TALK).answer()
    assert found.value.hint  # type: ignore[attr-defined]


def test_an_answer_that_is_closed_ends_its_speech(voice: tts.TTS) -> None:
    go = threading.Event()

    def answer(asked: Any) -> Iterator[bytes]:
        yield event("This is the first sentence. This is the second one. ")
        go.wait(LONG_S)

    with company(answer) as server:
        reply = ChatAssistant(ChatServer(server.url), voice).spoken_reply(TALK, seed=1)
        with reply:
            next(one for one in reply.events() if one.samples.size)
        assert reply.stopped == "cancelled"
        go.set()
    assert voice.speak("Still here.").samples.size
