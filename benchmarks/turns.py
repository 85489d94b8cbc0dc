"""What an order of work costs at 64 streams, by the engine's own loop over a modelled card, in virtual time.

    python benchmarks/turns.py
    python benchmarks/turns.py --streams 8 --seeds 5

The model is `tests/support/virtual_card.py`. It compares orders of work and needs no card; its figures are not
measurements. Each row: sound a second and first packets (p50 / p95, ms) of requests that begin together, one by one,
with lengths that differ by half, and both over HTTP; then first packets at 10 and 20 requests a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import rig

sys.path.insert(0, str(rig.HERE.parent / "tests" / "support"))

LOADS = {
    "together": {"http": False, "spread": False},
    "one by one": {"http": False, "spread": True},
    "lengths differ": {"http": False, "spread": True, "varied": 0.5},
    "HTTP": {"http": True, "spread": False},
    "HTTP, lengths differ": {"http": True, "spread": True, "varied": 0.5},
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--rates", type=rig.numbers, default=[10, 20], help="requests a second")
    parser.add_argument("--seconds", type=float, default=2.5, help="virtual, of each run")
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    import virtual_card

    rows: list[list[object]] = []
    for name, load in LOADS.items():
        found = [
            virtual_card.closed(options.streams, options.seconds, seed=seed, **load) for seed in range(options.seeds)
        ]
        rows.append([name, *averages(found)])
    for rate in options.rates:
        rows.append([f"{rate} a second", *averages([virtual_card.arrivals(rate, 20.0)])])
    rig.table(["load", "audio-s/s", "first p50", "p95 ms", "least lead ms", "wait for codec"], rows)


def averages(found: list) -> list[float]:
    def mean(values: list[float]) -> float:
        return round(statistics.mean(values), 1)

    return [
        mean([one.audio_s_per_s for one in found]),
        mean([one.first_ms[0] for one in found]),
        mean([one.first_ms[1] for one in found]),
        round(min(one.least_lead_ms for one in found), 1),
        mean([one.waiting for one in found]),
    ]


if __name__ == "__main__":
    main()
