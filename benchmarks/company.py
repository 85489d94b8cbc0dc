"""The same request alone and in random company: every code and every sample must be equal.

    python benchmarks/company.py -m random:1.7b-customvoice --exact
    python benchmarks/company.py -m random:1.7b-customvoice --exact --levels 33 --passes 1 --against company.jsonl

Requests are spoken one at a time, then in each pass at most `--levels` of them at once. They come in random order, each
leaves when it is spoken, and other requests among them are cancelled on the way. They are short and long, with text
streamed and whole, in every voice that the model has. Their sound is made in chunks whose sizes depend on the time;
what is compared with is the sound of all codes of a request alone, made in one piece. A row is printed and kept as soon
as it is known; that of the requests alone has a SHA-256 of all codes and one of all samples. `--against` compares these
with the rows of another process, which may have had other slots and chunks.
The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import rig

TEXTS = ("Short.", "The kettle is on, and the bread is still warm from the oven.", "One, two, three, four. " * 4)
DESCRIPTIONS = ("a calm voice", "An old man with a deep, rough voice who speaks slowly and a little too loud.", "")
CLIPS = (7, 25, 64)
"""Frames of the clips that cloned voices continue."""

Spoken = dict[str, tuple[bytes, bytes]]
"""Codes and samples of each request."""
Chunks = dict[str, int]
"""How many chunks of each size, in frames."""
SAME = ("model", "dtype", "n", "short", "long", "fingerprint")
"""What two processes must have in common for equal hashes."""


def arguments() -> argparse.Namespace:
    parser = rig.options(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("-n", "--requests", type=int, default=200)
    parser.add_argument("--levels", type=rig.numbers, default=[64, 2, 16, 33, 7], help="64,2,16,33,7")
    parser.add_argument("--passes", type=int, default=3, help="times that all levels are visited")
    parser.add_argument("--short", type=rig.numbers, default=[8, 16], help="fewest and most frames of nine in ten")
    parser.add_argument("--long", type=rig.numbers, default=[80, 150], help="fewest and most frames of the others")
    parser.add_argument("--slots", type=int, help="of the engine; by default the highest level")
    parser.add_argument("--first-chunk", type=int, default=1, help="frames of a stream's first chunk")
    parser.add_argument("--chunk", type=int, default=16, help="frames of a stream's longest chunk")
    parser.add_argument("--against", help="rows of another process: the hashes of the requests alone must be equal")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no level begins")
    return parser.parse_args()


def voices_of(model: Any) -> list[Any]:
    """Every kind of voice that the model has; cloned ones with and without a clip."""
    from omnitts_cli.voices import Cloned, Designed, Named

    numbers, voices = np.random.default_rng(0), list[Any]()
    if "named" in model.kinds:
        voices += [Named(name) for name in list(model.speakers)[:3]] or [Named()]
    if "designed" in model.kinds:
        voices += [Designed(words) for words in DESCRIPTIONS]
    if "cloned" in model.kinds:
        vector = numbers.standard_normal(model.facts.hidden).astype(np.float32)
        clips = [numbers.integers(0, model.facts.codes, (frames, model.facts.groups)) for frames in CLIPS]
        voices += [
            Cloned(vector),
            *(Cloned(vector, clip, "The words of the clip, as they were spoken.") for clip in clips),
        ]
    return voices


def requests_of(model: Any, count: int, short: Sequence[int], long: Sequence[int]) -> list[Any]:
    """Requests of a fixed number of frames, the same in every process."""
    from omnitts_cli.request import Request

    lengths, voices = random.Random(1), voices_of(model)
    return [
        Request(
            TEXTS[index % 3],
            voices[index % len(voices)],
            seed=index,
            text_mode=("streamed", "whole")[index // 3 % 2],
            max_frames=lengths.randint(*(long if lengths.random() < 0.1 else short)),
            ignore_end=True,
            id=str(index),
        )
        for index in range(count)
    ]


def among(
    engine: Any, requests: Sequence[Any], neighbours: Sequence[Any], level: int, seed: int
) -> tuple[Spoken, Chunks, int]:
    """The requests, at most `level` at once, in random order, their chunks, and the neighbours cancelled half-way."""
    order = random.Random(seed)
    waiting, running = order.sample([*requests, *neighbours], len(requests) + len(neighbours)), set[str]()
    parts: dict[str, list[Any]] = {request.id: [] for request in waiting}
    to_cancel = {request.id for request in neighbours}
    while waiting or engine.busy:
        while waiting and len(running) < level and (not running or order.random() < 0.5):
            running.add(waiting[-1].id)
            engine.submit(waiting.pop())
        for news in engine.step():
            if hasattr(news, "error"):
                raise news.error
            parts[news.request].append(news)
            if news.last:
                running.discard(news.request)
            elif news.request in to_cancel and order.random() < 0.5:
                to_cancel.discard(news.request)
                engine.cancel(news.request)
    spoken = {
        request.id: (
            np.concatenate([chunk.codes for chunk in parts[request.id]]).tobytes(),
            np.concatenate([chunk.pcm for chunk in parts[request.id]]).tobytes(),
        )
        for request in requests
    }
    sizes = Counter(len(chunk.codes) for request in requests for chunk in parts[request.id])
    chunks = {str(size): sizes[size] for size in sorted(sizes) if size}
    return spoken, chunks, sum(parts[neighbour.id][-1].stopped == "cancelled" for neighbour in neighbours)


def in_one_piece(model: Any, requests: Sequence[Any], spoken: Spoken) -> Spoken:
    """The same codes, with the sound that the codec makes of all of them in one call, a reference clip's first."""
    import torch

    from omnitts_cli.models.slot_decoder import slot_decoder

    whole = {}
    for request in requests:
        codes = np.frombuffer(spoken[request.id][0], np.int64).reshape(-1, model.facts.groups)
        clip = getattr(request.voice, "codes", None)
        every = np.concatenate([codes[:0] if clip is None else clip, codes])
        place = next(model.codec.parameters()).device
        decoder = slot_decoder(model.codec, 1, len(every), model.ops.codec)
        with torch.inference_mode():
            sound = decoder.decode(torch.from_numpy(every)[None].to(place), torch.zeros(1, dtype=torch.int64).to(place))
        samples = sound[0].cpu().numpy()[-len(codes) * model.facts.samples_per_frame :]
        whole[request.id] = codes.tobytes(), samples.tobytes()
    return whole


def differing(alone: Spoken, found: Spoken) -> dict[str, Any]:
    """How many requests have other codes and other samples, and the first of them."""
    codes, sound = ([name for name in alone if found[name][part] != alone[name][part]] for part in range(2))
    return {"codes_differ": len(codes), "samples_differ": len(sound), "which": sorted({*codes, *sound}, key=int)[:12]}


def hashes(spoken: Spoken) -> dict[str, str]:
    """One SHA-256 over the codes of all requests, and one over their samples."""
    names = sorted(spoken, key=int)
    codes, samples = (hashlib.sha256(b"".join(spoken[name][part] for name in names)) for part in range(2))
    return {"codes_sha256": codes.hexdigest(), "samples_sha256": samples.hexdigest()}


def against(path: str, about: dict[str, Any], mine: dict[str, str]) -> dict[str, bool]:
    """Whether the last row of these requests alone, from another process, has the same hashes."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = [row for row in rows if row.get("level") == 1 and all(row[key] == about[key] for key in SAME)]
    if not found:
        sys.exit(f"{path} has no row of these requests: " + ", ".join(f"{key} {about[key]}" for key in SAME))
    return {f"{key}_as_before": found[-1][key] == value for key, value in mine.items()}


def main() -> None:
    from omnitts_cli.devices.fingerprint import fingerprint
    from omnitts_cli.engine.engine import Engine
    from omnitts_cli.speech import load as build

    options, began = arguments(), time.perf_counter()
    slots = options.slots or max(options.levels)
    most = {"first_chunk": options.first_chunk, "chunk": options.chunk}
    settings = rig.settings_of(options, slots=slots, seconds=20.0, **most)
    model, device, _ = rig.load_model(options, settings)
    engine = Engine(model, device, build.plan_for(model, device, settings))
    requests = requests_of(model, options.requests, options.short, options.long)
    neighbours = [replace(one, id=f"neighbour {one.id}", seed=one.seed + 10**6) for one in requests[::7]]
    about = rig.about("company", options, model)
    about |= {"exact": options.exact, "fingerprint": fingerprint(device), "kinds": sorted(model.kinds), "slots": slots}
    about |= {"n": len(requests), "frames": sum(one.max_frames for one in requests), **most}
    about |= {"short": options.short, "long": options.long}

    def keep(**row: Any) -> None:
        rig.keep("company", [about | row | rig.machine(options, device)], options)
        sys.stdout.flush()

    ready = time.perf_counter()
    streamed, sizes, _ = among(engine, requests, (), 1, 0)
    alone = in_one_piece(model, requests, streamed)
    seconds, found = {"s": time.perf_counter() - ready, "start_s": ready - began}, hashes(alone)
    compared = against(options.against, about, found) if options.against else {}
    row = differing(alone, streamed)
    keep(level=1, **seconds, **found, **compared, **row, chunks=sizes)
    same = all(compared.values()) and not row["which"]
    for turn in range(options.passes):
        for level in options.levels:
            if time.perf_counter() - began > options.limit:
                sys.exit("stopped by --limit")
            start = time.perf_counter()
            spoken, sizes, cancelled = among(engine, requests, neighbours, level, level + 100 * turn)
            row = differing(alone, spoken)
            same = same and not row["which"]
            keep(
                **{"pass": turn + 1},
                level=level,
                s=time.perf_counter() - start,
                cancelled=cancelled,
                **row,
                chunks=sizes,
            )
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
