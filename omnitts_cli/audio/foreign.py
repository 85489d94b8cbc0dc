"""Formats that libsndfile cannot read, through PyAV or the user's own ffmpeg: m4a, aac, ac3, wma, film sound."""

import shutil
import subprocess
from typing import BinaryIO

from omnitts_cli.audio import pyav
from omnitts_cli.errors import InputError

TIMEOUT_S = 60


def read(path: str | None, data: BinaryIO, name: str, kind: str, until_s: float) -> bytes:
    """The first `until_s` seconds as a WAV file, through PyAV if it is installed."""
    if not pyav.present():
        return through_ffmpeg(path, data, name, kind, until_s)
    try:
        return pyav.decoded(data, until_s, TIMEOUT_S)
    except pyav.MediaError as error:
        raise InputError(
            f"reference clip {name} ({kind}) could not be read", cause=str(error),
            hint="convert the clip to wav or flac",
        ) from None  # fmt: skip


def through_ffmpeg(path: str | None, data: BinaryIO, name: str, kind: str, until_s: float) -> bytes:
    """The first `until_s` seconds as a WAV file. Reads `path`, or `data` where there is none, and nothing else."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise InputError(
            f"reference clip {name} is {kind}; reading it needs ffmpeg or PyAV, and neither is installed",
            hint=f"{pyav.INSTALL}   or install ffmpeg, or convert the clip to wav or flac",
        )
    source, protocols = ("pipe:0", "pipe") if path is None else (f"file:{path}", "file,pipe")
    command = [program, "-v", "error", "-nostdin", "-protocol_whitelist", protocols, "-i", source]
    command += ["-t", f"{until_s:.3f}", "-vn", "-c:a", "pcm_s16le", "-f", "wav", "-"]
    sent = data.read() if path is None else b""
    try:
        done = subprocess.run(command, input=sent, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise InputError(f"ffmpeg did not read reference clip {name} within {TIMEOUT_S} s") from None
    if done.returncode or not done.stdout:
        reason = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it gave no reason"]
        raise InputError(f"reference clip {name} ({kind}) could not be read by ffmpeg", cause=reason[0])
    return done.stdout
