"""Results: what is told about a finished job, on the way and at the end; subtitles and codes as files."""

from __future__ import annotations

import time
from math import floor, log10
from typing import TYPE_CHECKING, Any

from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, duration

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from omnitts_cli.cli.job import Job
    from omnitts_cli.cli.sound_out import Stage
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.request import Request
    from omnitts_cli.speech.script import Script
    from omnitts_cli.speech.speaking import Account
    from omnitts_cli.speech.tape import Tape
    from omnitts_cli.text.subtitles import Sentence

LEVEL_STEPS, LEVEL_STEP_DB = 8, 6.0


def report(job: Job, engine: Engine, place: Stage, account: Account, tape: Tape, request: Request) -> None:
    """What was made, for programs and for people."""
    from omnitts_cli.speech.speaking import numbers
    from omnitts_cli.speech.voices import code_of
    from omnitts_cli.text.subtitles import sentence_rows

    louder = getattr(place.sink, "applied_db", 0.0)  # by --loudness, behind the tape
    warn_if_clipped(tape.peak_dbfs + louder, job.speech.volume, place)
    console.fold()
    model, measured = engine.model, numbers(account, tape)
    console.record(
        status="ok",
        command=job.command,
        output=place.shown,
        format=place.form.name,
        sample_rate=place.form.rate,
        channels=1,
        **measured,
        lang=code_of(request.language, model),
        voice=job.speech.voice or getattr(request.voice, "speaker", None),
        model=model.name,
        model_sha256=model.sha256,
        device=engine.device.name,
        dtype=str(model.dtype).removeprefix("torch."),
        peak_dbfs=round(tape.peak_dbfs + louder, 1) if tape.peak else None,
        loudness_lufs=None if tape.lufs is None else round(tape.lufs + louder, 1),
        warnings=console.warnings,
        sentences=sentence_rows(sentences(account)),
    )
    if place.named or job.names_outputs:
        console.result(str(place.path))
    where = f" in {place.path}" if place.path else ""
    rtf = f"  RTF {measured['rtf']:.3f}" if measured["rtf"] else ""
    line = f"{duration(tape.seconds)} of speech{where}{rtf}  seed {account.seed}"
    (console.note if place.named else console.detail)(line)


def warn_if_clipped(peak_dbfs: float, volume_db: float, place: Stage) -> None:
    """Whole numbers end at full scale; a WAV of floats does not."""
    if round(peak_dbfs, 1) > 0 and place.form.subtype != "float":
        console.warning(
            f"the sound is clipped: its peaks are {peak_dbfs:.1f} dB above full scale",
            hint=f"--volume {floor(volume_db - peak_dbfs)}, or --loudness -16, which leaves the peaks whole",
        )


def tell(progress: Progress, script: Script, place: Stage, account: Account, tape: Tape) -> None:
    """Where we are, for the progress line; while playing also how loud it is."""
    wall = max(time.perf_counter() - account.began, 1e-9)  # clocks may stand still
    share = min(1.0, account.chars / script.chars) if script.chars else None
    if not tape.samples:
        return progress.update(
            share, f"{account.pieces} piece{'s' * (account.pieces != 1)}", done_chars=account.chars, audio_s=0.0
        )
    speed = tape.seconds / wall
    left = wall / share - wall if share else None
    if place.speaker:
        words = f"{level_bar(place.speaker.level)} {duration(place.speaker.played_s)} of {duration(tape.seconds)}"
    else:
        words = f"audio {duration(tape.seconds)}  {speed:.1f}× realtime  RTF {1 / speed:.3f}"
        words += f"  eta {duration(left)}" if left is not None else ""
    numbers: dict[str, Any] = {"audio_s": round(tape.seconds, 2), "speed_x": round(speed, 2)}
    progress.update(share, words, done_chars=account.chars, **numbers, eta_s=None if left is None else round(left, 1))


def level_bar(level: float) -> str:
    """A level of 0..1 as steps from silence to full scale."""
    steps = round(20 * log10(max(level, 1e-6)) / LEVEL_STEP_DB) + LEVEL_STEPS
    full = max(0, min(LEVEL_STEPS, steps))
    return "▮" * full + "▯" * (LEVEL_STEPS - full)


def sentences(account: Account) -> list[Sentence]:
    from omnitts_cli.text.subtitles import Sentence, joined

    return joined([Sentence(one.start, one.end, one.text) for one in account.sentences])


def subtitles(account: Account, path: Path) -> bytes:
    """The times of the sentences as a subtitle file."""
    from omnitts_cli.text.subtitles import render, subtitle_format

    return render(sentences(account), subtitle_format(str(path))).encode()


def codes(account: Account, groups: int) -> bytes:
    """The codes of all pieces, joined, as a file."""
    import numpy as np

    return packed(np.concatenate([np.zeros((0, groups), np.int64), *account.codes]))


def packed(codes: np.ndarray) -> bytes:
    """A safetensors file with one tensor `codes` [frames, groups]."""
    import numpy as np
    from safetensors.numpy import save

    return save({"codes": np.ascontiguousarray(codes, np.int64)})
