"""ChatServer: a chat model behind OpenAI's chat API, which most servers of language models have. Without torch."""

import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from omnitts_cli.errors import DeviceError, ModelError, OmniError, UsageError
from omnitts_cli.parse import ParseError, json_object
from omnitts_cli.settings import environment
from omnitts_cli.speech.chat_model import Wish, Written
from omnitts_cli.speech.servers import CONNECT_S, LARGEST_LIST, Address, within

if TYPE_CHECKING:
    from omnitts_cli.models.thinker import Message

SILENT_S = 60.0
"""A server that sends nothing for so long has stopped answering. A large model may read a long question for a while."""
LONGEST_LINE = 1 << 20
STOPPED = {"length": "limit", "stop": "end"}


class ChatServer:
    """http://HOST:PORT/v1, and after a # the name of the model; without one, the first that the server lists."""

    def __init__(self, url: str, *, offline: bool = False) -> None:
        self.address = Address.of(url, "--llm")
        if offline and not self.address.loopback:
            raise UsageError("--offline cannot be used with a server on another machine", hint="leave one of them out")
        self._root = self.address.path.removesuffix("audio/speech")
        if environment.variable(environment.LLM_KEY) and not self.address.secure and not self.address.loopback:
            raise UsageError(
                f"--llm {self.address} would send the key unencrypted",
                hint=f"an https URL   or   without {environment.LLM_KEY}",
            )
        self.name = urlsplit(url).fragment or self._first()

    def write(self, messages: "Sequence[Message]", wish: Wish, left: threading.Event) -> Iterator[Written]:
        """Yields the answer that follows the messages as it is written."""
        body = {
            "model": self.name,
            "messages": [{"role": message.role, "content": message.text} for message in messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": wish.temperature,
            "top_p": wish.top_p,
            "seed": wish.seed,
            **({"top_k": wish.top_k} if wish.top_k else {}),
            **({"max_tokens": wish.max_tokens} if wish.max_tokens else {}),
        }
        try:
            with closing(self.address.connect(CONNECT_S, SILENT_S)) as connection:
                connection.request("POST", f"{self._root}chat/completions", json.dumps(body), headers())
                response = connection.getresponse()
                if response.status != http.client.OK:
                    raise self._refused(response.status, response.read(LARGEST_LIST))
                yield from self._read(response, left)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failed(error) from None

    def _read(self, response: http.client.HTTPResponse, left: threading.Event) -> Iterator[Written]:
        """The events of an answer."""
        stopped, usage = "", dict[str, Any]()
        while not left.is_set():
            line = response.readline(LONGEST_LINE)
            if not line or line.strip() == b"data: [DONE]":
                break
            if not line.startswith(b"data:"):
                continue
            event = event_of(line[5:])
            if "error" in event:
                raise self._refused(0, line[5:])
            usage = event.get("usage") or usage
            choice = (event.get("choices") or [{}])[0]
            stopped = choice.get("finish_reason") or stopped
            text = (choice.get("delta") or {}).get("content")
            if text:
                yield Written(str(text))
        if not stopped and not left.is_set():
            raise ValueError("the answer ended in the middle")
        counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
        yield Written("", (), STOPPED.get(stopped, "end"), *(one if type(one) is int else None for one in counts))

    def _first(self) -> str:
        """The name of the first model that the server lists."""
        try:
            with closing(self.address.connect(CONNECT_S, CONNECT_S)) as connection, within(connection, CONNECT_S):
                connection.request("GET", f"{self._root}models", headers=headers())
                response = connection.getresponse()
                data = response.read(LARGEST_LIST)
            if response.status != http.client.OK:
                raise self._refused(response.status, data)
            return str(event_of(data)["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise ModelError(
                f"the server at {self} lists no model", hint=f"--llm {self}#NAME   with the name of a model"
            ) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failed(error) from None

    def __str__(self) -> str:
        return f"http{'s' * self.address.secure}://{self.address.host}:{self.address.port}{self._root.rstrip('/')}"

    def _failed(self, error: BaseException) -> DeviceError:
        """The error for a server that cannot be reached, or has stopped answering."""
        cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return DeviceError(f"no answer from {self}", cause=cause, hint=f"curl {self}/models   shows whether it runs")

    def _refused(self, status: int, data: bytes) -> OmniError:
        """The error in a server's answer."""
        try:
            found = event_of(data)["error"]
            words = str(found["message"] if isinstance(found, dict) else found)[:500]
        except (KeyError, TypeError, ValueError):
            words = f"HTTP {status}"
        words = "".join(letter if letter.isprintable() else "?" for letter in words)
        if status in (401, 403):
            return DeviceError(f"{self}: {words}", hint=f"{environment.LLM_KEY}=KEY omnitts ask ...")
        if status == 404:
            return ModelError(f"{self}: {words}", hint=f"curl {self}/models   lists its models; --llm {self}#NAME")
        return DeviceError(f"{self}: {words}", hint=f"curl {self}/models   shows whether it runs")


def headers() -> dict[str, str]:
    """The headers of a request, with the key."""
    key = environment.variable(environment.LLM_KEY)
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def event_of(data: bytes) -> Mapping[str, Any]:
    """A JSON object; ValueError for anything else."""
    try:
        return json_object(data)
    except ParseError as error:
        raise ValueError(f"the answer {error}") from None
