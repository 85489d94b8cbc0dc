"""omnitts codec: sound to codes and back, and files that are neither."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from command import Omnitts
from safetensors.numpy import load, save

TOY = ["-m", "random:toy"]


@pytest.fixture
def tone(home: Path) -> str:
    sound = 0.3 * np.sin(np.arange(8000) * 0.2)
    soundfile.write(home / "tone.wav", sound, 8000)
    return str(home / "tone.wav")


def test_there_and_back(omnitts: Omnitts, tone: str) -> None:
    done = omnitts("codec", "encode", tone, "a.safetensors", *TOY, "--json").ended(0)
    codes = load(Path("a.safetensors").read_bytes())["codes"]
    assert codes.dtype == np.int64 and codes.shape == (done.json["frames"], 4)
    assert omnitts("codec", "decode", "a.safetensors", "-o", "b.wav", *TOY).code == 0
    assert soundfile.info("b.wav").frames == len(codes) * 640


def test_the_codes_may_be_named_by_an_option(omnitts: Omnitts, tone: str) -> None:
    assert omnitts("codec", "encode", tone, "-o", "a.safetensors", *TOY).code == 0 and Path("a.safetensors").exists()
    for names in ((), ("b.safetensors", "-o", "c.safetensors")):
        omnitts("codec", "encode", tone, *names, *TOY).ended(2, f"omnitts codec encode {tone} -o")


def test_a_dash_is_stdin_and_stdout(omnitts: Omnitts, tone: str) -> None:
    omnitts("codec", "encode", tone, "a.safetensors", *TOY)
    omnitts("codec", "decode", "a.safetensors", "-o", "b.wav", *TOY)
    Path("a.wav").write_bytes(Path(tone).read_bytes())
    through = omnitts("codec", "encode", "-", "-", *TOY, "--json", stdin=Path(tone).read_bytes())
    assert through.code == 0 and through.out == Path("a.safetensors").read_bytes()
    assert '"output": "-"' in through.err
    omnitts("codec", "decode", "-", "-o", "c.wav", *TOY, stdin=through.out).ended(0)
    assert Path("c.wav").read_bytes() == Path("b.wav").read_bytes()
    assert not Path("-").exists()
    broken = omnitts("codec", "decode", "-", "-o", "c.wav", *TOY, stdin=b"none")
    assert broken.code == 3 and "cannot use code file on standard input" in broken.err
    assert "omnitts codec encode" in broken.err


REFUSED = [
    ("decode TONE -o b.wav", 3, ["tone.wav is a recording", "omnitts codec encode"]),
    ("encode nowhere.wav b", 3, ["error: sound nowhere.wav not found"]),
    ("encode TONE nowhere/b", 8, []),
    ("decode nowhere.safetensors -o b.wav", 3, ["try: ls ."]),
    ("encode - b", 3, ["error: sound on standard input is an empty file (0 bytes)\n"]),
    ("encode TONE codes.wav", 2, ["try: omnitts codec encode", "codes.safetensors"]),
]


@pytest.mark.parametrize(("typed", "code", "words"), REFUSED, ids=[typed for typed, *_ in REFUSED])
def test_what_is_refused(omnitts: Omnitts, tone: str, typed: str, code: int, words: list[str]) -> None:
    omnitts("codec", *typed.replace("TONE", tone).split(), *TOY).ended(code, *words)
    assert list(Path().iterdir()) == []


def test_decode_says_the_same_as_say_and_takes_its_output_as_a_second_name(omnitts: Omnitts) -> None:
    omnitts("say", *TOY, "--seed", "5", "--max-frames", "40", "-o", "a.wav", "--codes", "c.safetensors", "Hello there.")
    assert omnitts("codec", "decode", "c.safetensors", "-o", "b.wav", *TOY).code == 0
    one, other = (soundfile.read(name, dtype="int16")[0].astype(int) for name in ("a.wav", "b.wav"))
    assert len(one) == len(other) and np.abs(one - other).max() <= 1
    assert omnitts("codec", "decode", "c.safetensors", "d.wav", *TOY).code == 0
    assert Path("d.wav").read_bytes() == Path("b.wav").read_bytes()
    omnitts("codec", "decode", "c.safetensors", "d.wav", "-o", "b.wav", *TOY).ended(2, "not both")


WRONG = {
    "another name": {"frames": np.zeros((3, 4), np.int64)},
    "a line": {"codes": np.zeros(3, np.int64)},
    "floats": {"codes": np.zeros((3, 4), np.float32)},
    "below zero": {"codes": np.full((3, 4), -1, np.int64)},
    "nothing": {"codes": np.zeros((0, 4), np.int64)},
    "other groups": {"codes": np.zeros((3, 5), np.int64)},
    "beyond the codebook": {"codes": np.full((3, 4), 4000, np.int64)},
}


@pytest.mark.parametrize("case", WRONG)
def test_codes_that_cannot_be_are_3(omnitts: Omnitts, case: str) -> None:
    Path("a.safetensors").write_bytes(save(WRONG[case]))
    omnitts("codec", "decode", "a.safetensors", "-o", "b.wav", *TOY).ended(3, "a.safetensors")
    assert not Path("b.wav").exists()


def test_a_sound_of_more_than_an_hour_is_refused_with_that_limit(omnitts: Omnitts, tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    soundfile.write(path, np.zeros(3720 * 4000, np.int16), 4000)
    omnitts("codec", "encode", str(path), "b", *TOY).ended(3, "lasts 1 h 02 min; at most 1 h 00 min can be read")
