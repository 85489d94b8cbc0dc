"""A replica without Ray: its application, what it answers, and its health."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from serving import SPEECH

from omnitts_cli.errors import UsageError
from omnitts_cli.server.guard import Guard, digest
from omnitts_cli.server.replica import CPU_SLOTS, GPU_SLOTS, Ingress, Order, Replica
from omnitts_cli.settings.commands import Serving
from omnitts_cli.speech import tts

TOY = {"device": "cpu", "threads": 1, "slots": 2}
BODY = {"input": "Hello there.", "response_format": "pcm", "seed": 7}
LONG = {"stream": True, "stream_format": "audio", "ignore_eos": True, "max_new_tokens": 1000}


def order(*, alone: bool = True, settings: dict[str, Any] = TOY, keys: Any = None, **options: Any) -> Order:
    return Order.of(Serving(model=("random:toy",), **options), keys or {}, settings, alone=alone)


async def built(of: Order) -> tuple[Replica, Ingress]:
    """A replica whose engine is in this process."""
    replica = Replica(of)
    replica.engines.open = tts.load  # type: ignore[method-assign]
    return replica, await replica.__serve_build_asgi_app__()


async def asked(
    ingress: Ingress, method: str, path: str, values: Any = None, *, host: bytes = b"localhost",
    messages: list[Any] | None = None, on_sent: Callable[[list[Any]], None] = lambda messages: None,
) -> tuple[int, dict[bytes, bytes], bytes]:  # fmt: skip
    """Status, headers and body of the answer to a request without an address."""
    sent: list[Any] = [] if messages is None else messages
    given = [{"type": "http.request", "body": json.dumps(values).encode() if values else b"", "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)
        on_sent(sent)

    headers = [(b"host", host), (b"content-type", b"application/json")]
    await ingress(
        {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}, receive, send
    )
    body = b"".join(message["body"] for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), body


def test_an_order_is_checked_before_it_is_sent() -> None:
    with pytest.raises(UsageError, match="no key"):
        order(host="0.0.0.0")
    assert order(host="0.0.0.0", keys={digest("k"): "me"}).gpus == 0 and order(settings={"device": "auto"}).gpus == 1
    assert order().slots == 2 and order(settings={"device": "cpu"}).slots == CPU_SLOTS
    assert order(settings={"device": "cuda"}).slots == GPU_SLOTS
    uploads = [Guard.of(one.options, {}).uploads for one in (order(), order(alone=False))]
    assert uploads == [True, False] and order(alone=False, voices_dir="/shared").options.allow_upload == "auto"
    assert not order().options.metrics  # a replica would tell of itself only


def test_a_replica_speaks_as_the_server_does_and_says_who_it_is() -> None:
    async def work() -> None:
        replica, ingress = await built(order())
        assert replica.state is not None and replica.state.models.warm
        answer = await asked(ingress, "POST", SPEECH, BODY)
        wrong = await asked(ingress, "POST", SPEECH, {**BODY, "voice": "nobody"})
        metrics = await asked(ingress, "GET", "/metrics")
        assert [one[0] for one in (answer, wrong, metrics)] == [200, 404, 404] and len(answer[2]) > 1000
        assert all(b":" in one[1][b"x-replica"] for one in (answer, wrong))
        assert b"x-request-id" not in answer[1]  # Ray adds one
        replica.check_health()
        loop = replica.state.models.all[0].tts.engine  # type: ignore[union-attr]
        loop.broken = RuntimeError("the device is lost")
        with pytest.raises(RuntimeError, match="failed or is stuck"):
            replica.check_health()

    asyncio.run(work())


def test_a_request_without_an_address_is_not_a_local_one() -> None:
    """The server's Unix socket has no address and no host to check; what comes through a proxy has."""

    async def work() -> int:
        _, ingress = await built(order())
        return (await asked(ingress, "GET", "/v1/models", host=b"evil.example"))[0]

    assert asyncio.run(work()) == 403


def test_a_failure_in_mid_stream_is_raised_so_that_the_connection_is_cut() -> None:
    async def work() -> None:
        replica, ingress = await built(order())
        assert replica.state is not None
        model = replica.state.models.all[0].tts

        def fail() -> Any:
            raise ZeroDivisionError

        def on_sent(messages: list[Any]) -> None:
            if len(messages) == 2:  # the first sound
                model.engine.engine.step = fail  # type: ignore[union-attr]

        messages: list[Any] = []
        with pytest.raises(ZeroDivisionError):
            await asked(ingress, "POST", SPEECH, {**BODY, **LONG}, messages=messages, on_sent=on_sent)
        assert messages[0]["status"] == 200 and all(message.get("more_body") for message in messages[1:])

    asyncio.run(work())
