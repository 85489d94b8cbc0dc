"""POST /v1/audio/speech/batch: several texts in one request, whole; an error in one does not stop the others."""

import asyncio
import base64
from dataclasses import dataclass, replace
from typing import Any

from omnitts_cli.server.asked import asked_of
from omnitts_cli.server.body import Receive, Scope, Send, read_json
from omnitts_cli.server.catalogue import send_json
from omnitts_cli.server.problems import Problem, described, invalid
from omnitts_cli.server.speak import begin, check, watched
from omnitts_cli.server.speech import reason, report, stream_of, times, usage
from omnitts_cli.server.state import ServerState
from omnitts_cli.server.whole import made

MOST_ITEMS = 32
LARGEST_ANSWER = 64 << 20


async def post_batch(state: ServerState, scope: Scope, receive: Receive, send: Send) -> None:
    """POST /v1/audio/speech/batch: answers when all items are done."""
    values = await read_json(scope, receive)
    items = values.pop("items", None)
    if not isinstance(items, list) or not 1 <= len(items) <= MOST_ITEMS:
        raise invalid("items", f"items is not a list of 1 to {MOST_ITEMS} objects")
    client, left = scope["omnitts.client"], Room(LARGEST_ANSWER)
    with state.call(client, scope.get("omnitts.transport")) as call, watched(call, receive):
        work = [asyncio.ensure_future(spoken(state, client, n, values, item, left)) for n, item in enumerate(items)]
        ended = asyncio.ensure_future(call.news.wait())  # the client has disconnected, or a limit is reached
        try:
            everything = asyncio.ensure_future(asyncio.wait(work))
            await asyncio.wait({everything, ended}, return_when=asyncio.FIRST_COMPLETED)
            check(call)
            call.first_sound = call.began
            results = [one.result() for one in work]
        finally:
            for task in (*work, ended):
                task.cancel()
        succeeded = sum(result["status"] == "success" for result in results)
        counts = {"total": len(results), "succeeded": succeeded, "failed": len(results) - succeeded}
        await send_json(send, {"id": f"speech-batch-{call.id}", "results": results, **counts})


async def spoken(
    state: ServerState, client: str, index: int, shared: dict[str, Any], item: Any, left: "Room"
) -> dict[str, Any]:
    """The result of one item."""
    try:
        if not isinstance(item, dict):
            raise invalid("items", "the item is not an object")
        given = {name: value for name, value in {**shared, **item}.items() if value is not None}
        given |= {"stream": False, "stream_format": "audio"}
        asked = asked_of({"response_format": "wav", **given}, state.options.max_chars)
        asked = replace(asked, whole=True)
        with state.call(client, part=True) as call:
            outcome = "error"
            try:
                await begin(state, call, asked)
                async with made(call, asked) as answer:
                    state.keep(call, answer.size * 4 // 3)
                    left.take(answer.size * 4 // 3)
                    sound = base64.b64encode(answer.read()).decode()
                outcome = "ok"
            finally:
                report(state, call, asked, outcome)
            return {
                "index": index,
                "status": "success",
                "audio_data": sound,
                "media_type": answer.media,
                "usage": usage(call),
                "finish_reason": reason(call),
                "seed": stream_of(call).seed,
                "sample_rate": answer.rate,
                "audio_s": round(answer.seconds, 3),
                "notices": call.notices,
                "ignored_fields": [*asked.ignored, *call.ignored],
                "error": None,
                **times(call, asked),
            }
    except Exception as error:
        return {"index": index, "status": "error", "error": described(error)["message"], "audio_data": None}


@dataclass
class Room:
    """How much more an answer may hold."""

    bytes: int

    def take(self, count: int) -> None:
        """Uses some of it."""
        self.bytes -= count
        if self.bytes < 0:
            raise Problem(413, f"the answer would be larger than {LARGEST_ANSWER >> 20} MiB", code="too_large")
