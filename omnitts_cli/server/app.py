"""The application: guards every request, finds its endpoint, and answers errors."""

import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route, Router, WebSocketRoute

from omnitts_cli.errors import OmniError
from omnitts_cli.server import batch, catalogue, elevenlabs, live, openapi, speech, uploads
from omnitts_cli.server.body import Gone, Receive, Scope, Send
from omnitts_cli.server.problems import Problem, answer
from omnitts_cli.server.state import ServerState


@dataclass
class Endpoint:
    """A function as an application. What it returns is answered as JSON, unless it has answered itself."""

    function: Callable[[ServerState, Scope, Receive, Send], Awaitable[Any]]
    state: ServerState

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        found = await self.function(self.state, scope, receive, send)
        if found is not None:
            await catalogue.send_json(send, found, head=scope["method"] == "HEAD")


class App:
    """The ASGI application of a server."""

    def __init__(self, state: ServerState) -> None:
        self.state, self._router = state, Router(routes(state), redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, also when something fails."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        started, extra = False, [*self.state.guard.cors(scope), *self.state.headers]

        async def watched(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if extra:
                    message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            scope["omnitts.client"] = self.state.guard.check(scope)
            scope["app"] = self  # the router raises 404 and 405 instead of answering
            if permission := self.state.guard.preflight(scope):
                await watched({"type": "http.response.start", "status": 204, "headers": permission})
                await send({"type": "http.response.body", "body": b""})
                return
            await self._router(scope, receive, watched)
        except Gone:
            close(scope)
        except Exception as error:
            if started:  # without the last chunk, clients see that the answer is incomplete
                self.failed(error, scope)
                if not close(scope):
                    raise  # the server that called this closes the connection
                return
            start, body = answer(self.failed(error, scope), extra)
            await send(start)
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def failed(self, error: Exception, scope: Scope) -> Exception:
        """The error to answer with. An internal one goes to the log."""
        if isinstance(error, HTTPException) and error.status_code == 405:
            return self.wrong_method(scope)
        if isinstance(error, HTTPException):
            code = "not_found" if error.status_code == 404 else "http_error"
            return Problem(error.status_code, error.detail.lower(), code=code, headers=dict(error.headers or {}))
        if not isinstance(error, OmniError):
            self.state.log("".join(traceback.format_exception(error)).rstrip())
        return error

    def wrong_method(self, scope: Scope) -> Problem:
        """The error for a method that the path does not take. The router names those of the path's first route only."""
        routes = [route for route in self._router.routes if route.matches(scope)[0] != Match.NONE]
        methods = ", ".join(sorted({method for route in routes for method in getattr(route, "methods", ())}))
        message = f"{scope['method']} is not allowed on {scope['path']}: it takes {methods}"
        return Problem(405, message, code="method_not_allowed", headers={"Allow": methods})


def close(scope: Scope) -> bool:
    """Closes the connection without completing the answer; returns whether it could."""
    transport = scope.get("omnitts.transport")
    if transport is not None:
        transport.close()
    return transport is not None


def routes(state: ServerState) -> list[BaseRoute]:
    """The endpoints."""
    found = [
        ("POST", "/v1/audio/speech", speech.post_speech),
        ("POST", "/v1/audio/speech/batch", batch.post_batch),
        ("GET", "/v1/models", catalogue.list_models),
        ("GET", "/v1/models/{name:path}", catalogue.get_model),
        ("GET", "/v1/audio/voices", catalogue.list_voices),
        ("POST", "/v1/audio/voices", uploads.save_voice),
        ("DELETE", "/v1/audio/voices/{name}", uploads.delete_voice),
        ("POST", "/v1/text-to-speech/{voice}", elevenlabs.text_to_speech),
        ("POST", "/v1/text-to-speech/{voice}/stream", elevenlabs.text_to_speech_stream),
        ("GET", "/v1/voices", elevenlabs.list_as_elevenlabs),
        ("GET", "/openapi.json", openapi.document),
        ("GET", "/health", catalogue.health),
        ("GET", "/ready", catalogue.ready),
        *([("GET", "/", catalogue.show_page)] if state.options.web else []),
        *([("GET", "/metrics", catalogue.prometheus)] if state.options.metrics else []),
    ]
    socket = WebSocketRoute("/v1/audio/speech/stream", Endpoint(live.open_socket, state))
    return [socket, *(Route(path, Endpoint(function, state), methods=[method]) for method, path, function in found)]
