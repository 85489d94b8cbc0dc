"""Problems: errors with an HTTP status, and how every error is answered."""

import json
from typing import Any

from omnitts_cli.errors import DeviceError, GuardError, ModelError, OmniError, OutputError, VoiceError
from omnitts_cli.settings.setting import nearest

LARGEST_MESSAGE = 1000
MOST_SHOWN = 60  # characters of a wrong value

TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
"""OpenAI's word for a status; other 4xx are invalid requests, 5xx are server errors."""
STATUSES = ((VoiceError, 404), (GuardError, 502), (DeviceError, 503), (ModelError, 503), (OutputError, 507),
            (OmniError, 400))  # fmt: skip


class Problem(OmniError):
    """A request that cannot be answered."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        hint: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.code, self.param, self.headers = status, code, param, headers or {}


def invalid(param: str | None, message: str, hint: str | None = None) -> Problem:
    """400 for a field."""
    return Problem(400, message, code="invalid_value", param=param, hint=hint)


def shown(value: object) -> str:
    """The beginning of a value of a request, for a message."""
    text = json.dumps(value[: MOST_SHOWN * 2] if isinstance(value, str | list) else value)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + " ..."


def nearest_of(word: str, known: list[str]) -> str:
    """A hint with the nearest known word, or with the first of them."""
    close = nearest(word.lower(), known)
    return f"did you mean '{close}'?" if close else "known: " + ", ".join(list(dict.fromkeys(known))[:40])


def unknown(status: int, what: str, name: str, known: list[str]) -> Problem:
    """404 or 400 for a name."""
    code = f"{what}_not_found" if status == 404 else "invalid_value"
    return Problem(status, f"{what} '{name[:80]}' not found", code=code, param=what, hint=nearest_of(name, known))


def busy(message: str, code: str, after_s: int = 1) -> Problem:
    """503 with Retry-After."""
    return Problem(503, message, code=code, headers={"Retry-After": str(after_s)})


def status_of(error: BaseException) -> int:
    """The HTTP status of an error."""
    if isinstance(error, Problem):
        return error.status
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def described(error: BaseException) -> dict[str, Any]:
    """The error object of an answer. The text of an internal error stays in the log."""
    status = status_of(error)
    kind = TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    if not isinstance(error, OmniError):
        return {"message": "internal error", "type": kind, "param": None, "code": "internal"}
    parts = [error.message, *([error.cause] if error.cause else [])]
    message = ": ".join(parts)
    if isinstance(error, Problem) and error.hint:
        message = f"{message} ({error.hint})"
    return {"message": message[:LARGEST_MESSAGE], "type": kind, "param": error.param,
            "code": error.code}  # fmt: skip


def answer(error: BaseException, extra: list[tuple[bytes, bytes]] | None = None) -> tuple[dict[str, Any], bytes]:
    """The start message and the body of the HTTP response for an error."""
    body = json.dumps({"error": described(error)}).encode()
    given = error.headers if isinstance(error, Problem) else {}
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in given.items()),
        *(extra or []),
    ]
    return {"type": "http.response.start", "status": status_of(error), "headers": headers}, body
