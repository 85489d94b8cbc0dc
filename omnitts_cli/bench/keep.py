"""Keep: saves the measured audio as WAV files, with a line of JSON per request."""

import json
from pathlib import Path

import numpy as np

from omnitts_cli.audio import wav
from omnitts_cli.bench.compare import named
from omnitts_cli.bench.record import Result
from omnitts_cli.bench.stats import LoadLevel, in_ms
from omnitts_cli.errors import OutputError

LIST = "requests.jsonl"


class Keeper:
    """Writes into one folder, which is created if necessary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / LIST).write_text("", "utf-8")
        except OSError as error:
            raise OutputError(f"cannot write to {folder}", cause=error.strerror, hint="--save-audio DIR") from None

    def keep(self, level: LoadLevel, results: list[Result]) -> None:
        """The requests of a level, in the order in which they were sent."""
        stem = named(level).replace("/", "-per-").replace(" ", "-")
        lines = []
        for number, one in enumerate(sorted(results, key=lambda h: h.meter.submitted), 1):
            name = f"{stem}-{number:04d}.wav"
            sound = np.concatenate(one.sound) if one.sound else np.zeros(0, np.float32)
            # the only place where NaN samples are written, so that they can be examined
            data = wav.whole(np.nan_to_num(sound), one.meter.sample_rate)
            self._write(name, data)
            lines.append(json.dumps(row(name, one), ensure_ascii=False))
        with (self.folder / LIST).open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)

    def _write(self, name: str, data: bytes) -> None:
        try:
            (self.folder / name).write_bytes(data)
        except OSError as error:
            raise OutputError(f"cannot write {self.folder / name}", cause=error.strerror) from None


def row(name: str, result: Result) -> dict[str, object]:
    """The measurements of one request."""
    meter = result.meter
    return {
        "file": name,
        "text": result.work.request.text,
        "failure": result.failure,
        "audio_s": round(meter.audio_s, 6),
        "frames": result.frames,
        "packets": len(meter.arrivals),
        "ttfp_ms": rounded(in_ms(meter.first_s)),
        "audible_ms": rounded(in_ms(meter.audible_s)),
        "e2el_ms": rounded(in_ms(meter.wall_s)),
        "rtf": rounded(meter.rtf),
        "stopped": meter.stopped,
    }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
