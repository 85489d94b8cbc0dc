"""A server with OpenAI's chat API whose answers a test writes, and a small chat model with random weights."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from patience import LONG_S

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def event(text: str = "", stopped: str | None = None, **more: Any) -> bytes:
    """A line of a streamed answer, with the empty line after it."""
    found = {"choices": [{"delta": {"content": text}, "finish_reason": stopped}], **more}
    return f"data: {json.dumps(found)}\n\n".encode()


DONE = event("", "stop") + b"data: [DONE]\n\n"


class Company:
    """A server. `answer` yields the bytes of an answer; `status` and `models` are what else it says."""

    def __init__(self, answer: Callable[[dict[str, Any]], Iterator[bytes]], status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.models = ["little"]
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = ""


@contextmanager
def company(answer: Callable[[dict[str, Any]], Iterator[bytes]], status: int = 200) -> Iterator[Company]:
    """A running server."""
    found = Company(answer, status)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: Any) -> None:
            pass

        def _begin(self, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Connection", "close")
            self.end_headers()

        def do_GET(self) -> None:
            self._begin()
            self.wfile.write(json.dumps({"data": [{"id": name} for name in found.models]}).encode())

        def do_POST(self) -> None:
            found.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            found.keys.append(self.headers.get("Authorization"))
            self._begin(found.status)
            for data in found.answer(found.asked[-1]):
                self.wfile.write(data)
                self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LONG_S)


def small_model(folder: Path, *, template: bool = True) -> Path:
    """A chat model with random weights in the usual files."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", *letters]
    core = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|end|>", pad_token="<|pad|>", additional_special_tokens=names[2:5]
    )
    tokenizer.chat_template = TEMPLATE if template else None
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, initializer_range=0.6, eos_token_id=1, pad_token_id=0,
        bos_token_id=None,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
