"""Exported tensors come back through the ordinary loader as they went."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_kit import new_model

from omnitts_cli.devices.cpu import CPUDevice
from omnitts_cli.families.qwen3_tts.config import read_config
from omnitts_cli.families.qwen3_tts.modules import parts as family_parts
from omnitts_cli.training.__main__ import main
from omnitts_cli.training.codec_stage import CodecStage
from omnitts_cli.training.pool import SoundPool
from omnitts_cli.training.recipe import Recipe
from omnitts_cli.training.speaker_heads import SpeakerHeads
from omnitts_cli.training.speech import TinySpeech
from omnitts_cli.training.speech_stage import STORED_HEADS
from omnitts_cli.training.stage_results import exported_codec, trained_codec
from omnitts_cli.training.team import Team
from omnitts_cli.training.tokens import TokenLists
from omnitts_cli.weights.checkpoint import Checkpoint
from omnitts_cli.weights.load import fill


def test_what_is_exported_is_loaded(small: Recipe, tokens: TokenLists, tmp_path: Path) -> None:
    torch.manual_seed(0)
    speech = TinySpeech(small, tokens)
    folder = new_model(small, tokens, tmp_path, speech=speech)
    config = read_config(folder)
    assert config.kinds == {"named", "cloned", "designed"}
    pieces = family_parts(config)
    files = Checkpoint.open(folder)
    fill(pieces.language.module, pieces.language.names, files, "cpu", torch.float32, unused=("speaker_encoder.*",))
    fill(pieces.speaker.module, pieces.speaker.names, files, "cpu", torch.float32, unused=None)
    loaded = dict(pieces.language.module.named_parameters())
    loaded |= {f"speaker.{name}": value for name, value in pieces.speaker.module.named_parameters()}
    for name, value in speech.named_parameters():
        assert torch.equal(loaded[name], value.bfloat16().float()), name
    ours, theirs = trained_codec(small, tmp_path), exported_codec(small, folder / "speech_tokenizer")
    for half, other in ((ours.decoder, theirs.decoder), (ours.encoder, theirs.encoder)):
        for (name, value), found in zip(half.named_parameters(), other.parameters(), strict=True):
            assert torch.allclose(value, found, atol=1e-3, rtol=1e-3), name


def test_the_speakers_vectors_are_stretched_from_their_mean(small: Recipe, tokens: TokenLists, tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = replace(small, speaker=replace(small.speaker, stretch=1.75))
    speech, heads = TinySpeech(made, tokens), SpeakerHeads(made.speech.hidden)
    heads.follow(torch.randn(4, made.speech.hidden))
    new_model(made, tokens, tmp_path, **{"speech": speech, STORED_HEADS: heads})
    pieces = family_parts(read_config(tmp_path / "tiny")).speaker
    files = Checkpoint.open(tmp_path / "tiny")
    fill(pieces.module, pieces.names, files, "cpu", torch.float32, unused=None)
    mel = torch.randn(2, speech.speaker.shape.mel.bands, 40)
    with torch.no_grad():
        before, after = speech.speaker(mel) - heads.centre, pieces.module(mel) - heads.centre
    assert torch.allclose(after, 1.75 * before, atol=0.02)


def test_another_codecs_decoder_replaces_its_own(
    small: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs the command. Encoder and codebooks are those of the work folder, bit for bit."""

    def exported(work: Path, *more: str) -> dict[str, torch.Tensor]:
        words = ["training", "export", "--miniature", "--device", "cpu", "--work", str(work), *more]
        monkeypatch.setattr(sys, "argv", words)
        main()
        return load_file(work / "tiny" / "speech_tokenizer" / "model.safetensors")

    own, other = tmp_path / "own", tmp_path / "other"
    for seed, work in enumerate((own, other)):
        torch.manual_seed(seed)
        CodecStage(small, CPUDevice(1), SoundPool(0.001, torch.device("cpu")), Team()).save(work)
    before, given = exported(own), exported(other)
    after = exported(own, "--decoder", str(other / "tiny" / "speech_tokenizer"))
    taken = {name for name in after if name.startswith("decoder.") and not name.startswith("decoder.quantizer.")}
    assert taken and before.keys() == after.keys()
    for name, value in after.items():
        assert torch.equal(value, given[name] if name in taken else before[name]), name
    assert not torch.equal(after["decoder.pre_conv.conv.weight"], before["decoder.pre_conv.conv.weight"])
    assert any(not torch.equal(before[name], given[name]) for name in after.keys() - taken)
    mixed = exported(own, "--decoder", str(other / "tiny" / "speech_tokenizer"), "--share", "0.25", "--rises", "0.6")
    last = {name for name in taken if name.startswith("decoder.decoder.") and not name.startswith("decoder.decoder.0.")}
    assert last and last < taken
    for name, value in mixed.items():
        share = 0.6 if name in last else 0.25
        wanted = torch.lerp(before[name].float(), given[name].float(), share) if name in taken else before[name]
        torch.testing.assert_close(value.float(), wanted.float(), rtol=2e-3, atol=1e-4)
