"""File kinds by the first bytes: audio that can be read, and descriptions of everything else."""

import numpy as np
import pytest

from omnitts_cli.audio.magic import HEAD_BYTES, kind_of

soundfile = pytest.importorskip("soundfile")


@pytest.mark.parametrize(("name", "kind", "how"), [
    ("a.wav", "wav", {}), ("a.wav", "rifx", {"endian": "BIG"}),
    ("a.rf64", "rf64", {"format": "RF64", "subtype": "PCM_16"}), ("a.w64", "w64", {"subtype": "PCM_16"}),
    ("a.aiff", "aiff", {}), ("a.caf", "caf", {"subtype": "PCM_16"}), ("a.au", "au", {"subtype": "PCM_16"}),
    ("a.flac", "flac", {}), ("a.ogg", "ogg", {}), ("a.mp3", "mp3", {}),
])  # fmt: skip
def test_what_libsndfile_writes_is_known(name: str, kind: str, how: dict[str, str], tmp_path: object) -> None:
    path = f"{tmp_path}/{name}"
    soundfile.write(path, np.zeros(4800, np.float32), 24000, **how)
    with open(path, "rb") as file:
        assert kind_of(file.read(HEAD_BYTES)) == kind


def test_mpeg_audio_without_a_tag() -> None:
    assert kind_of(bytes.fromhex("fff384c4") + bytes(60)) == "mp3"
    assert kind_of(bytes.fromhex("fff15080") + bytes(60)) == "aac"
    assert "bytes that begin with" in kind_of(bytes.fromhex("ffffffff") * 16)


def test_every_head_has_an_answer() -> None:
    generator = np.random.default_rng(1)
    for size in range(HEAD_BYTES):
        assert kind_of(generator.bytes(size))
