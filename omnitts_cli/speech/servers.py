"""Servers: finds a running `omnitts serve` and its models, and translates its errors. Without torch."""

import errno
import http.client
import json
import os
import socket
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from omnitts_cli.devices.fingerprint import of_exact
from omnitts_cli.errors import DeviceError, GuardError, ModelError, OmniError, UsageError
from omnitts_cli.parse import json_object
from omnitts_cli.settings import environment
from omnitts_cli.speech.tts import TTS
from omnitts_cli.weights.find import here
from omnitts_cli.weights.names import Found, hub_name
from omnitts_cli.weights.sums import identity

FORMAT = 1
"""Raised when the same request to a server no longer gives the sound of a local run."""
PATH = "/v1/audio/speech"
AUTO_CONNECT_S, AUTO_ANSWER_S = 0.5, 3.0  # where a server is this slow, loading a model takes longer still
CONNECT_S, ANSWER_S = 10.0, 300.0
LARGEST_ANSWER, LARGEST_LIST = 64 << 20, 8 << 20
KINDS = {"custom_voice": "named", "base": "cloned", "voice_design": "designed"}
SHORT_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "q8": "q8"}


@dataclass(frozen=True)
class Address:
    """The address of a server. Credentials in a URL are refused, because they would end up in reports."""

    secure: bool
    host: str
    port: int
    path: str  # of /v1/audio/speech
    socket: Path | None = None  # a Unix socket instead of host and port

    @staticmethod
    def of(url: str, option: str = "--url") -> "Address":
        """Returns the address in a URL; `option` is its name in messages."""
        example = f"{option} http://127.0.0.1:8000"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port
        except ValueError:
            raise UsageError(f"{option} {url[:80]} has an invalid host or port", hint=example) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{option} {url[:80]} is not an http URL", hint=example)
        if parts.username or parts.password or parts.query:
            key = "--api-key-file FILE" if option == "--url" else f"{environment.API_KEY}=KEY omnitts ..."
            raise UsageError(f"{option} must not contain a password or a query", hint=key)
        path = parts.path.rstrip("/")
        if not path.endswith("/audio/speech"):
            path = f"{path}/audio/speech" if path.endswith("/v1") else path + PATH
        secure = parts.scheme == "https"
        return Address(secure, parts.hostname, port or (443 if secure else 80), path)

    def __str__(self) -> str:
        root = self.path.removesuffix(PATH)
        return f"unix:{self.socket}" if self.socket else f"http{'s' * self.secure}://{self.host}:{self.port}{root}"

    @property
    def loopback(self) -> bool:
        """Whether it is on this machine."""
        return self.socket is not None or self.host in ("localhost", "::1") or self.host.startswith("127.")

    @property
    def tells_key(self) -> bool:
        """Whether a request would carry a key that others can read on its way."""
        return bool(environment.variable(environment.API_KEY)) and not self.secure and not self.loopback

    def connect(self, connect_s: float = CONNECT_S, answer_s: float = ANSWER_S) -> http.client.HTTPConnection:
        """Returns an open connection."""
        if self.socket is not None:
            connection: http.client.HTTPConnection = UnixConnection(str(self.socket), connect_s)
        else:
            kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
            connection = kind(self.host, self.port, timeout=connect_s)
        connection.connect()
        connection.sock.settimeout(answer_s)
        return connection


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connects to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        if user_of(self.sock) not in (None, 0, os.getuid()):
            self.sock.close()
            raise PermissionError(errno.EPERM, "the server belongs to another user", self._path)


def own_socket() -> Address | None:
    """The socket of this user's server, if there is one. Another user's, which would see the text, does not count."""
    path = environment.server_socket()
    if not environment.unix_sockets():
        return None
    try:
        found = os.lstat(path)
    except OSError:
        return None
    mine = environment.is_private(path.parent) and found.st_uid == os.getuid() and stat.S_ISSOCK(found.st_mode)
    return Address(False, "localhost", 0, PATH, path) if mine else None


def user_of(peer: socket.socket) -> int | None:
    """The user whose process listens at the other end of a Unix socket; None where the system does not say."""
    if hasattr(socket, "SO_PEERCRED"):
        _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(user)
    if sys.platform == "darwin":
        return int(struct.unpack_from("=2I", peer.getsockopt(0, 1, 76))[1])  # LOCAL_PEERCRED
    return None


def same_model(
    address: Address, model: str, variant: str, device: str, dtype: str, exact: bool = False
) -> Mapping[str, Any] | None:
    """The entry of the model that a local run would open with these options."""
    try:
        served = models(address, AUTO_CONNECT_S, AUTO_ANSWER_S)
        found = here(model, variant=variant)
        own = identity(found.folder) if isinstance(found, Found) and found.folder else None
    except (OSError, http.client.HTTPException, ValueError, OmniError):
        return None
    for entry in served:
        about = entry["omnitts"]
        name = own or f"{model} {about.get('device')}"  # random weights are known by their name
        asked = {"device": about.get("device"), "dtype": about.get("dtype"), **about.get("asked", {})}
        short = SHORT_DTYPES.get(str(about.get("dtype")))
        same = device in (asked["device"], about.get("device")) and dtype in (asked["dtype"], short)
        same = same and (bool(about.get("exact")) or not exact)
        if about.get("format") == FORMAT and about.get("identity") == name and entry.get("state") == "ready" and same:
            return entry
    return None


def model_there(address: Address, model: str | None, variant: str) -> Mapping[str, Any]:
    """The entry of the model that a server speaks this with; has it loaded if necessary."""
    try:
        full = hub_name(model, variant) if model else None
        names = {model, full.name if full else model}
        listed = every_model(address, CONNECT_S, CONNECT_S)
        fitting = [entry for entry in listed if entry.get("id") in names or not model]
        if not fitting:
            raise ModelError(
                f"the server at {address} has no model '{model}'",
                cause="it has " + (", ".join(str(entry.get("id")) for entry in listed) or "none"),
                hint="leave -m out, or use --via off",
            )
        able = [entry for entry in fitting if KINDS[variant] in entry.get("omnitts", {}).get("kinds", ())]
        chosen = (able or fitting)[0]
        if "omnitts" not in chosen:
            load(address, chosen)
            again = every_model(address, CONNECT_S, CONNECT_S)
            chosen = next((entry for entry in again if entry.get("id") == chosen.get("id")), chosen)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise unreachable(address, error) from None
    about = chosen.get("omnitts", {})
    if about.get("format") != FORMAT:
        is_ours = "of another version of omnitts" if about else "not an omnitts server"
        raise DeviceError(f"--via {address}: this is {is_ours}", hint="--via off   or   omnitts bench --url URL")
    return chosen


def models(address: Address, connect_s: float, answer_s: float) -> list[dict[str, Any]]:
    """Returns those of them that are loaded."""
    return [entry for entry in every_model(address, connect_s, answer_s) if isinstance(entry.get("omnitts"), dict)]


def every_model(address: Address, connect_s: float, answer_s: float) -> list[dict[str, Any]]:
    """Returns all models of a server, as it lists them."""
    connection = address.connect(connect_s, answer_s)
    try:
        with within(connection, answer_s):
            connection.request("GET", address.path.removesuffix("audio/speech") + "models", headers=headers())
            response = connection.getresponse()
            data = response.read(LARGEST_LIST)
        if response.status != http.client.OK:
            raise refused(response.status, data, address)
        return [described(entry) for entry in json_object(data)["data"] if isinstance(entry, dict)]
    except (KeyError, TypeError) as error:
        raise ValueError("the server's list of models cannot be read") from error
    finally:
        connection.close()


def described(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a model with the fields that are used, checked; ValueError if it is not what omnitts sends."""
    found: dict[str, Any] = {"id": entry["id"], "state": entry.get("state"), "sha256": entry.get("sha256")}
    found["tasks"] = [task for task in entry.get("tasks") or [] if isinstance(task, str)]
    if not is_text(found["id"]) or not is_text(found["sha256"] or ""):
        raise ValueError("the server's list of models cannot be read")
    card = entry.get("omnitts")
    if not isinstance(card, dict):
        return found
    if card.get("format") != FORMAT:
        return found | {"omnitts": {"format": card.get("format"), "kinds": ()}}
    if wrong := [name for name, right in CARD.items() if not right(card.get(name))]:
        raise ValueError(f"this is not an omnitts server: what it says of its model has a wrong {wrong[0]}")
    return found | {"omnitts": {name: card.get(name) for name in ("format", *CARD)}}


def is_text(value: Any) -> bool:
    """Whether this is a name."""
    return isinstance(value, str) and len(value) <= LONGEST_NAME


def between(low: float, high: float) -> Callable[[Any], bool]:
    """Whether this is a number in the range."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def whole_between(low: int, high: int) -> Callable[[Any], bool]:
    """Whether this is a whole number in the range."""
    return lambda value: type(value) is int and low <= value <= high


def texts(value: Any) -> bool:
    """Whether this is a list of names."""
    return isinstance(value, list) and len(value) <= MOST_NAMES and all(map(is_text, value))


def table(value: Any) -> bool:
    """Whether this maps names to texts."""
    return isinstance(value, dict) and texts(list(value)) and texts(list(value.values()))


LONGEST_NAME, MOST_NAMES = 1000, 1000
CARD: Mapping[str, Callable[[Any], bool]] = {
    "identity": is_text,
    "device": is_text,
    "dtype": is_text,
    "asked": table,
    "exact": lambda value: value is None or is_text(value),
    "slots": whole_between(1, 1 << 20),
    "sample_rate": whole_between(1000, 1_000_000),
    "frame_rate": between(0.1, 10_000),
    "hidden": whole_between(1, 1 << 20),
    "longest_piece": lambda value: value is None or whole_between(1, 1 << 20)(value),
    "plain_letters": lambda value: isinstance(value, bool),
    "kinds": texts,
    "speakers": table,
    "languages": texts,
}
"""The fields of `card`."""


@contextmanager
def within(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Ends the connection if the block takes longer: a socket's own limit begins anew with each byte."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError):
        if late.is_set():
            raise TimeoutError(errno.ETIMEDOUT, f"no whole answer within {seconds:g} s") from None
        raise
    finally:
        timer.cancel()
    if late.is_set():
        raise TimeoutError(errno.ETIMEDOUT, f"no whole answer within {seconds:g} s")


def load(address: Address, entry: Mapping[str, Any]) -> None:
    """Has the server load a model, by asking it for one frame."""
    task = (entry.get("tasks") or ["CustomVoice"])[0]
    words = {"instructions": "a voice"} if task == "VoiceDesign" else {}
    body = {"model": entry.get("id"), "input": "a", "response_format": "pcm", "max_new_tokens": 1, "retries": 0}
    connection = address.connect()
    try:
        with within(connection, ANSWER_S):
            connection.request("POST", address.path, json.dumps({**body, **words}), headers())
            connection.getresponse().read(LARGEST_ANSWER)  # what matters is the list of models afterwards
    finally:
        connection.close()


def headers() -> dict[str, str]:
    """Returns the headers of every request, with the key."""
    key = environment.variable(environment.API_KEY)
    return {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}


def unreachable(address: Address, error: BaseException) -> DeviceError:
    """The error for a server that does not answer as one."""
    cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return DeviceError(
        f"cannot speak through {address}", cause=cause, hint="omnitts serve   in another terminal, or --via off"
    )


def refused(status: int, body: bytes, address: Address) -> OmniError:
    """The error in a server's answer."""
    try:
        message = str(json_object(body)["error"]["message"])[:500]
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {status}" + ": redirects are not followed" * (300 <= status < 400)
    message = "".join(letter if letter.isprintable() else "?" for letter in message)
    if status in (401, 403):
        return DeviceError(f"{address}: {message}", hint=f"{environment.API_KEY}=KEY omnitts ...")
    if status == 404:
        return ModelError(f"{address}: {message}", hint=f"curl {address}/v1/models")
    if status == 502:
        return GuardError(f"{address}: {message}", hint="--seed N")
    if status < 500 and status not in (408, 429):
        return UsageError(f"{address}: {message}", hint="--via off   speaks on this machine")
    return DeviceError(f"{address}: {message}", hint="--via off   speaks on this machine")


def card(tts: TTS, source: str, variant: str | None, *, device: str, dtype: str) -> dict[str, Any]:
    """Returns what a client must know about an open model; `GET /v1/models` has it as "omnitts".

    `source` and `variant` are as for `load`; `device` and `dtype` are the server's own options. The first
    time, it reads all of the weights.
    """
    engine, model, found = tts.engine, tts.engine.model, here(source, variant=variant)
    folder = found.folder if isinstance(found, Found) else None
    return {
        "format": FORMAT,
        "identity": identity(folder, read=True) if folder else f"{model.name} {engine.device.name}",
        "device": engine.device.name,
        "dtype": model.precision,
        "asked": {"device": device, "dtype": dtype},
        "exact": of_exact(engine.device),
        "slots": engine.plan.slots,
        "sample_rate": model.facts.sample_rate,
        "frame_rate": model.facts.frame_rate,
        "hidden": model.facts.hidden,
        "longest_piece": model.longest_piece,
        "plain_letters": model.plain_letters,
        "kinds": sorted(model.kinds),
        "speakers": dict(model.speakers),
        "languages": list(model.languages),
    }
