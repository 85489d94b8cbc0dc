"""The polish changes how the codec sounds, and not its codes."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_kit import Steps, pool_of

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.training import codec_stage, perceptual_loss, polish_stage
from omnitts_cli.training.codec_stage import CodecStage, train_codec
from omnitts_cli.training.export import export_codec
from omnitts_cli.training.perceptual_loss import DISTANCES
from omnitts_cli.training.polish_stage import NOISE, PolishStage, low, shown
from omnitts_cli.training.pool import ShardReader, SoundPool
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.stage_results import CODEC_FOLDER, MODEL
from omnitts_cli.training.teacher import SAMPLES_PER_FRAME
from omnitts_cli.training.team import Team
from omnitts_cli.tuning import checkpoints
from omnitts_cli.tuning.journal import Journal


def begun(recipe: Recipe, pool: SoundPool) -> PolishStage:
    """A stage that can learn."""
    stage = PolishStage(recipe, CPUDevice(1), pool, Team())
    stage.start_books()
    stage.begin(lambda step, keeps=False: step, Journal(Path("/dev/null"), "polish", echo=False))
    return stage


@pytest.fixture
def stage(small: Recipe, shards: ShardReader) -> PolishStage:
    return begun(small, pool_of(shards))


def test_codes_stay_while_decoder_and_discriminators_learn(stage: PolishStage) -> None:
    """So does what they mean to the decoder: nothing moves that but a weight decay, which may not reach it."""
    halves = (stage.encoder, stage.quantiser, stage.phones, stage.decoder.quantiser)
    kept = [weight for half in halves for weight in half.state_dict().values()]
    before = [weight.clone() for weight in kept]
    moving = (stage.decoder.closing.conv.weight, stage.discriminators.each[0].last.weight)
    old = [weight.detach().clone() for weight in moving]
    stage.learn(bypass=False)
    stage.exchange()
    stage.rate.fill_(1.0)
    stage.update()
    assert all(torch.equal(a, b) for a, b in zip(before, kept, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(old, moving, strict=True))
    assert bool(stage.losses.isfinite().all()) and bool((stage.losses[[0, 1, 2, 5]] > 0).all())


def test_it_goes_on_from_a_codec_without_discriminators(small: Recipe, shards: ShardReader, tmp_path: Path) -> None:
    pool = pool_of(shards)
    plain = CodecStage(small, CPUDevice(1), pool, Team())
    plain.save(tmp_path)
    polish = PolishStage(small, CPUDevice(1), pool, Team())
    polish.resume(checkpoints.load(tmp_path, "codec"))
    assert torch.equal(plain.decoder.closing.conv.weight, polish.decoder.closing.conv.weight)
    polish.save(tmp_path)
    plain.resume(checkpoints.load(tmp_path, "codec"))  # and back again, without them


def test_the_distance_of_latents_alone_moves_the_decoder(small: Recipe, shards: ShardReader) -> None:
    """With every other loss left out."""
    alone = replace(
        small,
        polish=replace(small.polish, mel=0.0, adversary=0.0, feature=0.0),
        codec_training=replace(small.codec_training, wave=0.0),
    )
    stage = begun(alone, pool_of(shards))
    stage.learn(bypass=False)
    assert stage.gradients.abs().sum() > 0


@pytest.mark.parametrize("delay", [0, 37, -120])
def test_frames_are_encoded_as_in_the_whole_delayed_clip(small: Recipe, shards: ShardReader, delay: int) -> None:
    stage = begun(small, pool_of(shards, 0.006))
    frames = 40
    places = torch.arange(12, frames).view(2, 14)  # two examples
    sound = stage.pool.sound[: (frames + 1) * SAMPLES_PER_FRAME].float()[None] / 32768
    delayed = torch.nn.functional.pad(sound, (delay, -delay))[:, : frames * SAMPLES_PER_FRAME]
    with torch.no_grad():
        halves = stage.encoder.quantiser, stage.decoder.quantiser
        whole = stage.quantiser(stage.encoder.latent(delayed), *halves, shorter=0.0, bypass=False)[0][0]
    found = stage._meant(places, torch.full_like(places, delay))
    assert torch.allclose(found.flatten(0, 1), whole[12:], atol=1e-4)


def test_the_mean_of_the_weights_is_kept_and_the_last_learn_on(
    small: Recipe, shards: ShardReader, tmp_path: Path
) -> None:
    pool = pool_of(shards)
    stage = begun(small, pool)
    first = stage.decoder.closing.conv.weight.detach().clone()
    stage.learn(bypass=False)
    stage.update()
    last = stage.decoder.closing.conv.weight.detach()
    kept = small.polish.kept
    stage.save(tmp_path)
    saved = checkpoints.load(tmp_path, "codec")
    assert torch.allclose(saved["decoder.closing.conv.weight"], kept * first + (1 - kept) * last, atol=1e-7)
    again = PolishStage(small, CPUDevice(1), pool, Team())
    again.resume(saved)
    assert torch.equal(again.decoder.closing.conv.weight, last)


def test_latents_of_both_sounds_in_one_batch_are_those_of_each_alone(stage: PolishStage) -> None:
    made = torch.randn(2, 4 * SAMPLES_PER_FRAME, requires_grad=True)
    true = torch.randn(4, 4 * SAMPLES_PER_FRAME)
    distance = stage._latent_distance(made, true)
    one, other = (stage.encoder.latent(low(sound)) for sound in (made, true[:2]))
    assert torch.allclose(distance, (one - other).abs().mean() / other.abs().mean(), rtol=1e-4)
    distance.backward()
    assert made.grad is not None and made.grad.any()


def test_asking_the_discriminators_teaches_the_decoder_alone(stage: PolishStage) -> None:
    made = torch.randn(2, 4 * SAMPLES_PER_FRAME, requires_grad=True)
    true = torch.randn(2, 4 * SAMPLES_PER_FRAME)
    torch.manual_seed(1)  # the same noise as below
    own, adversarial, feature = stage._judge(made, true)
    (adversarial + feature).backward()
    assert made.grad is not None and made.grad.any() and not stage.judges.gradients.any()
    stage.judges.learn(own)
    assert stage.judges.gradients.any()
    with torch.no_grad():
        stage.discriminators.each[0].last.bias.add_(1.0)  # one set of weights: who is asked has changed too
    torch.manual_seed(1)
    # a map of two opinions beside seven others' counts as one of each
    assert torch.allclose(stage._judge(made, true)[1], adversarial - 1.0, atol=1e-5)


def test_discriminators_get_neither_the_mean_nor_what_is_below_the_noise() -> None:
    torch.manual_seed(0)
    sound = torch.randn(2, 4000) * 0.1
    torch.manual_seed(1)
    seen = shown(sound)
    torch.manual_seed(1)
    assert torch.allclose(shown(sound + 0.05), seen, atol=1e-6)
    assert (seen - sound + sound.mean(-1, keepdim=True)).std().item() == pytest.approx(NOISE, rel=0.05)


def test_layers_at_the_full_rate_compute_in_float32_amid_half_precision(small: Recipe, stage: PolishStage) -> None:
    """A decoder in half precision is coarse; one whose last layers are not gives float32 samples of its own."""
    plain = CodecStage(small, CPUDevice(1), stage.pool, Team())
    plain.decoder.load_state_dict(stage.decoder.state_dict())
    latent = torch.randn(1, 4, small.codec.quantised)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        made, coarse = (s.decoder.sound(latent) for s in (stage, plain))
    assert torch.equal(coarse, coarse.bfloat16().float()) and not torch.equal(made, made.bfloat16().float())


def test_some_examples_have_different_delays_and_the_sound_bent_through_them(
    small: Recipe, shards: ShardReader
) -> None:
    half = replace(small, polish=replace(small.polish, batch=4, bent=0.5))
    stage = begun(half, pool_of(shards))
    true, places = stage.pool.draw_whole(4, 6)
    delays = stage._delays(true, places)
    assert delays.shape == places.shape and (delays[:2].diff(dim=1) != 0).any() and not delays[2:].any()
    torch.manual_seed(3)
    made, wanted, places = stage._examples()
    assert made.shape == wanted.shape
    for row, place in zip(wanted[2:], places[2:, 0].tolist(), strict=True):  # not bent: the true sound
        true_row = stage.pool.sound[place * SAMPLES_PER_FRAME :][: len(row)].float() / 32768
        assert torch.allclose(row, true_row, atol=1e-6)
    place = int(places[0, 0])
    assert not torch.allclose(
        wanted[0], stage.pool.sound[place * SAMPLES_PER_FRAME :][: wanted.shape[1]].float() / 32768, atol=1e-3
    )


def test_what_the_recogniser_hears_gets_the_wanted_share_and_moves_the_decoder(
    small: Recipe, shards: ShardReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polish_stage, "LEAST", -1.0)  # it has hardly learned
    monkeypatch.setattr(polish_stage, "MEASURED", 2)
    deaf = replace(small, polish=replace(small.polish, latent=0.0, adversary=0.0, feature=0.0, repetition=0.0, low=0.0))
    stage = begun(deaf, pool_of(shards))
    assert stage.uses_recogniser and all(0 < share <= polish_stage.HIGHEST for share in stage.shares)
    kept = [weight.clone() for weight in stage.perceptual.recogniser.parameters()]
    before = stage.decoder.closing.conv.weight.detach().clone()
    stage.learn(bypass=False)
    stage.update()
    heard = dict(zip(stage.LOSSES, stage.losses.tolist(), strict=True))
    assert all(heard[name] > 0 for name in DISTANCES)
    assert not torch.equal(before, stage.decoder.closing.conv.weight)
    assert all(torch.equal(a, b) for a, b in zip(kept, stage.perceptual.recogniser.parameters(), strict=True))


def test_a_recogniser_that_has_learned_too_little_is_taught_again_by_the_next_call(
    small: Recipe, shards: ShardReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polish_stage, "MEASURED", 1)
    pool = pool_of(shards)
    for least, used in ((2.0, False), (-1.0, True)):
        monkeypatch.setattr(polish_stage, "LEAST", least)
        stage = begun(small, pool)
        stage.save(tmp_path)
        later = PolishStage(small, CPUDevice(1), pool, Team())
        later.resume(checkpoints.load(tmp_path, "codec"))
        assert stage.uses_recogniser is later.taught is used


def test_a_finished_models_codes_stay_bit_for_bit(
    small: Recipe, shards: ShardReader, spoken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its language side has learned them, and it is not asked when only the decoder learns on."""
    for module in (codec_stage, perceptual_loss):
        monkeypatch.setattr(module, "Budget", Steps)
    stage = CodecStage(small, CPUDevice(1), pool_of(shards), Team())
    stage.start_books()
    stage.save(tmp_path / "first")
    work = tmp_path / "work"
    finished = work / MODEL / CODEC_FOLDER
    export_codec(small, tmp_path / "first", finished)
    before = load_file(finished / "model.safetensors")
    pool = SoundPool(0.004, torch.device("cpu"))
    train_codec(PolishStage, small, CPUDevice(1), ShardReader(spoken), pool, work, 0.03, Team())
    export_codec(small, work, finished)
    after = load_file(finished / "model.safetensors")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert "decoder.decoder.0.conv.weight" in changed
    assert not any(name.startswith(("encoder.", "decoder.quantizer.")) for name in changed), changed
