"""The embedded voice: where its folder is there, every command speaks with it, and nothing needs the network."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from command import Omnitts
from golden_set import checkpoint

SHORT = ["--max-frames", "6", "--seed", "5", "--offline", "-o", "a.wav"]


def test_without_it_no_model_is_4_and_says_so(omnitts: Omnitts, no_model: None) -> None:
    omnitts("say", *SHORT, "Hello there.").ended(4, "is missing", "-m 0.6b")


def test_it_is_the_default_of_say(omnitts: Omnitts, landed: Path) -> None:
    done = omnitts("say", *SHORT, "--json", "Hello there.").ended(0)
    assert (done.json["model"], done.json["voice"], done.json["lang"]) == ("tiny", "henry", "en")
    assert soundfile.info("a.wav").duration == pytest.approx(done.json["audio_s"])


def test_what_it_cannot_do_names_a_model_that_can(omnitts: Omnitts, landed: Path, home: Path) -> None:
    soundfile.write("clip.wav", 0.1 * np.sin(np.arange(96_000) / 30) + 0.01 * np.random.randn(96_000), 24_000)
    calls = [["clone", "-r", "clip.wav"], ["design", "-i", "a deep voice"], ["say", "-i", "whisper"]]
    for call in calls:
        done = omnitts(*call, *SHORT, "Hello there.")
        assert done.code == 2, call
        assert "1.7b" in done.err, call
        assert not Path("a.wav").exists()


def test_what_the_model_cannot_read_is_left_out_or_refused(omnitts: Omnitts, landed: Path) -> None:
    """In a document it ends nothing; by itself it leaves nothing to speak."""
    text = "The word 北京 means Beijing. Well ¯\\_(ツ)_/¯ whatever."
    done = omnitts("say", *SHORT, text)
    assert done.code == 0 and "'北京'" in done.err and Path("a.wav").exists()
    assert omnitts("say", *SHORT, "--unreadable", "spell", text).code == 0
    omnitts("say", *SHORT, "--unreadable", "fail", text).ended(3, "'北京'")
    for text in ("你好，世界。今天天气很好。", "Привет, мир!"):
        omnitts("say", *SHORT, text).ended(3, "-m 0.6b   or -m 1.7b")
        assert omnitts("say", *SHORT, "--unreadable", "spell", text).code == 0


def test_another_language_is_read_with_a_notice_unless_it_was_asked_for(omnitts: Omnitts, landed: Path) -> None:
    text = "Bonjour, je suis très content de vous voir ici."
    omnitts("say", *SHORT, text).ended(0, "French", "-m 0.6b   or   -m 1.7b")
    assert omnitts("say", *SHORT, "-l", "fr", text).code == 2


def test_long_sentences_are_cut_to_what_it_was_taught(omnitts: Omnitts, landed: Path) -> None:
    text = "This is a sentence, which goes on and on, without any end, " * 9 + "until it stops."
    pieces = [piece["text"] for piece in omnitts("say", "--dry-run", "--json", text).objects]
    assert len(pieces) > 4 and all(len(piece) <= 110 for piece in pieces) and " ".join(pieces) == text
    assert len(omnitts("say", "--dry-run", "--json", "-m", "random:toy", text).objects) < len(pieces)
    assert len(omnitts("say", "--dry-run", "--json", "--split", "none", text).objects) == 1


def test_voices_are_listed_with_a_line_each_and_previewed(omnitts: Omnitts, landed: Path) -> None:
    rows = [line.split("\t") for line in omnitts("voices", "list").out.decode().splitlines()]
    assert rows == [["henry", "model", "tiny", "a calm man"], ["clara", "model", "tiny", "a friendly woman"]]
    assert omnitts("voices", "list", "-l", "en").out.count(b"\n") == 2
    assert omnitts("voices", "list", "-l", "zh").out == b"" and omnitts("voices", "list", "-l", "xx").code == 2
    for name, *_ in rows:
        assert omnitts("voices", "preview", name, "--max-frames", "4", "-o", f"{name}.wav").code == 0
        assert soundfile.info(f"{name}.wav").frames > 0


def test_a_saved_voice_is_shown_as_well_as_one_of_the_model(omnitts: Omnitts, landed: Path) -> None:
    done = omnitts("voices", "show", "clara", "--json").ended(0)
    assert (done.json["model"], done.json["about"]) == ("tiny", "a friendly woman")
    assert omnitts("voices", "show", "klara").code == 4


def test_the_doctor_speaks_with_it(omnitts: Omnitts, landed: Path, silent_machine: None) -> None:
    done = omnitts("doctor", "--offline", "-d", "cpu").ended(0)
    assert b"ok    speech on cpu: " in done.out
    assert b"embedded voice" in done.out


def test_models_list_verify_and_find_it(omnitts: Omnitts, landed: Path) -> None:
    assert omnitts("models", "list").out.decode().split("\t")[:2] == ["tiny", "ready"]
    assert omnitts("models", "path", "tiny").out.decode().strip() == str(landed)
    assert omnitts("models", "verify", "tiny").code == 0


def test_a_gpu_that_is_not_used_is_reported(omnitts: Omnitts, landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.devices import choose
    from omnitts_cli.errors import DeviceError

    monkeypatch.setattr(choose, "broken_cuda", lambda: DeviceError("cuda:0 is not usable: no driver"))
    monkeypatch.setattr(choose, "_accelerator", lambda: None)
    omnitts("say", *SHORT, "Hello there.").ended(0, "many times slower: cuda:0 is not usable")
    assert "slower" not in omnitts("say", *SHORT, "-d", "cpu", "Hello there.").err


def test_a_terminal_shows_what_is_being_loaded(omnitts: Omnitts, landed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.terminal.console import Console

    assert "loading" not in omnitts("say", *SHORT, "Hello there.").err
    monkeypatch.setattr(Console, "animates", staticmethod(lambda: True))
    err = omnitts("say", *SHORT, "Hello there.").err
    assert "loading tiny ..." in err
    assert "loading" not in omnitts("say", *SHORT, "-q", "Hello there.").err


def test_the_words_of_a_clip_are_read_as_texts(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.speech import voice_files
    from omnitts_cli.weights import find

    folder = home / "tiny"
    shutil.copytree(checkpoint("base"), folder)
    config = json.loads((folder / "config.json").read_text())
    config["omnitts"] = {"kinds": ["cloned"], "plain_letters": True}
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr(find, "TINY", folder)
    soundfile.write("clip.wav", 0.1 * np.sin(np.arange(96_000) / 30) + 0.01 * np.random.randn(96_000), 24_000)
    words = "There are 7 of them — all alike, more or less."
    omnitts("clone", *SHORT, "-r", "clip.wav", "--ref-text", words, "--save-voice", "me", "Hello there.").ended(0)
    assert voice_files.load("me").voice.transcript == "There are seven of them, all alike, more or less."
    again = omnitts("say", "-v", "me", *SHORT, "--json", "Hello again.")
    assert (again.code, again.json["model"], again.json["voice"]) == (0, "tiny", "me")
