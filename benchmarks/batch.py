"""`omnitts batch` against its own engine: seconds of speech per second, at the same slots, in the same process.

python benchmarks/batch.py -m random:1.7b-customvoice --slots 64 --seconds 240 --folder FOLDER [--save FILE]

The engine alone gets the requests that the rows make, without splitting, files or journal. Both are measured in their
steady state: the first seconds do not count; the tail is reported apart. Rows have given lengths
(`max_frames`, lognormal, 5 s on average), as random weights never end on their own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from omnitts_cli.errors import Notice
from omnitts_cli.fleet.job import BatchJob
from omnitts_cli.fleet.run import Pace
from omnitts_cli.request import Request
from omnitts_cli.settings.corpus import Corpus, Verification
from omnitts_cli.settings.table import Speech, TextIn
from omnitts_cli.speech.tts import TTS, load
from omnitts_cli.voices import Named

WORDS = "the quick brown fox jumps over a lazy dog while seven old ships sail along quiet northern rivers".split()
MEAN_FRAMES, SPREAD = 62, 0.5
LETTERS_A_FRAME = 1.1


def rows_of(count: int, free: bool) -> list[dict[str, Any]]:
    """Rows of many lengths. `free`: they end on their own, as with trained weights."""
    draw = random.Random(0)
    rows = []
    for number in range(count):
        frames = round(min(max(draw.lognormvariate(math.log(MEAN_FRAMES) - SPREAD**2 / 2, SPREAD), 12), 240))
        text = draw.choice(WORDS)
        while len(text) < min(frames * LETTERS_A_FRAME, 100):  # one piece for every model
            text += " " + draw.choice(WORDS)
        limit = {} if free else {"max_frames": frames}
        rows.append({"id": f"r{number:06}", "text": f"{text}.", "seed": number, **limit})
    return rows


def engine_alone(tts: TTS, rows: list[dict[str, Any]], seconds: float, lead_s: float) -> dict[str, float]:
    """Audio seconds per second of the engine itself, always with more requests than slots."""
    engine, voice = tts.engine.engine, Named(next(iter(tts.engine.model.speakers), ""))
    requests = (
        Request(row["text"], voice, seed=row["seed"], max_frames=row.get("max_frames")) for row in rows
    )  # fmt: skip
    ahead, open_now = engine.plan.slots + 16, 0
    began, samples, steps, first = time.perf_counter(), 0, 0, 0.0
    while (now := time.perf_counter()) - began < seconds + lead_s:
        for request in islice(requests, ahead - open_now):
            engine.submit(request)
            open_now += 1
        if not open_now:
            break
        for news in engine.step():
            if now - began >= lead_s:
                first = first or now
                samples += news.pcm.size  # type: ignore[union-attr]
            open_now -= news.last  # type: ignore[union-attr]
        steps += 1
    wall = time.perf_counter() - first
    for name in list(engine.snapshot().requests):
        engine.cancel(name)
    while engine.busy:
        engine.step()
    return {"audio_s_per_s": samples / tts.sample_rate / wall, "measured_s": wall}


def batch(
    tts: TTS,
    rows: list[dict[str, Any]],
    folder: Path,
    form: str,
    lead_s: float,
    progress: bool,
    writers: int | None = None,
) -> dict[str, Any]:
    """The same rows through the whole of `omnitts batch`."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "rows.jsonl"
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    seen: list[Pace] = []
    printed_at = [0.0]

    def look(pace: Pace) -> None:
        seen[:] = [pace]
        if progress and time.perf_counter() - printed_at[0] > 10:
            printed_at[0] = time.perf_counter()
            print(f"{pace.done} rows, {pace.audio_s / pace.wall_s:.1f} audio-s/s", file=sys.stderr, flush=True)

    machine = {"device": tts.engine.device.name, "dtype": "auto", "slots": tts.engine.plan.slots, "first_chunk": 25,
               "chunk": 25, "threads": None, "offline": True}  # fmt: skip
    notices: list[Notice] = []
    job = BatchJob(str(manifest), TextIn(), Speech(model=tts.engine.model.name, seed=1),
                   Corpus(output_dir=str(folder / "out"), format=form), Verification(), machine,
                   tell=notices.append, look=look, writers=writers)  # fmt: skip
    cpu = time.process_time()
    job.run(lambda name, variant, slots: nullcontext(tts))
    pace = seen[0]
    assert pace.full is not None and not pace.failed, notices
    begin = next(at for at in pace.curve if at[0] >= min(lead_s, pace.full[0] / 4))
    end = max((at for at in pace.curve if at[0] <= pace.full[0]), default=pace.curve[-1])
    total = pace.curve[-1]
    if end[0] <= begin[0]:  # too few rows for a steady state
        begin, end = (0.0, 0.0), total
    return {
        "audio_s_per_s": (end[1] - begin[1]) / (end[0] - begin[0]),
        "measured_s": end[0] - begin[0],
        "with_start_and_tail": total[1] / total[0],
        "tail_s": total[0] - pace.full[0],
        "rows": pace.done,
        "audio_s": total[1],
        "cores": (time.process_time() - cpu) / total[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-m", "--model", default="tiny")
    parser.add_argument("-d", "--device", default="auto")
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60, help="of the batch; rows are made for so long")
    parser.add_argument("--engine-seconds", type=float, default=20)
    parser.add_argument("--lead", type=float, default=5)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--format", default="flac")
    parser.add_argument("--writers", type=int, help="processes that make sound files")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    began = time.perf_counter()
    free = not asked.model.startswith("random:")
    tts = load(
        asked.model, device=asked.device, slots=asked.slots, first_chunk=25, chunk=25, patient=True, fixed_chunks=True
    )
    print(f"open after {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    alone_rows = rows_of(20_000, free)
    first = engine_alone(tts, alone_rows, min(asked.engine_seconds, 5), 2)
    turns = []
    for turn in range(asked.turns):
        alone = engine_alone(tts, alone_rows, asked.engine_seconds, 2)
        count = int(asked.seconds * first["audio_s_per_s"] / (MEAN_FRAMES / 12.5))
        rows, folder = rows_of(max(count, asked.slots), free), asked.folder / str(turn)
        whole = batch(tts, rows, folder, asked.format, asked.lead, True, asked.writers)
        after = engine_alone(tts, alone_rows, asked.engine_seconds / 2, 2)
        reference = (alone["audio_s_per_s"] + after["audio_s_per_s"]) / 2
        turns.append(
            {"engine": alone, "batch": whole, "engine_after": after, "share": whole["audio_s_per_s"] / reference}
        )
        print(json.dumps(turns[-1]), flush=True)
    device = f"{tts.engine.device.name}, {tts.engine.device.card}"
    found = {"model": asked.model, "device": device, "slots": tts.engine.plan.slots, "format": asked.format}
    found |= {"cpus": os.cpu_count(), "turns": turns}
    tts.close()
    if asked.save:
        asked.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
