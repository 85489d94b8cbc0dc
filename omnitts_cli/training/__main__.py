"""The one command: `python -m omnitts_cli.training STAGE --work DIR`, from nothing to a model folder.

Each stage goes on from what it finds in the work folder and may be stopped at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from omnitts_cli.devices.choose import choose
from omnitts_cli.devices.device import Device
from omnitts_cli.errors import OmniError
from omnitts_cli.training import evaluate, parts, recipe, texts
from omnitts_cli.training.codec_stage import CodecStage, train_codec
from omnitts_cli.training.export import export, export_codec
from omnitts_cli.training.journal import Journal
from omnitts_cli.training.judge import PARTS, judge
from omnitts_cli.training.picture import draw
from omnitts_cli.training.polish_stage import PolishStage
from omnitts_cli.training.pool import Classroom, SoundPool
from omnitts_cli.training.quieten import clips, quieten
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.settled import CODEC_FOLDER, MODEL, STEM, settled_codec
from omnitts_cli.training.speech_stage import train_speech
from omnitts_cli.training.teacher import Teacher
from omnitts_cli.training.team import Team
from omnitts_cli.training.tokens import Tokens

STAGES = ("texts", "codec", "polish", "quieten", "speech", "export", "judge", "picture")
LEARNING = ("codec", "polish", "speech")
TEXTS = "texts.txt"


class Rebuild:
    """The stages over one work folder."""

    def __init__(self, made: Recipe, work: Path, device: Device, teachers: int, flite: Path | None, team: Team) -> None:
        self.recipe, self.work, self.device, self.team = made, work, device, team
        self._teachers, self._flite = teachers, flite
        work.mkdir(parents=True, exist_ok=True)

    def texts(self) -> None:
        """What will be read aloud, and the tokenizer: the finished model's where one lies here, or learned anew."""
        if (self.work / TEXTS).exists():
            return
        found = texts.collect(self.recipe.seed, self.recipe.texts.made_up, evaluate.sentences())
        (self.work / TEXTS).write_text("\n".join(found) + "\n")
        finished = self.work / MODEL
        learned = (finished / "vocab.json").exists()
        tokens = Tokens.read(finished) if learned else Tokens.learn(found, self.recipe.texts.merges)
        tokens.write(self.work)

    def codec(self, minutes: float | None = None) -> None:
        self._codec(CodecStage, self.recipe.codec_training.minutes if minutes is None else minutes)

    def polish(self, minutes: float | None = None) -> None:
        settled_codec(self.recipe, self.work)  # or says that there is none
        self._codec(PolishStage, self.recipe.polish.minutes if minutes is None else minutes)

    def quieten(self) -> None:
        """What the polish says above the teacher's band is taken out of the codec's last layer."""
        codec, tensors = settled_codec(self.recipe, self.work), parts.load(self.work, STEM)
        before, after = quieten(codec, clips(self.recipe, self._read(), Teacher(self._flite)))
        closing = codec.decoder.closing.state_dict(prefix="decoder.closing.")
        assert closing.keys() <= tensors.keys()
        parts.save(self.work, STEM, tensors | closing)
        Journal(self.work / "curves.jsonl", "quieten").write(above_db_before=before, above_db=after)

    def _codec(self, kind: type[CodecStage], minutes: float) -> None:
        pool = SoundPool(self.recipe.teacher.hours, self.device.torch_device)
        with self._classroom() as room:
            train_codec(kind, self.recipe, self.device, room, pool, self.work, minutes, self.team)

    def speech(self, minutes: float | None = None) -> None:
        minutes = self.recipe.speech_training.minutes if minutes is None else minutes
        with self._classroom() as room:
            train_speech(self.recipe, self.device, room, self._read(), self._tokens(), self.work, minutes, self.team)

    def export(self) -> None:
        """The model folder; only the codec's while the language side has not begun."""
        if any(self.work.glob("speech.*.safetensors")):
            export(self.recipe, self.work, self._tokens(), self.work / MODEL)
        else:
            export_codec(self.recipe, self.work, self.work / MODEL / CODEC_FOLDER)

    def picture(self) -> None:
        draw(self.work / "curves.jsonl", self.work / "curves.png")

    def judge(self, model: Path | None, asked: list[str], seeds: int) -> None:
        """Every line of what the model must be able to do, to judged.json."""
        model = model or self.work / MODEL
        done = judge(model, self.recipe, asked or PARTS, seeds, self._flite, self.work)
        Journal(self.work / "curves.jsonl", "judge").write(**json.loads(done.read_text()))

    def _classroom(self) -> Classroom:
        # another seed for each stretch of training, or a resumed stage would hear the same speech again
        heard_before = sum(1 for _ in open(self.work / "curves.jsonl")) if (self.work / "curves.jsonl").exists() else 0
        seed = self.recipe.seed + 1000 * heard_before + 500_000 * self.team.rank
        return Classroom(self.recipe, self._read(), self._teachers, seed, self._flite)

    def _read(self) -> list[str]:
        return (self.work / TEXTS).read_text().splitlines()

    def _tokens(self) -> Tokens:
        return Tokens.read(self.work)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m omnitts_cli.training", description=__doc__)
    parser.add_argument("stage", choices=(*STAGES, "all"))
    parser.add_argument("--work", type=Path, required=True, help="folder of checkpoints, texts and the result")
    parser.add_argument("--recipe", type=Path, help="another recipe than the package's")
    parser.add_argument("--miniature", action="store_true", help="a rehearsal of minutes")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minutes", type=float, help="of learning, in this call [the recipe's]")
    parser.add_argument("--teachers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--model", type=Path, help="judge this folder [WORK/tiny]")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="judge these alone [all]")
    parser.add_argument("--seeds", type=int, default=4, help="of the first voice, to be judged")
    parser.add_argument("--flite", type=Path, help="folder of flite's libraries [the system's]")
    given = parser.parse_args()
    made, team = recipe.read(given.recipe, given.miniature), Team()
    if team.size > 1 and given.stage not in LEARNING:
        parser.error(f"several accelerators are for the stages that learn: {', '.join(LEARNING)}")
    rebuild = Rebuild(made, given.work, choose(team.device(given.device)), given.teachers, given.flite, team)
    for stage in STAGES if given.stage == "all" else (given.stage,):
        if stage in LEARNING:
            getattr(rebuild, stage)(given.minutes)
        elif stage == "judge":
            rebuild.judge(given.model, given.parts or [], given.seeds)
        else:
            getattr(rebuild, stage)()
    team.close()


if __name__ == "__main__":
    try:
        main()
    except OmniError as error:
        told = {"": error.message, "cause: ": error.cause, "try: ": error.hint}
        sys.stderr.writelines(f"{what}{words}\n" for what, words in told.items() if words)
        sys.exit(error.exit_code)
