"""Voice files: what is written comes back, and what is wrong in one is told without harm."""

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save
from trap import Trap

from omnitts_cli.errors import InputError, OmniError, UsageError
from omnitts_cli.speech import voice_files
from omnitts_cli.speech.voice_files import SavedVoice
from omnitts_cli.voices import Cloned

ABOUT = {"format": 1, "name": "anna"}


def written(path: Path, tensors: dict[str, Any], about: Any = ABOUT) -> Path:
    path.write_bytes(save(tensors, {"voice": json.dumps(about)}))
    return path


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    gains = np.linspace(-5, 5, voice_files.BANDS).astype(np.float32)
    voice = Cloned(np.arange(8, dtype=np.float32), np.arange(12).reshape(3, 4), "what was said", gains)
    path = tmp_path / "anna.voice"
    voice_files.write(SavedVoice("anna", voice, {"model": "tiny", "consent": "yes"}, b"a clip"), path)
    found = voice_files.read(path)
    assert found.clip == b"a clip" and voice_files.of_bytes(voice_files.to_bytes(found)).clip == found.clip
    assert found.name == "anna" and found.about == {"model": "tiny", "consent": "yes"}
    assert np.array_equal(found.voice.embedding, voice.embedding)
    assert found.voice.gains is not None and np.array_equal(found.voice.gains, gains)
    assert found.voice.transcript == "what was said" and np.array_equal(found.voice.codes, voice.codes)
    assert [one.name for one in tmp_path.iterdir()] == ["anna.voice"]
    assert path.read_bytes() == voice_files.to_bytes(found)


def test_a_saved_voice_is_replaced_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_files, "folder", lambda: tmp_path)
    first, second = (SavedVoice("anna", Cloned(np.full(4, value, np.float32)), {}) for value in (1, 2))
    voice_files.save(first)
    with pytest.raises(InputError, match="'anna' already exists"):
        voice_files.save(second)
    assert voice_files.load("anna").voice.embedding[0] == 1
    voice_files.save(second, replace=True)
    assert voice_files.load("anna").voice.embedding[0] == 2


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    path, marker = tmp_path / "bad.voice", tmp_path / "marker"
    path.write_bytes(pickle.dumps(Trap(marker)))
    with pytest.raises(InputError):
        voice_files.read(path)
    assert not marker.exists()


VECTOR = {"embedding": np.ones(4, np.float32)}
CODES = {"codes": np.ones((2, 3), np.int64)}
WRONG = {
    "no vector": ({"codes": np.ones((2, 3), np.int64)}, ABOUT),
    "another tensor": ({**VECTOR, "extra": np.ones(1, np.float32)}, ABOUT),
    "a clip that is too long": ({**VECTOR, "clip": np.zeros(voice_files.LARGEST_CLIP + 1, np.uint8)}, ABOUT),
    "a clip of numbers": ({**VECTOR, "clip": np.zeros(4, np.float32)}, ABOUT),
    "two clips": ({**VECTOR, "clip": np.zeros((2, 4), np.uint8)}, ABOUT),
    "a matrix": ({"embedding": np.ones((2, 2), np.float32)}, ABOUT),
    "another type": ({"embedding": np.ones(4, np.float64)}, ABOUT),
    "no number": ({"embedding": np.full(4, np.nan, np.float32)}, ABOUT),
    "a line of codes": ({**VECTOR, "codes": np.ones(3, np.int64)}, ABOUT),
    "codes below zero": ({**VECTOR, "codes": -np.ones((2, 3), np.int64)}, {**ABOUT, "transcript": "hi"}),
    "codes without words": ({**VECTOR, **CODES}, ABOUT),
    "words without codes": (VECTOR, {**ABOUT, "transcript": "hi"}),
    "too few gains": ({**VECTOR, "gains": np.zeros(4, np.float32)}, ABOUT),
    "deafening gains": ({**VECTOR, "gains": np.full(voice_files.BANDS, 90, np.float32)}, ABOUT),
    "gains without numbers": ({**VECTOR, "gains": np.full(voice_files.BANDS, np.nan, np.float32)}, ABOUT),
    "whole gains": ({**VECTOR, "gains": np.zeros(voice_files.BANDS, np.int32)}, ABOUT),
    "another format": (VECTOR, {"format": 2, "name": "anna"}),
    "an unknown field": (VECTOR, {**ABOUT, "colour": "red"}),
    "a number for a word": (VECTOR, {**ABOUT, "licence": 3}),
    "a list": (VECTOR, [1]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_reported(tmp_path: Path, case: str) -> None:
    with pytest.raises(InputError, match=r"bad\.voice"):
        voice_files.read(written(tmp_path / "bad.voice", *WRONG[case]))


SHORT = (2).to_bytes(8, "little")


@pytest.mark.parametrize("data", [
    b"", b"x" * 9, b"\xff" * 64, (2**62).to_bytes(8, "little") + b"{}" * 9, b"\0" * 4096, SHORT + b"[]", SHORT + b"{}",
])  # fmt: skip
def test_bytes_that_are_no_voice(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.voice").write_bytes(data)
    with pytest.raises(InputError):
        voice_files.read(tmp_path / "bad.voice")
    with pytest.raises(InputError, match="cannot use voice file"):
        voice_files.of_bytes(data)


def test_every_truncation_is_reported(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.voice", VECTOR).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "cut.voice").write_bytes(whole[:length])
        with pytest.raises(InputError):
            voice_files.read(tmp_path / "cut.voice")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.voice"
    with path.open("wb") as file:
        file.truncate(voice_files.LARGEST_BYTES + 1)
    with pytest.raises(InputError) as caught:
        voice_files.read(path)
    assert "bytes" in str(caught.value.cause)


@pytest.mark.parametrize("name", ["anna", "a", "0.1_x-y", "n" * 64])
def test_names_that_may_be(name: str) -> None:
    assert voice_files.check_name(name) == name


@pytest.mark.parametrize("name", ["", "Anna", "a/b", "..", ".a", "con", "com1.x", "n" * 65, "a\n", "ä", "a."])
def test_names_that_may_not_be(name: str) -> None:
    with pytest.raises(UsageError):
        voice_files.check_name(name)


def test_a_blend_is_weighted() -> None:
    one, two = (SavedVoice(n, Cloned(np.full(3, v, np.float32))) for n, v in (("a", 0.0), ("b", 10.0)))
    assert voice_files.blend([(one, 3), (two, 1)], "c").voice.embedding == pytest.approx(2.5)
    with pytest.raises(OmniError):
        voice_files.blend([(one, 1)], "c")
    filtered = SavedVoice("f", Cloned(np.zeros(3, np.float32), gains=np.full(voice_files.BANDS, 8, np.float32)))
    assert voice_files.blend([(filtered, 1), (two, 3)], "c").voice.gains == pytest.approx(2.0)
    assert voice_files.blend([(one, 1), (two, 3)], "c").voice.gains is None


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voice_files, "folder", lambda: tmp_path / "saved")
    with pytest.raises(InputError, match="does not exist") as caught:
        voice_files.read(tmp_path / "missing.voice")
    assert caught.value.hint == "check the path"
    voice_files.save(SavedVoice("missing", Cloned(np.ones(4, np.float32)), {}))
    with pytest.raises(InputError) as caught:
        voice_files.read(tmp_path / "missing.voice")
    assert caught.value.hint == "-v missing   if you mean the saved voice"
    voice_files.write(SavedVoice("a", Cloned(np.ones(4, np.float32)), {}), tmp_path / "misding.voice")
    with pytest.raises(InputError) as caught:
        voice_files.read(tmp_path / "missing.voice")
    assert caught.value.hint == f"did you mean {tmp_path / 'misding.voice'}?"


def test_a_file_holds_a_minute_of_codes_and_a_short_header(tmp_path: Path) -> None:
    tensors = {"embedding": np.zeros(8, np.float32), "codes": np.zeros((751, 4), np.int64)}
    about = {**ABOUT, "transcript": "words"}
    with pytest.raises(InputError, match="cannot use") as error:
        voice_files.read(written(tmp_path / "long.voice", tensors, about))
    assert "codes have shape" in str(error.value.cause)
    tensors["codes"] = tensors["codes"][:750]
    assert voice_files.read(written(tmp_path / "fits.voice", tensors, about)).voice.codes.shape == (750, 4)
    path = written(tmp_path / "head.voice", {"embedding": np.zeros(8, np.float32)}, {**ABOUT, "source": "x" * 300_000})
    for read in (voice_files.read, voice_files.about):
        with pytest.raises(InputError, match="cannot use") as error:
            read(path)
        assert "header has" in str(error.value.cause)


def test_a_list_needs_the_header_only(tmp_path: Path) -> None:
    about = {**ABOUT, "transcript": "words", "consent": "Ann"}
    tensors = {"embedding": np.zeros(8, np.float32), "codes": np.zeros((9, 4), np.int64)}
    path = written(tmp_path / "anna.voice", tensors, about)
    expected = {"name": "anna", "transcript": "words", "consent": "Ann", "embedding_dim": "8"}
    assert voice_files.about(path) == expected
    path.write_bytes(path.read_bytes()[:-1])  # the tensors are damaged
    assert voice_files.about(path)["consent"] == "Ann"


@pytest.mark.parametrize("replace", [False, True])
def test_one_name_saved_from_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool) -> None:
    """No torn file, no error of a disk that is not full, and the voice that is kept is one whose client was told so."""
    monkeypatch.setattr(voice_files, "folder", lambda: tmp_path)
    width, clients = 8_192, 6

    def save(number: int) -> int | None:
        start.wait()
        try:
            vector = np.full(width, number, np.float32)
            voice_files.save(SavedVoice("one", Cloned(vector), {}), replace=replace)
        except InputError as error:
            assert "already exists" in error.message
            return None
        return number

    with ThreadPoolExecutor(clients) as pool:
        for _ in range(40):
            start = threading.Barrier(clients)
            told = [number for number in pool.map(save, range(clients)) if number is not None]
            kept = voice_files.load("one").voice.embedding
            assert len(set(kept.tolist())) == 1 and int(kept[0]) in told
            assert len(told) == (clients if replace else 1)
            assert [path.name for path in tmp_path.iterdir()] == ["one.voice"]
            (tmp_path / "one.voice").unlink()
