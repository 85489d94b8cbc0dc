"""What is reported of unseen speakers depends on the clip."""

import torch
from training_kit import stage_of

from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.validation_losses import unnamed_speaker_losses


def test_each_way_to_get_a_voice_has_its_loss(one_length: Recipe) -> None:
    stage = stage_of(one_length)
    tables, ids = stage.dataset.held_back_unnamed, (stage.codec_ids, stage.text_ids)
    with torch.no_grad():
        stage.speech.speaker.out.weight.mul_(50)  # so that a clip is loud enough to be noticed untrained
    losses = unnamed_speaker_losses(stage.speech, stage.rows, tables, one_length, ids)
    assert losses.keys() == {f"held_{how}" for how in ("cloned", "swapped", "continued", "described")}
    assert all(5 < loss < 12 for loss in losses.values())  # nothing is learned: about the logarithm of the vocabulary
    assert losses["held_cloned"] != losses["held_swapped"]
