"""Results: progress and the final report of a job; subtitles and codes as files."""

from __future__ import annotations

import time
from math import floor
from typing import TYPE_CHECKING

from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.playback import Playback
from omnitts_cli.terminal.progress import Progress, duration

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from omnitts_cli.cli.sound_out import Player, Stage
    from omnitts_cli.settings.table import Speech
    from omnitts_cli.speech.script import Script
    from omnitts_cli.speech.speaking import Account, Stream
    from omnitts_cli.speech.tts import TTS

STEADY_S = 1.0


def report(command: str, speech: Speech, tts: TTS, place: Stage, stream: Stream, *, named: bool) -> None:
    """What was made, for programs and for people. `named`: its name is printed on stdout."""
    from omnitts_cli.audio.pcm import dbfs
    from omnitts_cli.speech.voices import code_of
    from omnitts_cli.text.subtitles import joined, sentence_rows

    louder = getattr(place.sink, "applied_db", 0.0)  # gain of --loudness, applied after measuring
    peak = dbfs(place.peak) + louder
    warn_if_clipped(peak, speech.volume, place)
    console.fold()
    model, request, account, seconds = tts.engine.model, stream.manner.request, stream.account, stream.seconds
    rtf = account.wall_s / seconds if seconds else None
    console.record(
        status="ok",
        command=command,
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
        voice=speech.voice or getattr(request.voice, "speaker", None),
        model=model.name,
        model_sha256=model.sha256,
        device=tts.engine.device.name,
        dtype=str(model.dtype).removeprefix("torch."),
        via=tts.via,
        peak_dbfs=round(peak, 1) if place.peak else None,
        loudness_lufs=None if place.lufs is None else round(place.lufs + louder, 1),
        warnings=console.warnings,
        sentences=sentence_rows(joined(account.sentences)),
    )
    if place.named or named:
        console.result(str(place.path))
    where = f" in {place.path}" if place.path else ""
    speed = f"  RTF {rtf:.3f}" if rtf else ""
    line = f"{duration(seconds)} of speech{where}{speed}  seed {stream.seed}"
    drawn = speech.seed is None and console.on_terminal()  # it would be lost
    (console.note if place.named or named or drawn else console.detail)(line)


def warn_if_clipped(peak_dbfs: float, volume_db: float, place: Stage) -> None:
    """Warns about clipping; float WAV files do not clip."""
    if round(peak_dbfs, 1) > 0 and place.form.subtype != "float":
        console.warning(
            f"the sound is clipped: its peaks are {peak_dbfs:.1f} dB above full scale",
            hint=f"--volume {floor(volume_db - peak_dbfs)}, or --loudness -16, which limits the peaks",
        )


def tell(progress: Progress, script: Script, stream: Stream) -> None:
    """Updates the progress line: how much has been generated."""
    account, made_s = stream.account, stream.made_s
    wall = max(time.perf_counter() - account.began, 1e-9)  # clocks may not advance
    share = min(1.0, stream.made_chars() / script.chars) if script.chars else None
    if not made_s:
        return progress.update(share, "starting", done_chars=account.chars, audio_s=0.0)
    speed = made_s / wall
    left = wall / share - wall if share and wall > STEADY_S else None  # too early for an estimate
    words = f"audio {duration(made_s)}  {speed:.1f}× realtime" + (f"  eta {duration(left)}" if left is not None else "")
    progress.update(
        share, words, done_chars=account.chars, audio_s=round(made_s, 2), speed_x=round(speed, 2),
        eta_s=None if left is None else round(left, 1),
    )  # fmt: skip


def tell_playing(progress: Progress, script: Script, place: Stage, stream: Stream, player: Player) -> None:
    """The playback position, for the line of `play`."""
    speaker = place.speaker
    assert speaker is not None
    complete = script.ended and stream.finished
    expected = None
    if script.chars and (done := stream.made_chars()):
        expected = stream.made_s * max(1.0, script.chars / done)
    moment = Playback(speaker.played_s, stream.made_s, complete, expected, speaker.level, player.paused, player.listens)
    progress.update(moment.share, moment.words, heard_s=round(moment.heard_s, 2), audio_s=round(moment.made_s, 2))


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
