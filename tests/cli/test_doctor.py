"""omnitts doctor: one line per check, the same as JSON, and an exit code that says whether it can speak."""

from types import SimpleNamespace

import pytest
from command import Omnitts

from omnitts_cli.cli import doctor
from omnitts_cli.cli.doctor import Check
from omnitts_cli.settings.table import Machine
from omnitts_cli.speech.load import OnCard


@pytest.fixture
def speaking(monkeypatch: pytest.MonkeyPatch, silent_machine: None) -> None:
    """The embedded voice, played by the toy."""
    from omnitts_cli.speech import load as build

    plain = build.open_engine
    monkeypatch.setattr(build, "open_engine", lambda name, **options: plain("random:toy", **options))


def test_a_machine_that_can_speak_is_0(omnitts: Omnitts, speaking: None) -> None:
    done = omnitts("doctor", "--offline", "-d", "cpu").ended(0)
    lines = done.out.decode().splitlines()
    assert any(line.startswith("ok    speech on cpu:") and "RTF" in line for line in lines)
    assert any(line.startswith("warn  sound output:") for line in lines)


def test_json_is_one_object_with_the_checks(omnitts: Omnitts, speaking: None) -> None:
    done = omnitts("doctor", "--offline", "-d", "cpu", "--json")
    (record,) = done.objects
    assert record["status"] == "ok" and record["schema"] == 1
    checks = {check["name"]: check for check in record["checks"]}
    assert {"python", "packages", "audio files", "model cache", "device cpu", "speech on cpu"} <= set(checks)
    same = checks["reproducibility on cpu"]
    assert len(same["fingerprint"]) == 12 and same["message"].startswith(f"fingerprint {same['fingerprint']}:")
    assert any(part.startswith("torch ") for part in same["depends_on"])
    assert all(check["status"] in ("ok", "skip", "warn", "fail") for check in record["checks"])


def test_a_device_that_is_not_there_is_5(omnitts: Omnitts, speaking: None) -> None:
    done = omnitts("doctor", "--offline", "-d", "cuda:77").ended(5)
    assert b"fail  device cuda:77" in done.out
    assert "error: speech does not work on cuda:77 on this machine" in done.err  # another device could


def test_a_check_that_breaks_is_a_finding(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, speaking: None) -> None:
    monkeypatch.setattr(doctor, "ffmpeg", lambda: 1 / 0)
    monkeypatch.setattr(doctor, "devices", lambda machine: iter([Check("speech", "ok", "fine", speaks=True)]))
    done = omnitts("doctor", "--offline").ended(0)
    assert b"fail" in done.out and b"ZeroDivisionError" in done.out


def test_it_says_who_does_the_work_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.kernels.cpu import library

    monkeypatch.delenv("OMNITTS_NATIVE", raising=False)
    monkeypatch.setattr(library, "usable", lambda: ["avx2", "plain"])
    for origin, words in (("here", "on this machine"), ("wheel", "from the wheel")):
        monkeypatch.setattr(library, "origin", lambda origin=origin: (origin, "GCC 12"))
        made = doctor.cpu_library()
        assert made.status == "ok" and words in made.words and "avx2" in made.words
        assert made.numbers == {"variant": "avx2", "origin": origin, "compiler": "GCC 12"}
    monkeypatch.setenv("OMNITTS_NATIVE", "0")
    assert doctor.cpu_library().words == "switched off by OMNITTS_NATIVE=0"
    monkeypatch.setattr(library, "usable", list)
    monkeypatch.setattr(library, "why_not", lambda: None)
    made = doctor.cpu_library()
    assert made.status == "warn" and made.words.startswith("not compiled") and "ziglang" in str(made.fix)
    monkeypatch.setattr(library, "why_not", lambda: "wrong ELF class")
    made = doctor.cpu_library()
    assert made.status == "warn" and "wrong ELF class" in made.words and "kernels.cpu" in str(made.fix)


class Small:
    """A CPU with so much free memory."""

    def __init__(self, free: int, eight: object) -> None:
        self.free, self.eight = free, eight

    def ops(self) -> "Small":
        return self

    def free_bytes(self) -> int:
        return self.free


@pytest.mark.parametrize(
    ("free", "rtf", "status", "fix"),
    [(8 << 30, 0.6, "ok", None), (8 << 30, 2.2, "ok", "-m tiny"), (1 << 30, 0.6, "warn", "1.0 GiB")],
)
def test_it_tells_what_released_models_need(
    free: int, rtf: float, status: str, fix: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnitts_cli.speech import outlook as module

    monkeypatch.setattr(doctor, "speeds", lambda bits: module.Speeds(2, 20 * 2**30 / 1e9, 40.0))
    monkeypatch.setattr(doctor, "outlook", lambda name, *_: module.Outlook(name, 2 << 30, rtf))
    monkeypatch.setattr(doctor, "is_busy", lambda threads: free > 2 << 30)
    made = doctor.released_models(Small(free, SimpleNamespace(together=(2, 4))))
    assert made.status == status and "0.6b needs 2.0 GiB" in made.words and "1.7b" in made.words
    assert ("other programs" in made.words) == (free > 2 << 30)
    assert made.numbers["read_gib_per_s"] == 20.0 and made.numbers["0.6b_rtf"] == rtf and made.numbers["threads"] == 2
    assert made.fix is None if fix is None else fix in str(made.fix)


def test_it_tells_what_fits_into_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = {"0.6b": OnCard("bfloat16", 2 << 30, 1, 60.0), "1.7b": None}
    monkeypatch.setattr(doctor, "room_for", lambda name, device, settings: rooms[name.partition("-")[0]])
    card = SimpleNamespace(name="cuda:0", most_bytes=3 << 30, free_bytes=lambda: 1 << 30, limit=lambda size: None)
    made = doctor.models_on_card(card, Machine(max_memory=3 << 30))
    assert made.status == "ok" and made.numbers == {"0.6b_precision": "bfloat16", "0.6b_slots": 1, "0.6b_s": 60.0}
    assert "1 request of 60 s" in made.words and "1.7b does not fit" in made.words and "--max-memory" in made.words
    rooms["0.6b"] = None
    made = doctor.models_on_card(card, Machine())
    assert made.status == "warn" and made.fix is not None


def test_without_the_library_it_says_which_format_they_would_have() -> None:
    made = doctor.released_models(Small(8 << 30, None))
    assert made.status == "warn" and "float32" in made.words and made.fix is not None


@pytest.mark.parametrize(
    "free, said, count",
    [
        (22 << 30, "needs 113.7 GiB for its model; does not fit", 0),
        (130 << 30, "9 conversations of 8192 tokens fit", 9),
    ],
)
def test_it_says_if_the_model_of_ask_fits(free: int, said: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.cli.doctor import answers
    from omnitts_cli.devices.cpu import CPUDevice

    monkeypatch.setattr(CPUDevice, "free_bytes", lambda self: free)
    found = answers(CPUDevice(1))
    assert found.status in ("ok", "skip")  # a machine without such a card is not broken
    assert said in found.words
    assert found.numbers["ask_conversations"] == count
