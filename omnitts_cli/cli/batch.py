"""omnitts batch: speak the rows of a manifest into a corpus."""

import os
import sys
import tempfile
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from omnitts_cli.cli.job import ModelOpener
from omnitts_cli.errors import PartialError, UsageError
from omnitts_cli.fleet.bucket import is_url
from omnitts_cli.fleet.cluster import speak_with_ray
from omnitts_cli.fleet.job import BatchJob
from omnitts_cli.fleet.plan import RowPlan
from omnitts_cli.fleet.report import Summary
from omnitts_cli.fleet.run import Pace
from omnitts_cli.fleet.url_job import UrlJob
from omnitts_cli.settings.corpus import Corpus, Verification
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.tts import TTS
from omnitts_cli.terminal.console import console
from omnitts_cli.terminal.progress import Progress, duration, estimate
from omnitts_cli.terminal.signals import Stopped

SHOWN_BAD = 5


def batch(
    manifest: str, corpus: Corpus, checks: Verification, text: TextIn, speech: Speech, opener: ModelOpener
) -> None:
    """Speak the rows of a manifest into a folder. The same command again continues where it stopped."""
    if not hasattr(os, "pread"):
        raise UsageError("omnitts batch does not run on Windows", hint="use WSL   or   omnitts say -f FILE")
    known = {**opener.settings, "patient": True, "fixed_chunks": True}
    style = opener.messages.progress
    with Progress("speaking", style) as speaking, Progress("checking", style) as checking:
        job = (UrlJob if is_url(corpus.output_dir) else BatchJob)(
            manifest, text, speech, corpus, checks, known,
            tell=console.notice, checking=lambda rows: checking.update(None, f"{rows:,} rows", rows=rows),
            look=partial(tell, speaking), confirm=lambda question: console.asks() and console.confirm(question),
            loaded=checking.clear, stdin=sys.stdin.buffer if manifest == "-" and sys.stdin else None,
            workers=None if corpus.ray is None else speak_with_ray,
        )  # fmt: skip
        if corpus.check_only:
            return only_check(job)

        def open_model(name: str, variant: str, slots: int | None, voice: str | None) -> AbstractContextManager[TTS]:
            settings = {**job.machine, "slots": slots}  # the precision is that of the corpus
            return opener.model(name, variant, voice=voice, **settings)

        try:
            summary = job.run(open_model)
        except OSError as error:  # an error of a file that is already open, such as the journal, has no file name
            error.filename = error.filename or corpus.output_dir
            raise
        except Stopped as stopped:
            stopped.word += "; finished rows are kept, and the same command continues"
            raise
    report(job, summary)


def tell(progress: Progress, pace: Pace) -> None:
    """The progress line: rows, hours, speed, failures."""
    share = pace.expected_done_s / pace.expected_s if pace.expected_s else None
    speed, left = pace.audio_s / pace.wall_s, pace.eta_s
    words = f"{pace.done:,} of {pace.rows:,} rows  audio {duration(pace.audio_s)}  {speed:.1f}× realtime"
    words += f"  eta {duration(left)}" if left is not None else ""
    words += f"  {pace.failed:,} failed" if pace.failed else ""
    progress.update(
        share, words, rows=pace.rows, done_rows=pace.done, audio_s=round(pace.audio_s, 1), speed_x=round(speed, 2),
        rtf=round(1 / speed, 5) if speed else None, failed=pace.failed, unverified=pace.unverified,
        eta_s=None if left is None else round(left, 1),
    )  # fmt: skip


def only_check(job: BatchJob) -> None:
    """--check"""
    with tempfile.TemporaryDirectory(prefix="omnitts-batch-") as work:
        plan = job.check(Path(work))
        bad = show_bad(plan)
        seconds = float(plan.rows["expected"].sum())
        console.record(
            status="ok" if not plan.bad else "error", command="batch", rows=plan.count, bad=plan.bad,
            expected_s=round(seconds, 1), bytes=job.bytes_for(seconds), models=plan.models,
        )  # fmt: skip
        console.note(f"{plan.count:,} row{'s' * (plan.count != 1)}, {estimate(seconds)} of speech")
        plan.manifest.source.close()
    if bad:
        raise PartialError(
            f"{plan.bad:,} of {plan.count:,} rows cannot be spoken",
            cause=bad,
            hint="correct them; the other rows can be spoken",
        )


def show_bad(plan: RowPlan) -> str | None:
    """Names the first bad rows; returns the very first."""
    first = None
    for number, row in enumerate(plan.bad_rows()):
        if number == SHOWN_BAD:
            break
        line = f"line {row['line']}{', id ' + repr(row['id']) if row['id'] else ''}: {row['message']}"
        first = first or line
        console.note(line)
    return first


def report(job: BatchJob, summary: Summary) -> None:
    """What became of the rows; PartialError if some of them failed."""
    out, pace = str(job.corpus.output_dir).rstrip("/") or "/", summary.pace
    failed = summary.failed + (0 if job.checks.keep_unverified else summary.unverified)
    fields: dict[str, Any] = {
        name: getattr(summary, name) for name in ("rows", "spoken", "failed", "unverified", "left")
    }
    if summary.noticed:
        rows = "1 row has" if summary.noticed == 1 else f"{summary.noticed:,} rows have"
        example = f", such as: {summary.notices.most_common(1)[0][0]}" if summary.notices else ""
        console.warning(f"{rows} notices{example}", hint=f"see {out}/report.md; {out}/manifest.jsonl has them by row")
    console.record(
        status="ok" if not failed else "partial", command="batch", output=out, **fields,
        rows_with_notices=summary.noticed, audio_s=round(summary.audio_s, 3),
        spoken_now=pace.done - pace.failed, copied_now=pace.copied, wall_s=round(pace.wall_s, 3) if pace.began else 0.0,
        committed_s=pace.curve[-1][0] if pace.curve else 0.0, audio_now_s=round(pace.audio_s, 3),
        **({"exact": summary.exact} if summary.exact else {}), warnings=console.warnings,
    )  # fmt: skip
    speed = f", {pace.audio_s / pace.wall_s:.1f}× realtime" if pace.done else ""
    left = f"; {summary.left:,} are left" if summary.left else ""
    before = summary.spoken - (pace.done - pace.failed) - pace.copied
    done = f"; {before:,} {'row was' if before == 1 else 'rows were'} already done" if before > 0 else ""
    made = f"{summary.spoken:,} of {summary.rows:,} rows spoken, {duration(summary.audio_s)} of speech in {out}"
    console.note(f"{made}{speed}{done}{left}")
    if failed:
        for line in summary.first_failures[:SHOWN_BAD]:
            console.note(line)
        what = "failed" if not summary.unverified else "failed or did not pass verification"
        named = "the rows" if job.manifest == "-" else job.manifest
        raise PartialError(
            f"{failed:,} of {summary.rows:,} rows {what}",
            cause=f"{out}/report.md and {out}/manifest.jsonl list them",
            hint=f"omnitts batch {job.manifest} -O {out} --retry-failed"
            if failed > summary.bad
            else f"correct {named} and run the same command again; finished rows are kept",
        )
