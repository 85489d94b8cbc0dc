"""Sound formats: chooses format and sample rate of an output, and encodes it block by block.

Sample counts: wav, raw, flac and ogg hold exactly the samples written. Opus counts in 48 kHz and an
end position, exact at the rates it knows. MP3 has padding that only the tag at a file's front corrects.
"""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal, get_args

import numpy as np

from omnitts_cli.audio.magic import HEAD_BYTES, is_text
from omnitts_cli.audio.outlet import Outlet
from omnitts_cli.audio.pcm import BLOCK_S, SUBTYPES, Subtype, require_finite, to_int16, to_int24
from omnitts_cli.audio.wav import RawWriter, WavWriter
from omnitts_cli.errors import OutputError, UsageError

FormatName = Literal["wav", "raw", "flac", "mp3", "opus", "ogg", "m4a"]
M4A: FormatName = "m4a"
"""AAC, which PyAV or ffmpeg writes (`books/m4b.py`); for single files only."""
FORMATS: tuple[FormatName, ...] = tuple(name for name in get_args(FormatName) if name != M4A)

SUFFIXES: dict[str, FormatName] = {
    ".wav": "wav", ".wave": "wav", ".raw": "raw", ".pcm": "raw", ".flac": "flac",
    ".mp3": "mp3", ".opus": "opus", ".ogg": "ogg", ".oga": "ogg",
}  # fmt: skip
OTHER_AUDIO = {".m4a", ".m4b", ".mp4", ".aac", ".wma", ".aiff", ".aif", ".webm", ".amr", ".ac3", ".caf", ".w64"}

LIKE_A_FORMAT = re.compile(r"\.(?=\d*[a-z])\w{2,5}", re.IGNORECASE | re.ASCII)  # .flc; not .2 nor .recording

OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
AAC_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 64_000, 88_200, 96_000)
MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
LOWEST_OUTPUT_RATE, HIGHEST_OUTPUT_RATE = 8_000, 192_000

BITRATES: tuple[FormatName, ...] = ("mp3", "opus", M4A)
QUALITIES: tuple[FormatName, ...] = ("mp3", "opus", "ogg")
OPUS_LEAST, OPUS_RANGE = 6, 250  # kilobits a second at the levels 1 and 0 of libsndfile, for one channel
BEST = 10.0

CODECS: dict[str, tuple[str, str]] = {  # libsndfile's names
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "opus": ("OGG", "OPUS"),
    "ogg": ("OGG", "VORBIS"),
}
SET_OGG_PAGE_LATENCY_MS = 0x1302
"""A command of libsndfile for Opus; versions before 1.1 ignore it."""
STREAM_PAGE_MS = 50.0
FLAC_SUBTYPES = {"pcm16": "PCM_16", "pcm24": "PCM_24"}


@dataclass(frozen=True)
class SoundFormat:
    """The format of an output. `notices` tell the user what was changed to make it possible."""

    name: FormatName = "wav"
    rate: int = 24_000
    subtype: Subtype = "pcm16"
    bitrate: int | None = None  # kilobits a second, of mp3, opus and m4a; None for the encoder's own
    quality: float | None = None  # 0 to 10, of mp3, opus and ogg
    notices: tuple[str, ...] = ()

    @property
    def suffix(self) -> str:
        return f".{self.name}"


def choose_format(
    target: str | None = None,
    name: str | None = None,
    *,
    model_rate: int = 24_000,
    rate: int | None = None,
    subtype: str | None = None,
    bitrate: int | None = None,
    quality: float | None = None,
    m4a: bool = False,
) -> SoundFormat:
    """The format for `-o target -F name --sample-rate rate --subtype subtype ...`; contradictions are UsageErrors.

    `m4a`: whether that is one of the formats here.
    """
    refuse_folder(target or "")
    chosen = M4A if m4a and wants_m4a(target, name) else format_name(target, name)
    if subtype is not None and subtype not in SUBTYPES:
        raise UsageError(f"unknown --subtype '{subtype}'", hint=f"one of: {', '.join(SUBTYPES)}")
    if subtype not in (None, "pcm16") and chosen not in ("wav", "flac"):
        raise UsageError(f"--subtype {subtype} is for wav and flac, not for {chosen}")
    if subtype == "float" and chosen == "flac":
        raise UsageError("flac has no float samples", hint="--subtype pcm24, or -F wav")
    wanted = model_rate if rate is None else rate
    if not LOWEST_OUTPUT_RATE <= wanted <= HIGHEST_OUTPUT_RATE:
        raise UsageError(f"--sample-rate {wanted} is outside {LOWEST_OUTPUT_RATE}-{HIGHEST_OUTPUT_RATE} Hz")
    possible = possible_rate(chosen, wanted)
    refuse_loss(chosen, possible, bitrate, quality)
    notices: tuple[str, ...] = ()
    if possible != wanted:
        notices += (f"{chosen} does not support {wanted} Hz; writing {possible} Hz",)
    if chosen != M4A and (suffix := unknown_suffix(target, name)):
        refuse_text(target or "")
        notices += (f"unknown suffix {suffix}; {target} is written as {chosen} (choose with -F)",)
    if suffix := other_suffix(target, chosen):
        notices += (f"{target} is written as {chosen}, although its suffix is {suffix}",)
    return SoundFormat(chosen, possible, subtype or "pcm16", bitrate, quality, notices)  # type: ignore[arg-type]


def refuse_loss(name: FormatName, rate: int, bitrate: int | None, quality: float | None) -> None:
    """UsageError for a bitrate or a quality that the format does not have."""
    if bitrate is not None and quality is not None:
        raise UsageError("use one of --bitrate and --quality", hint="leave one of them out")
    for option, value, fitting in (("--bitrate", bitrate, BITRATES), ("--quality", quality, QUALITIES)):
        if value is not None and name not in fitting:
            raise UsageError(f"{option} is for {', '.join(fitting)}, not for {name}", hint=f"-F {fitting[0]}")
    if bitrate is not None:
        lowest, highest = bitrates(name, rate)
        if not lowest <= bitrate <= highest:
            raise UsageError(
                f"--bitrate {bitrate} is outside {lowest}-{highest} for {name} at {rate} Hz",
                hint=f"--bitrate {min(max(bitrate, lowest), highest)}",
            )


def bitrates(name: str, rate: int) -> tuple[int, int]:
    """The lowest and the highest bitrate of a format, in kilobits a second."""
    if name != "mp3":
        return (8, 250)
    return (32, 320) if rate >= 32_000 else (8, 160) if rate >= 16_000 else (8, 64)


def refuse_folder(target: str) -> None:
    """Raises for the name of a folder that does not exist; a Path would drop its slash and make a file of it."""
    if target.endswith("/") and not os.path.exists(target):
        hint = f"mkdir -p {target}   and then   -o {target}speech.wav"
        raise OutputError(f"cannot write {target}: there is no such folder", hint=hint)


def refuse_text(target: str) -> None:
    """Refuses to replace a text by sound, as in `-o book.txt` for `-f book.txt`; -F allows it."""
    path = Path(target)
    if path.is_file() and os.access(path, os.R_OK):
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if head and is_text(head):
            hint = f"to speak it: -f {shlex.quote(target)}; to replace it with audio: -F wav"
            raise UsageError(f"{target} is a text file, and sound would replace it", hint=hint)


def wants_m4a(target: str | None, name: str | None) -> bool:
    return name.lower() == M4A if name is not None else PurePath(target or "").suffix.lower() == f".{M4A}"


def format_name(target: str | None, name: str | None) -> FormatName:
    """The format by -F, else by the target's suffix, else wav."""
    if name is not None:
        if name.lower() not in FORMATS:
            raise UsageError(f"unknown format '{name}'", hint=f"one of: {', '.join(FORMATS)}")
        return name.lower()  # type: ignore[return-value]
    suffix = PurePath(target or "").suffix.lower()
    if suffix in OTHER_AUDIO:
        raise UsageError(
            f"omnitts does not write {suffix} files",
            hint=f"-o {PurePath(target or '').stem}.mp3   or   -o - | ffmpeg -i - {PurePath(target or '').name}",
        )
    return SUFFIXES.get(suffix, "wav")


def unknown_suffix(target: str | None, name: str | None) -> str | None:
    """The suffix of a target, if it looks like a format that we do not write; None if `-F` names the format."""
    suffix = PurePath(target or "").suffix
    unknown = name is None and LIKE_A_FORMAT.fullmatch(suffix) and suffix.lower() not in SUFFIXES
    return suffix if unknown else None


def other_suffix(target: str | None, chosen: FormatName) -> str | None:
    """The suffix of a target if it belongs to another format than the chosen one. Opus may be called .ogg too."""
    suffix = PurePath(target or "").suffix.lower()
    own = SUFFIXES.get(suffix) or (suffix if suffix in OTHER_AUDIO else chosen)
    return None if own in (chosen, f".{chosen}") or (own, chosen) == ("ogg", "opus") else suffix


def possible_rate(name: FormatName, rate: int) -> int:
    """The rate itself, or the next higher one that the format supports, else its highest."""
    rates = {"opus": OPUS_RATES, "mp3": MP3_RATES, "m4a": AAC_RATES}.get(name)
    if rates is None or rate in rates:
        return rate
    return min((r for r in rates if r > rate), default=rates[-1])


class LibraryEncoder:
    """flac, mp3, opus and ogg through libsndfile: finite blocks of at most a second."""

    notice: str | None = None

    def __init__(self, outlet: Outlet, form: SoundFormat) -> None:
        import soundfile

        library, subtype = CODECS.get(form.name, ("FLAC", FLAC_SUBTYPES.get(form.subtype, "PCM_16")))
        self._subtype = subtype
        self.outlet, self.block = outlet, max(1, int(form.rate * BLOCK_S))
        try:
            self._file: Any = soundfile.SoundFile(
                outlet, "w", samplerate=form.rate, channels=1, subtype=subtype, format=library, **loss(form)
            )
        except soundfile.LibsndfileError as error:
            outlet.check()
            raise OutputError(
                f"cannot write {form.name}: {error.error_string}",
                hint="-F wav always works; omnitts doctor lists the formats",
            ) from error
        outlet.check()

    def short_pages(self) -> None:
        """For an Opus stream that is played while it is made. By default a page holds a second."""
        import soundfile

        latency = soundfile._ffi.new("double *", STREAM_PAGE_MS)
        soundfile._snd.sf_command(self._file._file, SET_OGG_PAGE_LATENCY_MS, latency, soundfile._ffi.sizeof("double"))

    def write(self, samples: np.ndarray) -> None:
        require_finite(samples)
        for start in range(0, samples.size, self.block):
            self._file.write(self._numbers(samples[start : start + self.block]))
            self.outlet.check()

    def _numbers(self, samples: np.ndarray) -> np.ndarray:
        """FLAC gets the very integers that WAV gets; the lossy codecs get floats held within -1..1."""
        if self._subtype == "PCM_16":
            return to_int16(samples)
        if self._subtype == "PCM_24":
            return to_int24(samples) << 8  # libsndfile takes the upper 24 of 32 bits
        return np.clip(samples, -1.0, 1.0)

    def close(self) -> None:
        self._file.close()
        self.outlet.check()


def loss(form: SoundFormat) -> dict[str, Any]:
    """A bitrate or a quality in libsndfile's terms, in which level 0 is the best and 1 the worst."""
    if form.quality is not None:
        level = 1 - form.quality / BEST
        if form.name == "mp3":  # libsndfile refuses its level 1
            return {"compression_level": min(level, 0.99), "bitrate_mode": "VARIABLE"}
        return {"compression_level": level}
    if form.bitrate is None:
        return {}
    if form.name == "opus":
        return {"compression_level": 1 - (form.bitrate - OPUS_LEAST) / OPUS_RANGE}
    lowest, highest = bitrates(form.name, form.rate)
    level = (highest - form.bitrate - 0.25) / (highest - lowest)  # it is rounded down again
    return {"compression_level": min(max(level, 0.0), 1.0), "bitrate_mode": "CONSTANT"}


Encoder = WavWriter | RawWriter | LibraryEncoder
"""Writes blocks of finite mono float32 at the format's rate to an outlet."""


def open_encoder(outlet: Outlet, form: SoundFormat) -> Encoder:
    """The encoder for a format. libsndfile is imported only where it is needed."""
    if form.name == "wav":
        return WavWriter(outlet, form.rate, form.subtype)
    if form.name == "raw":
        return RawWriter(outlet, form.subtype)
    return LibraryEncoder(outlet, form)
