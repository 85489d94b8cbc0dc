"""Live speech: where words are cut, and that every one of them is fed in order."""

import gc
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from omnitts_cli.errors import InputError, Notice
from omnitts_cli.request import Request
from omnitts_cli.speech import load
from omnitts_cli.speech.clip import Clip
from omnitts_cli.speech.live import ENOUGH_CHARS, LiveStream, cut
from omnitts_cli.speech.loop import Loop
from omnitts_cli.speech.speaking import Manner
from omnitts_cli.text.reading import reader

WORDS = [f"word{n} and " for n in range(60)] + ["now it ends. ", "Here is ", "another one."]


def test_parts_end_with_their_sentences() -> None:
    assert list(cut("One. Two")) == [("One.", True), (" Two", False)]
    assert list(cut("3.5 is")) == [("3.5 is", False)]
    assert [part for part, _ in cut("一。二。")] == ["一。", "二。"]


def spoken(texts: Iterator[str], **how: Any) -> tuple[Any, Clip, list[str]]:
    fed: list[str] = []
    loop = Loop(load.open_engine("random:toy", threads=1))
    plain_submit, plain_feed = loop.submit, loop.feed

    def submit(request: Request, *given: Any, **more: Any) -> str:
        fed.append(request.text)
        return plain_submit(request, *given, **more)

    def feed(name: str, text: str) -> None:
        fed[-1] += text
        plain_feed(name, text)

    loop.submit, loop.feed = submit, feed  # type: ignore[method-assign]
    with closing(loop):
        stream = LiveStream(loop, 8000, Manner(Request(""), seed=5, **how), texts)
        return stream.account, stream.clip(), fed


def test_every_word_is_fed_and_a_new_request_takes_over() -> None:
    account, clip, fed = spoken(iter(WORDS))
    assert "".join("".join(fed).split()) == "".join("".join(WORDS).split())
    assert len(fed) == account.pieces == 2
    assert len(fed[0]) >= ENOUGH_CHARS and fed[0].endswith("ends.")
    assert clip.samples.size > 0
    assert [sentence.text for sentence in account.sentences] == [one.strip() for one in fed]


def test_a_request_is_never_more_than_the_model_says_in_one_go() -> None:
    whole = ["".join(WORDS), "Then, in one go, came a sentence that was much too long for the model to say. Ah."]
    for texts in (WORDS, whole):
        _, _, fed = spoken(iter(texts), longest=60)
        assert "".join("".join(fed).split()) == "".join("".join(texts).split())
        assert len(fed) > 5 and all(len(one) <= 60 and one.endswith((" ", ".")) for one in fed)


def test_a_request_ends_with_a_phrase_whatever_pieces_the_text_comes_in() -> None:
    text = "The bank left its rate where it was, and said that it still expects to cut it twice before the year ends."
    _, _, fed = spoken(iter([text]), longest=60)
    assert "".join(fed) == text and [one.split()[0] for one in fed[1:]] == ["and", "before"]
    assert not any(one.rstrip().endswith(".") for one in fed[:-1])
    for size in (1, 3, 11):
        assert spoken((text[at : at + size] for at in range(0, len(text), size)), longest=60)[2] == fed


def test_words_that_the_model_cannot_read_do_not_end_it() -> None:
    told: list[Notice] = []
    read = reader(None, None, SimpleNamespace(plain_letters=True), parts=True, tell=told.append)  # type: ignore[arg-type]
    _, _, fed = spoken(iter(["Build started.\nユー", "ザー. Build ", "失敗 failed."]), read=read)
    assert " ".join("".join(fed).replace(".", " ").split()) == "Build started Build failed"
    assert len(told) == 1 and "'ユーザー'" in told[0].message


def test_a_broken_text_ends_it_with_its_error() -> None:
    def texts() -> Iterator[str]:
        yield "Hello there. "
        raise InputError("not utf-8")

    with pytest.raises(InputError):
        spoken(texts())


def test_nothing_at_all_is_no_sound() -> None:
    account, clip, _ = spoken(iter(["", "  ", "\n"]))
    assert account.pieces == 0 and clip.samples.size == 0


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("polls", [0, 1])
def test_requests_end_with_their_stream_also_before_it_is_polled(closes: bool, polls: int) -> None:
    """The request that takes the next words has none to speak: it would keep its slot for ever."""
    begun: list[str] = []
    ended: list[str] = []

    class Recorded(Loop):
        def submit(self, *given: Any, **more: Any) -> str:
            begun.append(super().submit(*given, **more))
            return begun[-1]

        def cancel(self, name: str) -> None:
            ended.append(name)
            super().cancel(name)

        def forget(self, name: str) -> None:
            ended.append(name)
            super().forget(name)

    with closing(Recorded(load.open_engine("random:toy", threads=1))) as loop:
        stream = LiveStream(loop, 8000, Manner(Request(""), seed=5), None)
        stream.write("A sentence. " * 20 + "And the words ")
        for _ in range(polls):
            list(stream.poll())
        if closes:
            stream.close()
        del stream
        gc.collect()
        assert len(begun) == 2 and set(ended) >= set(begun[-1:])
