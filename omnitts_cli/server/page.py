"""The page at `/`: page.html with a fresh nonce in every answer, and headers that allow no other source."""

import secrets
from functools import cache
from importlib import resources

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'nonce-{nonce}'",
        "style-src 'nonce-{nonce}'",
        "img-src data:",  # the icon
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


@cache
def template() -> str:
    """Returns page.html as it is stored."""
    return resources.files("omnitts_cli.server").joinpath("page.html").read_text("utf-8")


def page() -> tuple[bytes, dict[str, str]]:
    """Returns the body and the headers of one answer to `GET /`. It needs no key and reveals nothing of the server."""
    nonce = secrets.token_urlsafe(16)
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": POLICY.replace("{nonce}", nonce),
        "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return template().replace("{{nonce}}", nonce).encode(), headers
