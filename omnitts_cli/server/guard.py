"""Guard: who may use the server. Keys, host names and origins are checked before anything else."""

import hashlib
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnitts_cli import files
from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.server.body import Scope, header
from omnitts_cli.server.problems import Problem
from omnitts_cli.settings.commands import Serving

OPEN = ("/health", "/ready")
SUBPROTOCOL = "omnitts.key."
LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
MOST_KEYS = 10_000
PREFLIGHT_S = 600  # for how long a browser remembers what it may send
ALLOWED = b"Authorization, Content-Type, Accept, X-Requested-With, Xi-Api-Key"
"""Headers that a page of an allowed origin may send. Browsers let `*` stand for all of them but Authorization."""
EXPOSED = (b"X-Sample-Rate, X-Request-Id, X-Model, X-Voice, X-Seed, X-Queue-Ms, X-First-Sound-Ms, X-Ignored-Fields, "
           b"X-Notices, X-Finish-Reason, X-Audio-Seconds, X-RTF, Retry-After")  # fmt: skip
HOST = re.compile(r"(?P<name>\[[0-9a-f:.]{2,45}\]|[^\s:@/?#\\\[\]]{1,255})(?::\d{1,5})?")


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine."""
    if host.lower() in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def digest(key: str) -> bytes:
    """The digest that is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(path: str | None, single: str | None) -> dict[bytes, str]:
    """Digest of a key -> name of its client, from a file of lines `name:key` and one more key."""
    found = {digest(single): "key"} if single else {}
    if path is None:
        return found
    try:
        text = files.read_text(path, files.LARGE, pipes=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read {path}: {reason.lower()}", hint="--api-key-file FILE") from None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, colon, key = line.partition(":")
        if not name.strip() or not colon or not key.strip():
            raise InputError(f"{path} line {number} is not 'name:key'", where=(path, number))
        found[digest(key.strip())] = name.strip()[:100]
    if not found or len(found) > MOST_KEYS:
        raise InputError(f"{path} has {len(found)} keys", hint="one line 'name:key' for each client")
    return found


@dataclass(frozen=True)
class Guard:
    """The rules of one server."""

    keys: Mapping[bytes, str] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()  # names to answer to, besides loopback; empty with any_host
    any_host: bool = False
    origins: frozenset[str] = frozenset()
    page: bool = True  # GET / is open
    uploads: bool = True  # clients may save and delete voices

    @staticmethod
    def of(options: Serving, keys: Mapping[bytes, str]) -> "Guard":
        """The rules for an address. Other than loopback needs a key, or --insecure."""
        host = options.host
        if not is_loopback(host) and not keys and not options.insecure:
            raise UsageError(
                f"--host {host} lets other machines in, and there is no key",
                hint="--api-key-file FILE   or   --insecure",
            )
        names = {name.lower() for name in options.allowed_host}
        everywhere = host in ("0.0.0.0", "::", "[::]", "")
        if not everywhere:
            names.add(host.lower())
        # an address that means every interface has no name to compare with: the names must be given, or a key
        any_host, origins = everywhere and not names, frozenset(options.cors_origin)
        uploads = options.allow_upload == "on" or (options.allow_upload == "auto" and is_loopback(host))
        return Guard(keys, frozenset(names), any_host, origins, options.web, uploads)

    def check(self, scope: Scope) -> str:
        """Returns the client: the name of its key, or its address. Raises a Problem if it is not allowed."""
        path, method = scope["path"], scope.get("method", "WS")
        if path in OPEN:
            return peer(scope)
        self._check_host(scope)
        self._check_origin(scope, method)
        if not self.keys or method == "OPTIONS" or (self.page and path == "/" and method in ("GET", "HEAD")):
            return peer(scope)
        name = self.keys.get(digest(given_key(scope)))
        if name is None:
            raise Problem(
                401,
                "the API key is missing or wrong",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return name

    def _check_host(self, scope: Scope) -> None:
        if self.any_host or not scope.get("client"):  # a Unix socket has no host
            return
        if sum(key == b"host" for key, _ in scope["headers"]) != 1:
            raise Problem(400, "the request has no Host header, or more than one", code="host_not_allowed")
        host = header(scope, b"host").lower()
        found = HOST.fullmatch(host)
        name = found["name"] if found else ""
        if not (is_loopback(name) or name in self.hosts or name.strip("[]") in self.hosts):
            raise Problem(403, f"this server does not answer to the host '{host[:80]}'", code="host_not_allowed",
                          hint=f"--allowed-host {name[:60]}")  # fmt: skip

    def _check_origin(self, scope: Scope, method: str) -> None:
        origin = header(scope, b"origin")
        if not origin or origin in self.origins or method in ("GET", "HEAD"):
            return
        host = header(scope, b"host").lower()
        own = bool(host) and origin.lower() in (f"http://{host}", f"https://{host}")
        if not own:
            raise Problem(403, f"pages from '{origin[:80]}' may not use this server", code="origin_not_allowed",
                          hint="--cors-origin ORIGIN")  # fmt: skip

    def cors(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Headers that let an allowed page read the answer."""
        origin = header(scope, b"origin")
        if not origin or origin not in self.origins:
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"vary", b"Origin"),
            (b"access-control-expose-headers", EXPOSED),
        ]

    def preflight(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Headers that answer a browser's preflight for a page of another origin; none for other requests."""
        asks = scope["method"] == "OPTIONS" and header(scope, b"access-control-request-method")
        if not asks or header(scope, b"origin") not in self.origins:
            return []
        headers = [
            (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
            (b"access-control-allow-headers", ALLOWED),
            (b"access-control-max-age", b"%d" % PREFLIGHT_S),
        ]
        if header(scope, b"access-control-request-private-network") == "true":
            headers.append((b"access-control-allow-private-network", b"true"))
        return headers


def given_key(scope: Scope) -> str:
    """The key of a request: Authorization, ElevenLabs' header, or for browsers the subprotocol of a WebSocket."""
    scheme, _, key = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip(" \t")
    if key := header(scope, b"xi-api-key"):
        return key
    for name in scope.get("subprotocols", ()):
        if name.startswith(SUBPROTOCOL):
            return str(name.removeprefix(SUBPROTOCOL))
    return ""


def peer(scope: Scope) -> str:
    """The address of the other side; one name for all who come through a Unix socket."""
    client = scope.get("client")
    return client[0] if client else "local"
