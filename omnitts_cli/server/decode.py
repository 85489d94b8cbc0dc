"""A process of its own that decodes one untrusted clip: the clip on standard input; on standard output a line of JSON,
and the samples as float32.

Memory and time are bounded, and no file can be written. On Linux 5.13 or newer the process can read programs and
libraries and nothing else, and has no network; elsewhere it can read what the server can.
"""

import json
import sys
from contextlib import suppress
from typing import Any

from omnitts_cli.server.confine import confine

MEMORY_BYTES, CPU_S = 512 << 20, 10


def limit() -> None:
    """Bounds what this process may use, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for name, most in {"CPU": CPU_S, "AS": MEMORY_BYTES, "CORE": 0, "FSIZE": 0}.items():
        with suppress(AttributeError, ValueError, OSError):  # macOS refuses a limit of what it has mapped already
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))


def main() -> None:
    """Decodes the clip."""
    import numpy as np
    import soundfile  # noqa: F401  # now, before a clip arrives
    import soxr  # noqa: F401

    from omnitts_cli.audio.read import read_clip
    from omnitts_cli.errors import OmniError

    limit()
    confine()
    out = sys.stdout.buffer
    head: dict[str, Any] = {}
    samples: Any = np.zeros(0, np.float32)
    try:
        clip = read_clip("-", stdin=sys.stdin.buffer)
        samples = clip.sound
        head = {"rate": clip.rate, "source_rate": clip.source_rate, "channels": clip.source_channels,
                "source_s": clip.source_s, "clipped": clip.clipped, "notices": clip.notices}  # fmt: skip
    except OmniError as error:
        head = {"error": error.message, "cause": error.cause}
    except MemoryError:
        head = {"error": "the clip needs too much memory to decode"}
    out.write(json.dumps(head).encode() + b"\n")
    out.write(np.ascontiguousarray(samples, "<f4").tobytes())
    out.flush()
