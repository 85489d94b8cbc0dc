"""What `omnitts tune` does with `tiny`: losses, the verdict, and processor time by stage over that of speaking.

    python benchmarks/tune.py RECORDINGS --work DIR
    python benchmarks/tune.py --flite slt --work DIR      five minutes of a voice of flite, which must be installed

It ends with two made cases whose verdicts are known: the same adapter with strength 0 gains nothing, and a clone
with a stranger's vector is beaten clearly.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import omnitts_cli as omnitts
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.voices import Voice
from omnitts_cli.tuning.run import TuneStage, tune
from omnitts_cli.tuning.verdict import SENTENCES, compare, spoken
from omnitts_cli.voices import Cloned

HOUSE = Path(__file__).parents[1]
SECONDS = 330.0


def by_flite(voice: str, folder: Path) -> Path:
    """Sentences of the benchmarks, spoken by flite."""
    lines = [line for name in ("sentences", "harder") for line in (HOUSE / f"omnitts_cli/bench/{name}.txt").open()]
    prose = (HOUSE / "samples/texts/english.txt").read_text().replace("\n", " ")
    lines += [one for one in re.split(r"(?<=[.!?])\s+", prose) if 25 < len(one) < 110]
    folder.mkdir(parents=True, exist_ok=True)
    seconds = 0.0
    for number, line in enumerate(dict.fromkeys(line.strip() for line in lines if line.strip())):
        path = folder / f"{number:03}.wav"
        subprocess.run(["flite", "-voice", voice, "-t", line, "-o", str(path)], check=True)
        path.with_suffix(".txt").write_text(line)
        seconds += soundfile.info(path).duration
        if seconds > SECONDS:
            break
    return folder


class Clock:
    """Processor time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._stage, self._since = "opening", time.process_time()

    def look(self, stage: TuneStage) -> None:
        now = time.process_time()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        self._stage, self._since = stage.name, now


def spoken_in(texts: list[str]) -> tuple[float, float]:
    """Processor time to speak texts with `tiny`, and their length."""
    with omnitts.load("tiny", device="cpu", threads=1) as tts:
        tts.speak("Warm up.")
        began = time.process_time()
        clips = tts.speak_all(texts, voice="henry", seed=0)
        return time.process_time() - began, sum(clip.seconds for clip in clips)


def made_cases(voice: voice_files.SavedVoice, stranger: np.ndarray, pace: float) -> dict[str, Any]:
    """The verdict where the answer is known."""
    assert voice.adapter is not None
    nothing = {name: replace(pair, scale=0.0) for name, pair in voice.adapter.pairs.items()}
    own, identity = Voice(voice.voice, "own", voice.about, adapter=voice.adapter), voice.voice
    cases = {
        "own": own,
        "plain": Voice(identity, "plain", voice.about),
        "nothing": replace(own, adapter=type(voice.adapter)(nothing)),
        "stranger": Voice(Cloned(stranger), "stranger", voice.about),
    }
    found = {}
    for name, one in cases.items():
        with omnitts.load("tiny", voice=one, device="cpu", threads=1, dtype="fp32") as tts:
            cloner = tts.engine.model.cloner
            assert cloner is not None
            found[name] = spoken(tts, one, cloner, SENTENCES, identity.embedding, lambda count: None)
    pairs = {"strength 0 against plain": ("plain", "nothing"), "own against a stranger": ("stranger", "own")}
    return {
        what: {"gain": round(made.gain, 3), "interval": round(made.interval, 3), "won": made.won}
        for what, (clone, tuned) in pairs.items()
        if (made := compare(found[clone], found[tuned], pace))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="?", type=Path)
    parser.add_argument("--flite", help="voice of flite: slt, rms, awb, kal")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=12)
    given = parser.parse_args()
    voice_files.use_folder(str(given.work / "voices"))
    recordings = by_flite(given.flite, given.work / "recordings") if given.flite else given.recordings
    clock = Clock()
    done = tune(
        recordings, "bench", consent="for a benchmark", epochs=given.epochs, folder=given.work / "run", replace=True,
        device="cpu", threads=1, look=clock.look,
    )  # fmt: skip
    clock.look(TuneStage("end", None))
    course, compared = done.course, done.compared
    assert course is not None and compared is not None
    seconds, length = spoken_in([clip.text for clip in done.plan.recordings.clips])
    whole = sum(clock.seconds.values())
    print(json.dumps({
        "clips": len(done.plan.recordings.clips), "speech_s": round(done.plan.recordings.seconds, 1),
        "held_out": [round(course.first, 3), *(round(one["held"], 3) for one in course.curve)], "ended": course.ended,
        "verdict": compared.words, "won": done.won, "cpu_s": {key: round(one, 1) for key, one in clock.seconds.items()},
        "speaking_cpu_s": round(seconds, 1), "spoken_s": round(length, 1), "times_speaking": round(whole / seconds, 1),
    }, indent=1))  # fmt: skip
    if done.won:
        own = voice_files.load("bench")
        model = omnitts.load("tiny", device="cpu", threads=1)
        assert model.engine.model.vector_of is not None
        print(json.dumps(made_cases(own, model.engine.model.vector_of("arthur"), compared.pace_recorded), indent=1))


if __name__ == "__main__":
    main()
