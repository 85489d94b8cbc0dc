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
    from omnitts_cli.speech.script import Script
    from omnitts_cli.speech.speaking import Account, Stream
    from omnitts_cli.speech.tts import TTS

LEVEL_STEPS, LEVEL_STEP_DB = 8, 6.0


def report(job: Job, tts: TTS, place: Stage, stream: Stream) -> None:
    """What was made, for programs and for people."""
    from omnitts_cli.audio.pcm import dbfs
    from omnitts_cli.speech.voices import code_of
    from omnitts_cli.text.subtitles import joined, sentence_rows

    louder = getattr(place.sink, "applied_db", 0.0)  # by --loudness, after the stage has measured
    peak = dbfs(place.peak) + louder
    warn_if_clipped(peak, job.speech.volume, place)
    console.fold()
    model, request, account, seconds = tts.engine.model, stream.manner.request, stream.account, stream.seconds
    rtf = account.wall_s / seconds if seconds else None
    console.record(
        status="ok",
        command=job.command,
        output=place.shown,
        format=place.form.name,
        sample_rate=place.form.rate,
        channels=1,
        audio_s=round(seconds, 3),
        wall_s=round(account.wall_s, 3),
        rtf=None if rtf is None else round(rtf, 4),
        ttfa_s=None if account.first_sound_s is None else round(account.first_sound_s, 3),
        pieces=account.pieces,
        chars=account.chars,
        seed=stream.seed,
        retries=account.retries,
        guard_hits=account.guard_hits,
        stopped=account.stopped,
        lang=code_of(request.language, model),
        voice=job.speech.voice or getattr(request.voice, "speaker", None),
        model=model.name,
        model_sha256=model.sha256,
        device=tts.engine.device.name,
        dtype=str(model.dtype).removeprefix("torch."),
        peak_dbfs=round(peak, 1) if place.peak else None,
        loudness_lufs=None if place.lufs is None else round(place.lufs + louder, 1),
        warnings=console.warnings,
        sentences=sentence_rows(joined(account.sentences)),
    )
    if place.named or job.names_outputs:
        console.result(str(place.path))
    where = f" in {place.path}" if place.path else ""
    told = f"  RTF {rtf:.3f}" if rtf else ""
    line = f"{duration(seconds)} of speech{where}{told}  seed {stream.seed}"
    (console.note if place.named else console.detail)(line)


def warn_if_clipped(peak_dbfs: float, volume_db: float, place: Stage) -> None:
    """Whole numbers end at full scale; a WAV of floats does not."""
    if round(peak_dbfs, 1) > 0 and place.form.subtype != "float":
        console.warning(
            f"the sound is clipped: its peaks are {peak_dbfs:.1f} dB above full scale",
            hint=f"--volume {floor(volume_db - peak_dbfs)}, or --loudness -16, which leaves the peaks whole",
        )


def tell(progress: Progress, script: Script, place: Stage, stream: Stream) -> None:
    """Where we are, for the progress line; while playing also how loud it is."""
    account, seconds = stream.account, stream.seconds
    wall = max(time.perf_counter() - account.began, 1e-9)  # clocks may stand still
    share = min(1.0, account.chars / script.chars) if script.chars else None
    if not seconds:
        return progress.update(
            share, f"{account.pieces} piece{'s' * (account.pieces != 1)}", done_chars=account.chars, audio_s=0.0
        )
    speed = seconds / wall
    left = wall / share - wall if share else None
    if place.speaker:
        words = f"{level_bar(place.speaker.level)} {duration(place.speaker.played_s)} of {duration(seconds)}"
    else:
        words = f"audio {duration(seconds)}  {speed:.1f}× realtime  RTF {1 / speed:.3f}"
        words += f"  eta {duration(left)}" if left is not None else ""
    numbers: dict[str, Any] = {"audio_s": round(seconds, 2), "speed_x": round(speed, 2)}
    progress.update(share, words, done_chars=account.chars, **numbers, eta_s=None if left is None else round(left, 1))


def level_bar(level: float) -> str:
    """A level of 0..1 as steps from silence to full scale."""
    steps = round(20 * log10(max(level, 1e-6)) / LEVEL_STEP_DB) + LEVEL_STEPS
    full = max(0, min(LEVEL_STEPS, steps))
    return "▮" * full + "▯" * (LEVEL_STEPS - full)


def subtitles(account: Account, path: Path) -> bytes:
    """The times of the sentences as a subtitle file."""
    from omnitts_cli.text.subtitles import joined, render, subtitle_format

    return render(joined(account.sentences), subtitle_format(str(path))).encode()


def codes(account: Account, groups: int) -> bytes:
    """The codes of all pieces, joined, as a file."""
    import numpy as np

    return packed(np.concatenate([np.zeros((0, groups), np.int64), *account.codes]))


def packed(codes: np.ndarray) -> bytes:
    """A safetensors file with one tensor `codes` [frames, groups]."""
    import numpy as np
    from safetensors.numpy import save

    return save({"codes": np.ascontiguousarray(codes, np.int64)})
