"""Chat models through transformers: their tokens and text are its own; and what cannot be opened."""

import threading
from pathlib import Path
from typing import Any

import pytest
from chat_kit import small_model

from omnitts_cli.errors import DeviceError, InputError, ModelError
from omnitts_cli.models.thinker import Message
from omnitts_cli.speech.chat_local import LocalChat, Words
from omnitts_cli.speech.chat_model import ChatAssistant, Wish

pytest.importorskip("transformers")
TALK = [Message("system", "Be brief."), Message("user", "Why?")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="module")
def chat(folder: Path) -> LocalChat:
    return LocalChat(f"hf:{folder}", device="cpu", offline=True)


def test_greedy_answers_are_those_of_transformers(folder: Path, chat: LocalChat) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    turns = [{"role": message.role, "content": message.text} for message in TALK]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    with torch.inference_mode():
        expected = model.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.shape[1] :]
    answer = ChatAssistant(chat).reply(TALK, max_tokens=24).answer()
    assert answer.tokens == tuple(expected.tolist())
    assert answer.text == tokenizer.decode(expected, skip_special_tokens=True)
    ended = answer.tokens[-1] == 1
    assert answer.stopped == ("end" if ended else "limit") and (ended or len(answer.tokens) == 24)
    assert (answer.prompt_tokens, answer.tokens_out) == (ids.shape[1], len(answer.tokens))


def test_a_thought_that_the_template_begins_is_no_answer(folder: Path) -> None:
    chat = LocalChat(f"hf:{folder}", device="cpu", offline=True)
    chat.tokenizer.chat_template += "<think>\n"
    answer = ChatAssistant(chat).reply(TALK, max_tokens=4).answer()
    assert answer.text == "" and answer.tokens_out


def test_a_sampled_answer_depends_on_its_seed(chat: LocalChat) -> None:
    def tokens(seed: int) -> tuple[int, ...]:
        return ChatAssistant(chat).reply(TALK, max_tokens=16, temperature=1.5, top_k=40, seed=seed).answer().tokens

    assert tokens(3) == tokens(3) != tokens(4)


def test_an_answer_that_was_left_ends(chat: LocalChat) -> None:
    left = threading.Event()
    coming = chat.write(TALK, Wish(max_tokens=200, temperature=2.0), left)
    next(coming)
    left.set()
    assert len(list(coming)) < 150


def test_a_conversation_that_does_not_fit_is_refused(chat: LocalChat) -> None:
    with pytest.raises(InputError, match="256"):
        ChatAssistant(chat).reply([Message("user", "a" * 300)]).answer()
    with pytest.raises(InputError):
        ChatAssistant(chat).reply(TALK, max_tokens=256).answer()


def test_what_is_no_chat_model_is_refused(tmp_path: Path) -> None:
    plain = small_model(tmp_path / "plain", template=False)
    for name in (f"hf:{plain}", f"hf:{tmp_path / 'nothing'}", "hf:someone/does-not-exist"):
        with pytest.raises(ModelError) as found:
            LocalChat(name, device="cpu", offline=True)
        assert found.value.hint


def test_a_failure_has_the_cause(chat: LocalChat, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**more: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(chat.model, "generate", fail)
    with pytest.raises(DeviceError) as found:
        ChatAssistant(chat).reply(TALK).answer()
    assert found.value.cause == "out of memory"


def test_text_is_complete_at_every_token(chat: LocalChat) -> None:
    text = "Naïve café — “ü” 😀 end"
    tokens = chat.tokenizer(text, add_special_tokens=False)["input_ids"]
    words = Words(chat.tokenizer)
    parts = [words.add(token) for token in tokens]
    assert "".join([*parts, words.rest()]) == text and "\ufffd" not in "".join(parts)
    cut = Words(chat.tokenizer)
    assert "".join(cut.add(token) for token in tokens[:3]) == "Na" and cut.rest() == "\ufffd"
