"""Clips: the sound that a client sends to be cloned, decoded in a process of its own."""

import asyncio
import base64
import binascii
import hashlib
import http.client
import ipaddress
import json
import socket
import ssl
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from omnitts_cli import child
from omnitts_cli.audio.read import Recording
from omnitts_cli.errors import InputError
from omnitts_cli.server.asked import RequestedClip
from omnitts_cli.server.models import ServedModel
from omnitts_cli.server.problems import Problem, busy, invalid
from omnitts_cli.speech import reference, voice_files
from omnitts_cli.speech.voices import Voice, voice_for

DECODE_S = 20.0
FETCH_S = 10.0
MOST_AT_ONCE = 4
KEPT_VOICES = 64
NAT64 = ipaddress.ip_network("64:ff9b::/96")  # a gateway leads to the IPv4 address in the last four bytes
VOICE_TYPE = "application/x-omnitts-voice"
SAFE_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/local/bin:/usr/bin:/bin"}


@dataclass
class Clips:
    """Reads clips. One decoder waits in advance, because starting one takes a third of a second."""

    largest: int
    hosts: frozenset[str] = frozenset()
    _spare: asyncio.subprocess.Process | None = None
    _starting: asyncio.Task[None] | None = None
    _running: int = 0
    _voices: OrderedDict[tuple[str, str, str | None], Voice] = field(default_factory=OrderedDict)
    _encoding: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def voice_of(self, model: ServedModel, clip: RequestedClip) -> Voice:
        """The voice of a clip; the last few are remembered."""
        kind, data = await self.bytes_of(clip.source)
        key = (model.name, hashlib.sha256(data).hexdigest(), clip.transcript)
        if (known := self._voices.get(key)) is not None:
            self._voices.move_to_end(key)
            return known
        if kind == VOICE_TYPE:
            voice = await asyncio.to_thread(opened, data, model)
        else:
            voice = await self.cloned(model, await self.decoded(data), clip.transcript)
        self._voices[key] = voice
        if len(self._voices) > KEPT_VOICES:
            self._voices.popitem(last=False)
        return voice

    async def cloned(self, model: ServedModel, recording: Recording, transcript: str | None) -> Voice:
        """The voice of a recording. One at a time: it runs beside the engine."""

        def work() -> Voice:
            found = reference.prepared(recording, transcript, tell=lambda notice: None)
            assert model.tts is not None, "the model of a request is open"
            return model.tts.clone(found)

        async with self._encoding:
            return await asyncio.to_thread(work)

    async def bytes_of(self, source: str) -> tuple[str, bytes]:
        """The media type and the bytes of a data URL, of base64, or of an allowed https URL."""
        scheme = source[:16].partition(":")[0].lower() if ":" in source[:16] else ""
        if scheme in ("http", "https"):
            return "", await asyncio.to_thread(fetch, source, self.hosts, self.largest)
        if scheme == "data":
            head, comma, coded = source.partition(",")
            if not comma or not head.endswith(";base64"):
                raise invalid("ref_audio", "ref_audio is a data URL without ;base64,")
            kind = head.removeprefix("data:").partition(";")[0].lower()
        elif scheme:
            raise invalid(
                "ref_audio", f"ref_audio is a {scheme}: URL", "a data URL, base64, or https from an allowed host"
            )
        else:
            kind, coded = "", source
        if len(coded) * 3 // 4 > self.largest + 3:
            raise Problem(413, f"the clip is larger than {self.largest:,} bytes", code="too_large", param="ref_audio")
        try:
            return kind, base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("ref_audio", "ref_audio is not base64") from None

    async def decoded(self, data: bytes) -> Recording:
        """The recording in the bytes of a sound file."""
        if self._running >= MOST_AT_ONCE:
            raise busy(f"{MOST_AT_ONCE} clips are being decoded", "clips_busy")
        self._running += 1
        process = None
        try:
            process, self._spare = self._spare, None
            if process is None:
                process = await start()
            if self._starting is None or self._starting.done():
                self._starting = asyncio.create_task(self.prepare())
            out, _ = await asyncio.wait_for(process.communicate(data), DECODE_S)
        except TimeoutError:
            raise invalid("ref_audio", "the clip could not be decoded in time") from None
        finally:
            self._running -= 1
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
        return recording_of(out)

    async def prepare(self) -> None:
        """Starts the next decoder."""
        if self._spare is None:
            self._spare = await start()

    async def close(self) -> None:
        """Ends the decoder that waits."""
        if self._starting is not None:
            self._starting.cancel()
        process, self._spare = self._spare, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()


async def start() -> asyncio.subprocess.Process:
    """A decoder that waits for its clip."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *child.command("omnitts_cli.server.decode"), stdin=pipe, stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL, env=SAFE_ENVIRONMENT,
    )  # fmt: skip


def recording_of(out: bytes) -> Recording:
    """The recording in the output of the decoder, or its error."""
    line, newline, samples = out.partition(b"\n")
    if not newline:  # it was ended by a limit
        raise invalid("ref_audio", "the clip cannot be decoded: it needs too much time or memory")
    head: dict[str, Any] = json.loads(line)
    if "error" in head:
        parts = [head["error"], *([head["cause"]] if head.get("cause") else [])]
        raise invalid("ref_audio", ": ".join(parts).replace(" on standard input", ""))
    sound = np.frombuffer(samples, "<f4").astype(np.float32)
    return Recording(sound, head["rate"], "the clip", head["source_rate"], head["channels"], head["source_s"],
                     head["notices"], head["clipped"])  # fmt: skip


def opened(data: bytes, model: ServedModel) -> Voice:
    """The voice in the bytes of a voice file."""
    try:
        found = voice_files.of_bytes(data)
    except InputError as error:
        raise invalid("voice", error.message, error.cause) from None
    return voice_for(Voice(found.voice, found.name, found.about, clip=found.clip), model.speech)


def fetch(url: str, hosts: frozenset[str], largest: int) -> bytes:
    """The bytes behind an https URL of an allowed host that has a public address. Redirects are not followed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise invalid("ref_audio", "ref_audio is not an https URL") from None
    host = (parts.hostname or "").lower()
    if parts.scheme != "https" or not host or parts.username or parts.password:
        raise invalid("ref_audio", "ref_audio is not an https URL")
    if host not in hosts:
        raise Problem(403, f"clips from '{host[:80]}' are not allowed", code="host_not_allowed", param="ref_audio",
                      hint="--allow-ref-host HOST")  # fmt: skip
    try:
        connection = Pinned(host, parts.port or 443, public_address(host))
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        data = response.read(largest + 1)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise invalid("ref_audio", f"the clip at '{host[:80]}' cannot be read: {type(error).__name__}") from None
    if response.status != http.client.OK:
        raise invalid("ref_audio", f"'{host[:80]}' answered with {response.status}")
    if len(data) > largest:
        raise Problem(413, f"the clip is larger than {largest:,} bytes", code="too_large", param="ref_audio")
    return data


def public_address(host: str) -> str:
    """The address of a host, resolved once, if it is a public one."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0]
    address = ipaddress.ip_address(str(found))
    inner = getattr(address, "ipv4_mapped", None) or address
    if inner in NAT64:
        inner = ipaddress.IPv4Address(int(inner) & 0xFFFFFFFF)
    if not inner.is_global or inner.is_multicast:
        raise Problem(403, f"'{host[:80]}' is not a public address", code="host_not_allowed", param="ref_audio")
    return str(found)


class Pinned(http.client.HTTPSConnection):
    """A connection to an address that was checked, for the host that has it."""

    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port, timeout=FETCH_S, context=ssl.create_default_context())
        self._address = address

    def connect(self) -> None:
        """Connects to that address and no other."""
        plain = socket.create_connection((self._address, self.port), FETCH_S)
        self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self.host)
