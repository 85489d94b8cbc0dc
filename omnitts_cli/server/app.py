"""The application: guards every request, finds its endpoint, and answers errors."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route, Router, WebSocketRoute

from omnitts_cli.errors import OmniError
from omnitts_cli.server import catalogue, elevenlabs, openapi, uploads
from omnitts_cli.server.batch import BatchEndpoint
from omnitts_cli.server.body import Gone, Receive, Scope, Send
from omnitts_cli.server.catalogue import json_answer
from omnitts_cli.server.live import LiveEndpoint
from omnitts_cli.server.problems import Problem, answer
from omnitts_cli.server.speech import SpeechEndpoint
from omnitts_cli.server.state import ServerState


class Json:
    """An endpoint that answers with the JSON that a function returns."""

    def __init__(self, function: Callable[[Scope, Receive], Awaitable[Any]]) -> None:
        self._function = function

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        found = await self._function(scope, receive)
        start, body = json_answer(found)
        await send(start)
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


class App:
    """The ASGI application of a server."""

    def __init__(self, state: ServerState, more: list[BaseRoute] | None = None) -> None:
        self.state = state
        self._router = Router([*routes(state), *(more or [])], redirect_slashes=False)

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
    found: list[BaseRoute] = [
        Route("/v1/audio/speech", SpeechEndpoint(state), methods=["POST"]),
        Route("/v1/audio/speech/batch", BatchEndpoint(state), methods=["POST"]),
        WebSocketRoute("/v1/audio/speech/stream", LiveEndpoint(state)),
        Route("/v1/models", Json(catalogue.ModelsEndpoint(state)), methods=["GET"]),
        Route("/v1/models/{name:path}", Json(catalogue.OneModel(state)), methods=["GET"]),
        Route("/v1/audio/voices", Json(catalogue.Voices(state)), methods=["GET"]),
        Route("/v1/audio/voices", uploads.Post(state), methods=["POST"]),
        Route("/v1/audio/voices/{name}", uploads.Delete(state), methods=["DELETE"]),
        Route("/v1/text-to-speech/{voice}", elevenlabs.TextToSpeech(state), methods=["POST"]),
        Route("/v1/text-to-speech/{voice}/stream", elevenlabs.TextToSpeech(state, streamed=True), methods=["POST"]),
        Route("/v1/voices", Json(elevenlabs.ListVoices(state)), methods=["GET"]),
        Route(
            "/openapi.json", Json(openapi.OpenAPIEndpoint(state.options.web, state.options.metrics)), methods=["GET"]
        ),
        Route("/health", catalogue.Health(state), methods=["GET"]),
        Route("/ready", catalogue.ReadyEndpoint(state), methods=["GET"]),
    ]
    if state.options.web:
        found.append(Route("/", catalogue.PageEndpoint(), methods=["GET"]))
    if state.options.metrics:
        found.append(Route("/metrics", catalogue.Prometheus(state), methods=["GET"]))
    return found
