"""LocalChat: a chat model of the Hub or of a folder, through transformers, which is imported here and late."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from omnitts_cli.errors import DeviceError, InputError, ModelError, UsageError
from omnitts_cli.models.thinker import Message
from omnitts_cli.settings.engine import EngineSettings
from omnitts_cli.speech.chat_model import THOUGHT, Wish, Written, most_tokens
from omnitts_cli.speech.load import DTYPES, device_for

PREFIX = "hf:"
EXAMPLE = "--llm hf:Qwen/Qwen3-0.6B"
CONTEXT = 8192
END = None
LAST = 8  # tokens at the end of a prompt that may hold the beginning of a thought


class LocalChat:
    """hf:ORG/REPO[@REVISION] or hf:FOLDER. It runs no code of the repository."""

    def __init__(self, name: str, *, context: int = CONTEXT, **options: Any) -> None:
        require()
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        settings = EngineSettings.of(options, "--llm")
        if settings.dtype not in ("auto", *DTYPES):
            raise UsageError(f"--dtype {settings.dtype} is not for --llm hf:", hint="leave --dtype out")
        self.name = name.removeprefix(PREFIX)
        place, _, revision = self.name.partition("@") if not Path(self.name).exists() else (self.name, "", "")
        self._device = device_for(self.name, settings).torch_device
        dtype = DTYPES.get(settings.dtype) or (torch.float32 if self._device.type == "cpu" else "auto")
        given = {"revision": revision or None, "local_files_only": settings.offline, "trust_remote_code": False}
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(place, **given)
            model: Any = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, **given)
            self.model = model.to(self._device).eval()
        except (OSError, ValueError, ImportError, KeyError) as error:
            cause = str(error).strip().split("\n")[0][:300]
            hint = f"{'leave --offline out' if settings.offline else EXAMPLE}   or   --llm hf:FOLDER"
            raise ModelError(f"cannot open chat model '{self.name}'", cause=cause, hint=hint) from None
        if not getattr(self.tokenizer, "chat_template", None):
            raise ModelError(
                f"model '{self.name}' has no chat template, so it cannot answer questions",
                hint=f"a model made for chat, such as {EXAMPLE}",
            )
        self._positions = min(context, getattr(self.model.config, "max_position_embeddings", None) or context)

    def write(self, messages: Sequence[Message], wish: Wish, left: threading.Event) -> Iterator[Written]:
        """Yields the answer that follows the messages as it is written."""
        prompt = self._prompt(messages)
        room = self._positions - len(prompt)
        if room < 1 or (wish.max_tokens or 1) > room:
            raise InputError(
                f"the conversation has {len(prompt)} tokens; with the answer, {self._positions} fit",
                hint="a shorter question, fewer --max-tokens   or a larger --context",
            )
        most = most_tokens(wish, room)
        coming: SimpleQueue[int | Exception | None] = SimpleQueue()
        thread = threading.Thread(target=self._generate, args=(prompt, most, wish, coming, left), daemon=True)
        thread.start()
        words, count, last = Words(self.tokenizer), 0, -1
        if str(self.tokenizer.decode(prompt[-LAST:])).rstrip().endswith(THOUGHT):  # the template begins the thought
            yield Written(THOUGHT)
        while (news := coming.get()) is not END:
            if isinstance(news, Exception):
                cause = str(news).split("\n")[0][:300] or type(news).__name__
                raise DeviceError(f"chat model '{self.name}' failed", cause=cause, hint="-d cpu   or a smaller model")
            count, last = count + 1, news
            yield Written(words.add(news), (news,))
        stopped = "limit" if count >= most and last not in self._ends() else "end"
        yield Written(words.rest(), (), stopped, len(prompt), count)

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        """The conversation as tokens, by the model's own template."""
        turns = [{"role": message.role, "content": message.text} for message in messages]
        try:
            text = self.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, enable_thinking=False
            )
        except Exception as error:  # a template may raise anything
            raise ModelError(
                f"the chat template of '{self.name}' failed", cause=str(error)[:300], hint='--system ""'
            ) from None
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def _ends(self) -> set[int]:
        """The tokens that end an answer."""
        end = self.model.generation_config.eos_token_id
        return set(end) if isinstance(end, list) else {end}

    def _generate(
        self, prompt: list[int], most: int, wish: Wish, coming: SimpleQueue[Any], left: threading.Event
    ) -> None:
        """Writes tokens into a queue, on a thread of its own."""
        import torch
        from transformers import StoppingCriteriaList

        ids = torch.tensor([prompt], device=self._device)
        how: dict[str, Any] = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        if wish.temperature > 0:
            how = {"do_sample": True, "temperature": wish.temperature, "top_p": wish.top_p, "top_k": wish.top_k}
        stop = StoppingCriteriaList([lambda *_, **__: torch.full((1,), left.is_set(), device=self._device)])
        try:
            with torch.inference_mode():
                torch.manual_seed(wish.seed)
                self.model.generate(
                    input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=most, streamer=Tokens(coming),
                    stopping_criteria=stop, pad_token_id=self.tokenizer.pad_token_id or 0, **how,
                )  # fmt: skip
        except Exception as error:
            coming.put(error)
        coming.put(END)


class Tokens:
    """A streamer of transformers that puts the tokens of an answer into a queue."""

    def __init__(self, coming: SimpleQueue[Any]) -> None:
        self._coming, self._prompt = coming, True

    def put(self, value: Any) -> None:
        """The prompt first, then one token after the other."""
        if not self._prompt:
            for token in value.reshape(-1).tolist():
                self._coming.put(token)
        self._prompt = False

    def end(self) -> None:
        """There is nothing to do."""


class Words:
    """Tokens as text. A character may take several tokens, and a tokenizer may write a token differently after others:
    so a few tokens before the new ones are decoded too.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._tokens, self._start, self._read = tokenizer, list[int](), 0, 0

    def add(self, token: int) -> str:
        """The text that a token completes."""
        self._tokens.append(token)
        return self._text(whole=True)

    def rest(self) -> str:
        """What is left, half a character perhaps."""
        return self._text(whole=False)

    def _text(self, *, whole: bool) -> str:
        before = self._decoded(self._tokens[self._start : self._read])
        text = self._decoded(self._tokens[self._start :])
        if len(text) <= len(before) or (whole and text.endswith("\ufffd")):
            return ""
        self._start, self._read = self._read, len(self._tokens)
        return text[len(before) :]

    def _decoded(self, tokens: list[int]) -> str:
        found: str = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return found


def require() -> None:
    """The packages of the extra `llm`, or an error with the command that installs them."""
    from importlib.util import find_spec

    missing = [name for name in ("transformers", "jinja2") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--llm hf: needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            hint=f"pip install {' '.join(missing)}   or   --llm http://127.0.0.1:8080/v1, a server of a chat model",
        )
