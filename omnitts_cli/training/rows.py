"""Named voices made from clips of the teacher, without training.

A named voice is one row of the embedding table of control codes; a cloned voice is a vector from the speaker encoder.
Both stand at the same place in the prompt. So the mean vector of several clips of a speaker can serve as the row of a
named voice.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from omnitts_cli.training import files
from omnitts_cli.training.ids import codec_ids
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speak_stage import in_accent
from omnitts_cli.training.stage_results import exported_speech
from omnitts_cli.training.teacher import Teacher, TeacherVoice
from omnitts_cli.training.texts import TrainingLine
from omnitts_cli.training.tokens import TokenLists

TABLE = "talker.model.codec_embedding.weight"
LENGTHS = (40, 65)  # phonemes: clips of about three to five seconds, as in training
AT_ONCE = 4


@torch.no_grad()
def name_voices(recipe: Recipe, teacher: Teacher, lines: list[TrainingLine], tokens: TokenLists, folder: Path) -> None:
    """Writes the recipe's named voices into the finished model in `folder`.

    The row of a voice that has `clips` in the recipe is computed from clips; the other rows stay as learned. The
    recipe must list the voices in the order that the model was trained with. The teacher draws noise with the
    recipe's seed, so a second run on the same device writes the same rows.
    """
    torch.manual_seed(recipe.seed)
    speaker = exported_speech(recipe, tokens, folder).speaker.eval()
    weights, path = load_file(folder / "model.safetensors"), folder / "model.safetensors"
    for place, voice in enumerate(recipe.voices, codec_ids(recipe).first_speaker):
        if voice.clips:
            sounds = clips(recipe, teacher, lines, voice.made, voice.clips)
            vectors = torch.stack([speaker.embed(torch.from_numpy(sound)).float() for sound in sounds])
            weights[TABLE][place] = vectors.mean(0).to(weights[TABLE].dtype)
    save_file(weights, path.with_suffix(".new"), {"format": "pt"})
    path.with_suffix(".new").replace(path)
    _rename(folder / "config.json", files.model_config(recipe, tokens))


def clips(
    recipe: Recipe, teacher: Teacher, lines: list[TrainingLine], voice: TeacherVoice, count: int
) -> list[np.ndarray]:
    """Clips of the teacher in this voice, as float32 sounds. Every voice reads the same texts."""
    shortest, longest = LENGTHS
    fitting = [line for line in lines if shortest <= len(line.said) <= longest] or lines
    chosen = random.Random(recipe.seed).choices(fitting, k=count)
    read = [in_accent(line, voice) for line in chosen]
    parts = [read[at : at + AT_ONCE] for at in range(0, count, AT_ONCE)]
    said = [spoken for part in parts for spoken in teacher.speak(part, [voice] * len(part))]
    return [spoken.sound.astype(np.float32) / 32768 for spoken in said]


def _rename(path: Path, made: dict[str, object]) -> None:
    """Writes the voice names of the recipe into the folder's config.json; its other fields stay."""
    config = json.loads(path.read_text())
    talker, ours = made["talker_config"], made["omnitts"]
    assert isinstance(talker, dict) and isinstance(ours, dict)
    config["talker_config"] |= {key: talker[key] for key in ("spk_id", "spk_is_dialect")}
    config["omnitts"]["voices"] = ours["voices"]
    path.write_text(json.dumps(config, separators=(",", ":")) + "\n")
