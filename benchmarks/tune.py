"""What `omnitts tune` does with `tiny`: losses, the verdict beside that of other judges, and processor time by stage.

    python benchmarks/tune.py --work DIR --whisper FOLDER              five voices that are not among the eight
    python benchmarks/tune.py --work DIR --whisper FOLDER flite:slt    one of them
    python benchmarks/tune.py --work DIR --whisper FOLDER --kokoro DIR kokoro:am_puck    a voice of the teacher
    python benchmarks/tune.py --work DIR RECORDINGS                    your own; without --whisper no words are counted
    python benchmarks/tune.py --work DIR --made RECORDINGS              two made cases: an adapter of strength 0; a
                                                                       clone with the vector of somebody else
    python benchmarks/tune.py --work DIR --table                       what there is so far
    python benchmarks/tune.py --card                                   steps on a card: see tune_card.py

The voices are those of flite and festival (apt install flite festival festvox-kdlpc16k), five minutes of each, and of
the teacher (its folder: see training/teacher_files.py; on one core it takes about twice as long as its speech). The
judges are Resemblyzer and Whisper base, a folder in CTranslate2's format (pip install faster-whisper resemblyzer). For
them a voice has won, as for the command, if it is more like the person and has kept its words, or if it is as like the
person and its words are better. The same command continues where it was stopped: a voice that is finished is not made
again, nor a sentence.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import omnitts_cli as omnitts
from omnitts_cli.audio.resample import resample
from omnitts_cli.bench.evaluate import hard_words, harder, sentences, words
from omnitts_cli.errors import GuardError
from omnitts_cli.fleet.verify import aligned, wer
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.transcribe import HEARD_AT, Whisper
from omnitts_cli.speech.voices import Voice
from omnitts_cli.training.listeners import Installed
from omnitts_cli.tuning.recordings import RATE, mended, usual_level
from omnitts_cli.tuning.run import TINY_ERRS, Tuned, TuneStage, planned, tune
from omnitts_cli.tuning.trainer import LearningPlan
from omnitts_cli.tuning.verdict import SENTENCES, SURE, WordErrors, compare, cosine, pace_of, spoken
from omnitts_cli.voices import Adapter, Cloned, Pair
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.find import TINY

HOUSE = Path(__file__).parents[1]
VOICES = ("flite:slt", "flite:rms", "flite:awb", "flite:kal16", "festival:ked_diphone")
SECONDS = 330.0
LIKE = 20  # sentences whose speaker is judged
JUDGED = [*sentences(), *harder()[:50]]  # never in the recordings


def recorded(voice: str, folder: Path, kokoro: Path | None = None) -> Path:
    """Sentences spoken by another program, or by the teacher, with their texts."""
    program, _, name = voice.partition(":")
    prose = (HOUSE / "samples/texts/english.txt").read_text().replace("\n", " ")
    lines = [one for one in re.split(r"(?<=[.!?])\s+", prose) if 25 < len(one) < 110]
    lines += [hard.sentence for hard in hard_words()]
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if program == "kokoro":
        return taught(name, list(dict.fromkeys(line.strip() for line in lines)), folder, kokoro)
    seconds = 0.0
    for number, line in enumerate(dict.fromkeys(line.strip() for line in lines)):
        path = folder / f"{number:03}.wav"
        if program == "flite":
            subprocess.run(["flite", "-voice", name, "-t", line, "-o", str(path)], check=True)
        else:
            command = ["text2wave", "-o", str(path), "-eval", f"(voice_{name})"]
            subprocess.run(command, input=line.encode(), check=True, stderr=subprocess.DEVNULL)
        path.with_suffix(".txt").write_text(line)
        seconds += soundfile.info(path).duration
        if seconds > SECONDS:
            break
    (folder / "done").touch()
    return folder


def taught(name: str, lines: list[str], folder: Path, kokoro: Path | None) -> Path:
    """Sentences spoken by a voice of the teacher."""
    from omnitts_cli.devices.cpu import CPUDevice
    from omnitts_cli.training.judge import FEW, phonemes
    from omnitts_cli.training.teacher import SAMPLE_RATE, Teacher, TeacherVoice

    if kokoro is None:
        raise SystemExit("the teacher's voices need --kokoro FOLDER")
    teacher, seconds = Teacher(kokoro, CPUDevice(1)), 0.0
    for at in range(0, len(lines), FEW):
        some = lines[at : at + FEW]
        made = teacher.speak(phonemes(some), [TeacherVoice(((name, 1.0),))] * len(some))
        for number, (line, speech) in enumerate(zip(some, made, strict=True), at):
            path = folder / f"{number:03}.wav"
            soundfile.write(path, speech.sound, SAMPLE_RATE, subtype="PCM_16")
            path.with_suffix(".txt").write_text(line)
            seconds += len(speech.sound) / SAMPLE_RATE
        if seconds > SECONDS:
            break
    (folder / "done").touch()
    return folder


class Clock:
    """Processor time by stage, kept in a file: a run may take several processes."""

    def __init__(self, path: Path) -> None:
        self.seconds: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        self._path, self._stage, self._since, self._kept = path, "opening", time.process_time(), time.monotonic()

    def look(self, stage: TuneStage) -> None:
        now = time.process_time()
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + now - self._since
        changed, self._stage, self._since = self._stage != stage.name, stage.name, now
        if changed or time.monotonic() - self._kept > 5:
            self._path.write_text(json.dumps(self.seconds))
            self._kept = time.monotonic()


def spoken_in(texts: list[str]) -> tuple[float, float]:
    """Processor time to speak texts with `tiny`, and their length."""
    with omnitts.load("tiny", device="cpu", threads=1) as tts:
        tts.speak("Warm up.")
        began = time.process_time()
        clips = tts.speak_all(texts, voice="henry", seed=0)
        return time.process_time() - began, sum(clip.seconds for clip in clips)


def judged(done: Tuned, folder: Path, listeners: Installed, heard: int) -> dict[str, Any]:
    """The clone and the tuned voice by other judges: the speaker in LIKE sentences, and the words in `heard` of them.
    What each sentence got is kept in a file."""
    assert done.pair is not None
    plan, known = done.plan, Kept(folder / "judged.jsonl")
    level = usual_level(plan.recordings.clips)
    person = np.mean([known.of(f"person {clip.digest}", lambda clip=clip: listeners.voice(mended(clip, level)).tolist())
                      for clip in plan.held], axis=0)  # fmt: skip
    voices = dict(zip(("clone", "tuned"), done.pair, strict=True))

    def sound(name: str, number: int) -> np.ndarray:
        path = folder / name / f"{number:03}.wav"
        if not path.exists():
            speak(name, voices[name], folder / name, max(LIKE, heard))
        return np.asarray(soundfile.read(path, dtype="float32")[0])

    def encoded(name: str, number: int) -> Callable[[], list[float]]:
        return lambda: listeners.voice(sound(name, number)).tolist()

    like = {
        name: np.array([
            cosine(np.array(known.of(f"{name} voice {n}", encoded(name, n))), person) for n in range(LIKE)
        ])
        for name in voices
    }  # fmt: skip
    gains = like["tuned"] - like["clone"]
    gain, interval = float(gains.mean()), SURE * float(gains.std(ddof=1)) / len(gains) ** 0.5
    found: dict[str, Any] = {f"resemblyzer_{name}": round(float(one.mean()), 3) for name, one in like.items()}
    found |= {"resemblyzer_gain": round(gain, 3), "resemblyzer_interval": round(interval, 3)}
    found["won_by_voice"] = gain > interval
    print(json.dumps(found), flush=True)

    def transcribed(name: str, number: int) -> Callable[[], str]:
        return lambda: listeners.transcribe(sound(name, number))

    texts = JUDGED[:heard]
    counts = np.array([len(words(text)) for text in texts])
    errors = {
        name: np.array([
            aligned(words(text), words(known.of(f"{name} words {n}", transcribed(name, n)))).errors
            for n, text in enumerate(texts)
        ])
        for name in voices
    }  # fmt: skip
    if texts:
        found |= {f"wer_{name}": round(float(one.sum() / counts.sum()), 4) for name, one in errors.items()}
        more = (errors["tuned"] - errors["clone"]) / counts
        lost = WordErrors(0.0, float(more.mean()), SURE * float(more.std(ddof=1)) / len(more) ** 0.5)
        found |= {"words_more": round(lost.tuned, 3), "words_interval": round(lost.interval, 3)}
        found["words_lost"], clearer = lost.worse, lost.better and gain >= -interval
        found["judges_won"] = (found["won_by_voice"] or clearer) and not found["words_lost"]
    return found | {"sentences": len(texts)}


def speak(name: str, voice: Any, folder: Path, count: int) -> None:
    """The first sentences in a voice, those that are missing."""
    folder.mkdir(exist_ok=True)
    with omnitts.load("tiny", voice=voice, device="cpu", threads=1) as tts:
        for number, text in enumerate(JUDGED[:count]):
            if not (path := folder / f"{number:03}.wav").exists():
                try:
                    tts.speak(text, voice=voice, seed=number).save(path)
                except GuardError:  # it talks without end
                    soundfile.write(path, np.zeros(tts.sample_rate), tts.sample_rate)


class Kept:
    """Values by name, kept in a file as soon as they are known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._known = dict(json.loads(line) for line in lines if line.endswith("]"))

    def of(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._known:
            self._known[name] = make()
            with self._path.open("a") as file:
                file.write(json.dumps([name, self._known[name]]) + "\n")
        return self._known[name]


def of_voice(
    voice: str, work: Path, whisper: Path | None, kokoro: Path | None, epochs: int, heard: int, recogniser: bool
) -> dict[str, Any]:
    """All figures of a voice."""
    folder = work / re.sub(r"\W+", "-", voice).strip("-")
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    if result.exists():
        return dict(json.loads(result.read_text()))
    made = voice.partition(":")[0] in ("flite", "festival", "kokoro")
    recordings = recorded(voice, folder / "recordings", kokoro) if made else Path(voice)
    clock = Clock(folder / "clock.json")
    done = tune(
        recordings, "bench", consent="for a benchmark", epochs=epochs, folder=folder / "run", replace=True,
        device="cpu", threads=1, look=clock.look, transcribe=recogniser, asr_model=str(whisper) if recogniser else None,
    )  # fmt: skip
    clock.look(TuneStage("end", None))
    course, compared = done.course, done.compared
    assert course is not None and compared is not None
    seconds, length = spoken_in([clip.text for clip in done.plan.recordings.clips])
    whole = sum(clock.seconds.values())
    found = {
        "voice": voice, "clips": len(done.plan.recordings.clips), "speech_s": round(done.plan.recordings.seconds, 1),
        "held_out": [round(course.first, 3), *(round(one["held"], 3) for one in course.curve)], "ended": course.ended,
        "verdict": compared.words, "won": done.won, "gain": round(compared.gain, 3),
        "interval": round(compared.interval, 3), "cpu_s": {key: round(one, 1) for key, one in clock.seconds.items()},
        "speaking_cpu_s": round(seconds, 1), "spoken_s": round(length, 1), "times_speaking": round(whole / seconds, 1),
    }  # fmt: skip
    print(json.dumps(found), flush=True)
    found |= judged(done, folder, Installed(whisper), heard if whisper else 0)
    result.write_text(json.dumps(found, indent=1))
    return found


def made_cases(recordings: str, work: Path, whisper: Path | None, heard: int) -> dict[str, Any]:
    """The verdict of the command and of the judges where the right answer is known: no gain, and a clear one."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        learning = LearningPlan()
        plan = planned(recordings, "made", "tiny", Path(place), learning, 0.1, "cpu", print, lambda stage: None)
    level, recogniser = usual_level(plan.recordings.clips), Whisper(str(whisper)) if whisper else None

    def errors(text: str, sound: np.ndarray) -> float | None:
        return None if recogniser is None else wer(text, recogniser.words(resample(sound, RATE, HEARD_AT), "en"), "en")

    with omnitts.load("tiny", device="cpu", threads=1) as tts:
        cloner, vector_of = tts.engine.model.cloner, tts.engine.model.vector_of
        assert cloner is not None and vector_of is not None
        own, person = (
            np.mean([cloner.embedding(mended(clip, level)) for clip in clips], axis=0)
            for clips in (plan.learned, plan.held)
        )
        other = min((vector_of(name) for name in tts.engine.model.speakers), key=lambda one: cosine(one, person))
    clone, stranger = Voice(Cloned(own), "clone"), Voice(Cloned(other), "stranger")
    cases = {
        "strength 0": (clone, replace(clone, name="tuned", adapter=silent_adapter())),
        "stranger": (stranger, replace(clone, name="tuned")),
    }
    for case, pair in cases.items():
        folder = work / f"made-{case.replace(' ', '-')}"
        folder.mkdir(parents=True, exist_ok=True)
        samples = []
        for voice in pair:
            with omnitts.load("tiny", voice=voice, device="cpu", threads=1) as tts:
                samples.append(spoken(tts, voice, cloner, SENTENCES, person, lambda count: None, errors,
                                      lambda text, sound: None))  # fmt: skip
        pace = float(np.mean([pace_of(clip.text, clip.seconds) for clip in plan.recordings.clips]))
        compared = compare(samples[0], samples[1], pace, TINY_ERRS)
        judges = judged(Tuned(plan, pair=pair), folder, Installed(whisper), heard if whisper else 0)
        found[case] = {"verdict": compared.words, "won": compared.won, **judges}
        print(json.dumps({case: found[case]}), flush=True)
    return found


def silent_adapter() -> Adapter:
    """On every linear layer of `tiny`, with a scale of 0."""
    shapes = {name: shape for name, (_, shape) in Checkpoint.open(TINY).names().items()}
    pairs = {
        name.removesuffix(".weight"): Pair(
            np.ones((2, shape[1]), np.float32), np.ones((shape[0], 2), np.float32), 0.0
        )
        for name, shape in shapes.items() if name.startswith("talker.") and "_proj." in name and ".layers." in name
    }  # fmt: skip
    return Adapter(pairs)


def table(work: Path) -> None:
    """The finished voices, and their mean gain with its interval."""
    found = [json.loads(path.read_text()) for path in sorted(work.glob("*/result.json"))]
    for one in found:
        print(one["voice"], f"held out {one['held_out'][0]} -> {min(one['held_out'])}",
              f"own {one['gain']:+} ± {one['interval']} won {one['won']}",
              f"Resemblyzer {one['resemblyzer_clone']} -> {one['resemblyzer_tuned']} "
              f"({one['resemblyzer_gain']:+} ± {one['resemblyzer_interval']})",
              f"WER {one.get('wer_clone')} -> {one.get('wer_tuned')} of {one['sentences']}",
              f"judges won {one.get('judges_won')}",
              f"{one['times_speaking']} x speaking",
              sep="; ")  # fmt: skip
    if len(found) > 1:
        gains = np.array([one["resemblyzer_gain"] for one in found])
        interval = SURE * gains.std(ddof=1) / len(gains) ** 0.5
        alike = [one["won"] == one.get("judges_won") for one in found]
        print(f"mean gain {gains.mean():+.3f} ± {interval:.3f} of {len(gains)} voices; verdicts agree for {sum(alike)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("voices", nargs="*", default=VOICES, help=f"{' '.join(VOICES)}, or a folder of recordings")
    parser.add_argument("--work", type=Path, default=Path("tune-bench"))
    parser.add_argument("--whisper", type=Path)
    parser.add_argument("--kokoro", type=Path, help="folder of the teacher, for its voices")
    parser.add_argument("--recogniser", action="store_true", help="the command counts words with Whisper too")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--sentences", type=int, default=len(JUDGED), help="whose words are counted")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--made", action="store_true", help="two made cases, of the person in RECORDINGS")
    parser.add_argument("--card", action="store_true")
    parser.add_argument("--size", default="1.7b-base", help="of the random model on a card")
    parser.add_argument("--ways", nargs="*", default=("adapter", "full"))
    parser.add_argument("--limit", type=float, help="GB of the card")
    parser.add_argument("--profile", action="store_true", help="which kernels take most of the time of a card")
    parser.add_argument("--plain", action="store_true", help="the plain operations, on a card")
    given = parser.parse_args()
    if given.card:
        import tune_card

        return tune_card.run(given.size, given.ways, given.limit, given.profile, given.plain)
    voice_files.use_folder(str(given.work / "voices"))
    if given.made:
        made_cases(given.voices[0], given.work, given.whisper, given.sentences)
        return
    for voice in () if given.table else given.voices:
        done = of_voice(voice, given.work, given.whisper, given.kokoro, given.epochs, given.sentences, given.recogniser)
        print(json.dumps(done), flush=True)
    table(given.work)


if __name__ == "__main__":
    main()
