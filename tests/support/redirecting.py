"""An HTTP server that sends everyone to another address, and counts who goes there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """`target`: where to send them; without it, the request is counted."""

    target = ""
    calls = 0

    def do_GET(self) -> None:
        if not self.target:
            type(self).calls += 1
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(302 if self.target else 200)
        if self.target:
            self.send_header("Location", self.target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing."""


@contextmanager
def redirecting() -> Iterator[tuple[int, type[Handler]]]:
    """The port of the server that redirects, and what counts the requests to the address that it names."""
    inner = type("Inner", (Handler,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), inner) as private:
        outer = type("Outer", (Handler,), {"target": f"http://127.0.0.1:{private.server_address[1]}/secret"})
        with ThreadingHTTPServer(("127.0.0.1", 0), outer) as public:
            for server in (private, public):
                threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield public.server_address[1], inner
            finally:
                public.shutdown()
                private.shutdown()
