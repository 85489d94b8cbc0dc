"""`python -m omnitts_cli.training STAGE --work DIR`: every stage of making `tiny`, from nothing to a model folder.

Each stage continues from what it finds in the work folder and may be stopped at any time. `all` runs one after the
other, on one card; `cards` those that make the model folder, side by side on several (`cards.py`). `sentences` and
`cut` write what `texts` and `record` read.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from omnitts_cli.bench import evaluate
from omnitts_cli.devices.choose import choose
from omnitts_cli.devices.device import Device
from omnitts_cli.errors import OmniError, UsageError
from omnitts_cli.training import (
    cards,
    compare,
    languages,
    librispeech,
    more_tokens,
    recipe,
    recordings,
    sentences,
    texts,
)
from omnitts_cli.training.codec_stage import CodecStage, train_codec
from omnitts_cli.training.export import export_codec, export_language
from omnitts_cli.training.judge import PARTS, judge, judge_texts
from omnitts_cli.training.judge_languages import judged_sentences
from omnitts_cli.training.listeners import Installed
from omnitts_cli.training.picture import draw
from omnitts_cli.training.polish_stage import PolishStage
from omnitts_cli.training.pool import FOLDER, ShardReader, SoundPool
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.rows import name_voices
from omnitts_cli.training.speak_stage import speak
from omnitts_cli.training.speech_stage import train_speech
from omnitts_cli.training.stage_results import CODEC_FOLDER, MODEL, trained_codec
from omnitts_cli.training.teacher import Teacher
from omnitts_cli.training.teacher_files import teacher_files
from omnitts_cli.training.team import Team
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.tuning.journal import Journal

STAGES = ("teacher", "texts", "speak", "codec", "polish", "speech", "export", "rows", "judge", "picture")
APART = ("sentences", "cut", "record", "compare", "cards")  # not part of `all`
ARGUMENTS = {
    "teacher": ("downloads",),
    "sentences": ("sentences", "common_voice", "sayings", "lexicons"),
    "cut": ("recordings", "librispeech"),
    "texts": ("recordings", "sentences"),
    "record": ("recordings",),
    "speak": ("series", "hours", "minutes"),
    "codec": ("minutes",),
    "polish": ("minutes",),
    "speech": ("minutes",),
    "export": ("decoder", "share", "rises"),
    "rows": (),
    "judge": ("model", "parts", "seeds", "whisper", "people"),
    "picture": (),
    "compare": ("sounds", "voice", "whisper"),
    "cards": ("cards",),
}
"""The options that belong to each stage."""
COMMON = ("work", "recipe", "wider", "languages", "miniature", "device", "kokoro")
"""Those of all stages."""
NEEDED = ("sentences", "cut", "record", "cards")
"""The stages that cannot do without any of their options."""
LEARNING = ("codec", "polish", "speech")
TIMED = ("speak", *LEARNING)
TEXTS = "texts.tsv"


class Rebuild:
    """The stages over one work folder."""

    def __init__(self, made: Recipe, work: Path, device: Device, kokoro: Path | None, team: Team) -> None:
        self.recipe, self.work, self.device, self.team = made, work, device, team
        self._kokoro = kokoro or work / "kokoro"
        work.mkdir(parents=True, exist_ok=True)

    def teacher(self, downloads: Path | None) -> None:
        """Makes the teacher's folder, unless it exists."""
        teacher_files(downloads or self.work, self._kokoro)

    def sentences(self, folder: Path, common_voice: Path, sayings: Path, lexicons: Path) -> None:
        """Writes the folder of sentences of other languages, from which `texts` reads."""
        sentences.write(folder, common_voice, sayings, lexicons, self.recipe.seed, self.work)

    def cut(self, folder: Path, source: Path) -> None:
        """Writes the folder of recordings, from which `record` reads, out of LibriSpeech."""
        librispeech.cut(source, folder, self.work)

    def texts(self, recorded: Path | None = None, sentences: Path | None = None) -> None:
        """Writes the texts for the teacher and those of the recordings, and the tokenizer: that of a finished model in
        the work folder, or a new one. `sentences`: of the other languages."""
        if not (self.work / TEXTS).exists():
            self._english_texts(recorded)
        if self.recipe.languages:
            self._texts_abroad(sentences)

    def _texts_abroad(self, folder: Path | None) -> None:
        """Adds the languages that are missing, and their tokens."""
        lines, made_up, seed = self._read(), self.recipe.texts.made_up_abroad, self.recipe.seed
        there = {line.language for line in lines}
        wanted = [one.code for one in self.recipe.languages if one.code not in there]
        if not wanted:
            return
        if folder is None:
            raise UsageError("texts of other languages need sentences", hint="--sentences FOLDER")
        for code in wanted:
            lines += languages.collect(folder, code, made_up, seed, judged_sentences(code))
        texts.write(self.work / TEXTS, lines)
        known, new = ([line.read for line in lines if (line.language == "en") == english] for english in (True, False))
        more_tokens.with_more(self._tokens(), known, new, self.recipe.texts.more_merges).write(self.work)

    def _english_texts(self, recorded: Path | None) -> None:
        found = texts.collect(self.recipe.seed, self.recipe.texts.made_up, evaluate.unseen())
        if recorded:
            found += sorted({part.words for part in recordings.parts(recorded) if part.words})
        lines = list(texts.phonemes(found))
        texts.write(self.work / TEXTS, lines)
        finished = self.work / MODEL
        if (finished / "vocab.json").exists():
            tokens = TokenLists.read(finished)
        else:
            described = texts.descriptions(self.recipe.seed, self.recipe.texts.described)
            tokens = TokenLists.learn([*(line.read for line in lines), *described], self.recipe.texts.merges)
        tokens.write(self.work)

    def speak(self, series: int, hours: float | None, minutes: float | None) -> None:
        """Runs the teacher, whose speech the other stages learn from. It may run at the same time as they do."""
        teacher = self._teacher()
        wanted = self.recipe.teacher.hours if hours is None else hours
        speak(self.recipe, teacher, self._read(), self.work, series, wanted, 60 * minutes if minutes else float("inf"))

    def record(self, folder: Path) -> None:
        """Writes recordings of people as shards. The texts must have been made with them."""
        recordings.record(self.recipe, folder, self._read(), self.work)

    def codec(self, minutes: float | None = None) -> None:
        self._codec(CodecStage, self.recipe.codec_training.minutes if minutes is None else minutes)

    def polish(self, minutes: float | None = None) -> None:
        trained_codec(self.recipe, self.work)  # raises an error if there is none
        self._codec(PolishStage, self.recipe.polish.minutes if minutes is None else minutes)

    def _codec(self, kind: type[CodecStage], minutes: float) -> None:
        pool = SoundPool(self.recipe.teacher.kept, self.device.torch_device)
        train_codec(kind, self.recipe, self.device, self._shards(), pool, self.work, minutes, self.team)

    def speech(self, minutes: float | None = None) -> None:
        minutes = self.recipe.speech_training.minutes if minutes is None else minutes
        shards = self._shards()
        train_speech(self.recipe, self.device, shards, self._read(), self._tokens(), self.work, minutes, self.team)

    def export(self, decoder: Path | None = None, share: float = 1.0, rises: float | None = None) -> None:
        """Writes the model folder, or only its codec if the language side has not been trained yet."""
        export_codec(self.recipe, self.work, self.work / MODEL / CODEC_FOLDER, decoder, share, rises)
        if any(self.work.glob("speech.*.safetensors")):
            export_language(self.recipe, self.work, self._tokens(), self.work / MODEL)

    def rows(self) -> None:
        """Writes the recipe's named voices into the model folder, with rows from clips; does nothing if all rows are
        learned."""
        if any(voice.clips for voice in self.recipe.voices):
            name_voices(self.recipe, self._teacher(), self._read(), self._tokens(), self.work / MODEL)

    def picture(self) -> None:
        draw(self.work / "curves.jsonl", self.work / "curves.svg")

    def judge(
        self, model: Path | None, asked: list[str], seeds: int, whisper: Path | None, people: Path | None
    ) -> None:
        """Measures everything that is required of the model; writes judged.json."""
        model = model or self.work / MODEL
        there = {"people": people, "languages": self.recipe.languages}
        asked = asked or [part for part in PARTS if there.get(part, True)]
        done = judge(model, self.recipe, asked, seeds, self._kokoro, whisper, people, self.work)
        Journal(self.work / "curves.jsonl", "judge").write(**json.loads(done.read_text()))

    def judge_texts(self, model: Path | None, file: Path, voice: str | None, seeds: int, whisper: Path | None) -> None:
        """One voice on the sentences of a file: judged_texts.json, and misheard.tsv with what was misheard."""
        judge_texts(model or self.work / MODEL, self.recipe, file, voice, seeds, whisper, self.work)

    def compare(self, named: list[str], voice: str | None, whisper: Path | None) -> None:
        """Compares systems: writes compared.md, compared.json and spectrograms.png; without Whisper only the last."""
        found = compare.systems(named, self.recipe, voice)
        compare.page(found, self.work / "spectrograms.png")
        if whisper:
            compare.compare(found, Installed(whisper), self.work)

    def _teacher(self) -> Teacher:
        plan = self.recipe.teacher
        return Teacher(self._kokoro, self.device, plan.locked, plan.rise)

    def _shards(self) -> ShardReader:
        return ShardReader(self.work / FOLDER, self.team.rank, self.team.size)

    def _read(self) -> list[TrainingLine]:
        return texts.read(self.work / TEXTS)

    def _tokens(self) -> TokenLists:
        return TokenLists.read(self.work)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m omnitts_cli.training", description=__doc__)
    parser.add_argument("stage", choices=(*STAGES, *APART, "all"))
    parser.add_argument("--work", type=Path, required=True, help="folder of checkpoints, texts and the result")
    parser.add_argument("--recipe", type=Path, help="recipe to use instead of the package's")
    parser.add_argument("--wider", action="store_true", help="more different speakers (the recipe's table `wider`)")
    parser.add_argument(
        "--languages",
        nargs="*",
        metavar="CODE",
        help="more languages (the recipe's tables `languages`): all, or some; export and judge may have fewer than the "
        "training",
    )
    parser.add_argument("--miniature", action="store_true", help="a trial run of a few minutes")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--minutes",
        type=minutes,
        nargs="+",
        default=[],
        metavar="[STAGE=]MINUTES",
        help="minutes of training in this call [the recipe's]; for all and cards, such as codec=4 polish=9 speech=14",
    )
    parser.add_argument("--hours", type=float, help="hours of speech in this call, for cards on each [the recipe's]")
    parser.add_argument("--cards", type=int, metavar="N", help="number of cards, for the stage cards")
    parser.add_argument("--series", type=int, default=0, help="each number gives different speech")
    parser.add_argument(
        "--decoder", type=Path, metavar="FOLDER", help="export with this codec folder's decoder; codes do not change"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="how much that decoder counts in an average of both [1]"
    )
    parser.add_argument(
        "--rises", type=float, metavar="SHARE", help="the same for its last layers, from 50 Hz to samples [as --share]"
    )
    parser.add_argument("--model", type=Path, help="judge this folder [WORK/tiny]")
    parser.add_argument("--parts", nargs="+", default=[], choices=PARTS, help="judge only these [all]")
    parser.add_argument(
        "--texts",
        type=Path,
        metavar="FILE",
        help="judge one voice on the sentences of FILE, one per line; writes judged_texts.json and misheard.tsv",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=2,
        help="number of seeds for the voice of --texts; without --texts, for the first voice",
    )
    parser.add_argument("--people", type=Path, metavar="FOLDER", help="clips of people, for the part `people` of judge")
    parser.add_argument(
        "--recordings",
        type=Path,
        metavar="FOLDER",
        help="recordings of people (`recordings.py`): cut writes them, texts and record read them",
    )
    parser.add_argument("--librispeech", type=Path, metavar="FOLDER", help="LibriSpeech with SPEAKERS.TXT, for cut")
    parser.add_argument(
        "--sentences",
        type=Path,
        metavar="FOLDER",
        help="sentences of other languages (`languages.py`): the stage sentences writes them, texts reads them",
    )
    parser.add_argument(
        "--common-voice", type=Path, metavar="FOLDER", help="server/data of mozilla/common-voice, for sentences"
    )
    parser.add_argument(
        "--sayings", type=Path, metavar="FOLDER", help="folder with es and it of fortunes-es and -it, for sentences"
    )
    parser.add_argument(
        "--lexicons", type=Path, metavar="FOLDER", help="where gruut-lang-es, -fr, -it, -pt are, for sentences"
    )
    parser.add_argument("--whisper", type=Path, help="folder of Whisper base, for judge and compare")
    parser.add_argument("--sounds", nargs="+", default=[], metavar="NAME=FOLDER", help="systems to compare")
    parser.add_argument("--voice", help="voice for compare, and for judge with --texts [the recipe's first]")
    parser.add_argument("--downloads", type=Path, help="folder of the files in teacher_files.py [WORK]")
    parser.add_argument("--kokoro", type=Path, help="folder of the teacher [WORK/kokoro]")
    return parser


def main() -> None:
    parser = arguments()
    given = parser.parse_args()
    made, team = recipe.read(given.recipe, given.miniature, given.wider, asked_languages(given.languages)), Team()
    if team.size > 1 and given.stage not in LEARNING:
        parser.error(f"only the stages that train can use several accelerators: {', '.join(LEARNING)}")
    needed = ARGUMENTS[given.stage] if given.stage in NEEDED else ()
    if missing := [option for option in needed if getattr(given, option) is None]:
        parser.error(f"{given.stage} needs {', '.join('--' + option.replace('_', '-') for option in missing)}")
    if given.stage == "cards":
        if given.cards < 1:
            parser.error("--cards must be at least 1")
        kind = choose(given.device).torch_device.type
        if kind != "cpu":
            choose(f"{kind}:{given.cards - 1}")  # raises an error if there are fewer
        cards.OnCards(given, kind, words).train()
        return
    rebuild = Rebuild(made, given.work, choose(team.device(given.device)), given.kokoro, team)
    if given.stage == "all":
        journal = Journal(given.work / "curves.jsonl", "all")
        for stage in STAGES:
            run(stage, rebuild, given)
            journal.write(ended=stage)
    else:
        run(given.stage, rebuild, given)
    team.close()


def minutes(text: str) -> tuple[str, float]:
    """The stage, or "" for every one, and its minutes."""
    stage, _, number = text.rpartition("=")
    if stage and stage not in TIMED:
        raise argparse.ArgumentTypeError(f"{stage} has no minutes; {', '.join(TIMED)} have")
    return stage, float(number)


def value(stage: str, option: str, given: argparse.Namespace) -> Any:
    """What was typed for an option, as it applies to this stage."""
    if option != "minutes":
        return getattr(given, option)
    known: dict[str, float] = dict(given.minutes)
    return known.get(stage, known.get(""))


def words(stage: str, given: argparse.Namespace) -> list[str]:
    """What would be typed to run one stage with the same options."""
    typed = [stage]
    for option in (*COMMON, *ARGUMENTS[stage]):
        flag, said = f"--{option.replace('_', '-')}", value(stage, option, given)
        if said is not None and said is not False:
            typed += [flag] if said is True else [flag, *map(str, said if isinstance(said, list) else [said])]
    return typed


def asked_languages(codes: list[str] | None) -> bool | list[str]:
    """None without the option, an empty list for all."""
    return codes or codes is not None


def run(stage: str, rebuild: Rebuild, given: argparse.Namespace) -> None:
    """Runs one stage with the arguments that belong to it."""
    if stage == "judge" and given.texts:
        rebuild.judge_texts(given.model, given.texts, given.voice, given.seeds, given.whisper)
    else:
        getattr(rebuild, stage)(*(value(stage, option, given) for option in ARGUMENTS[stage]))


if __name__ == "__main__":
    try:
        main()
    except OmniError as error:
        lines = {"": error.message, "cause: ": error.cause, "try: ": error.hint}
        sys.stderr.writelines(f"{what}{words}\n" for what, words in lines.items() if words)
        sys.exit(error.exit_code)
