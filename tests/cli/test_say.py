"""omnitts say: every row of the table of outputs, results, atomic files, and what a bad target is told."""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from books import probe
from command import Omnitts, Started, interrupted_in
from golden_set import checkpoint
from patience import LONG_S
from safetensors.numpy import load

from omnitts_cli.audio.sinks import FileSink, Sink
from omnitts_cli.cli import sound_out
from omnitts_cli.speech import load as loading
from omnitts_cli.speech.speaking import Stream
from omnitts_cli.speech.tts import TTS

TOY = ["-m", "random:toy", "--max-frames", "12", "--seed", "5"]


def same_sound(one: str, other: str) -> bool:
    """Equal within 1 LSB: how the codec's work was cut into chunks may show in the last bit."""
    first, second = (soundfile.read(name, dtype="int16")[0].astype(int) for name in (one, other))
    return len(first) == len(second) > 0 and int(np.abs(first - second).max()) <= 1


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- where the sound goes


def test_a_file_and_a_silent_stdout(omnitts: Omnitts) -> None:
    done = omnitts("say", *TOY, "-o", "a.wav", "Hello there.")
    assert (done.code, done.out) == (0, b"")
    sound, rate = soundfile.read("a.wav")
    assert (len(sound), rate) == (12 * 640, 8000)
    assert left_in(Path()) == ["a.wav"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_other_names_of_stdout_are_stdout(omnitts: Omnitts, name: str) -> None:
    done = omnitts("say", *TOY, "-q", "-o", name, "Hello there.")
    assert done.code == 0 and done.out == omnitts("say", *TOY, "-q", "-o", "-", "Hello there.").out
    assert done.out.startswith(b"RIFF") and done.err == ""
    assert omnitts("say", *TOY, "--subs", name, "-o", "-", "Hello there.").code == 2
    made = omnitts("codec", "encode", "-", name, *TOY[:2], stdin=done.out)
    assert made.code == 0 and b'"codes"' in made.out


def test_no_output_and_no_loudspeaker_is_a_named_file(omnitts: Omnitts, silent_machine: None) -> None:
    done = [omnitts("say", *TOY, "Hello there.") for _ in range(2)]
    assert [one.out for one in done] == [b"speech.wav\n", b"speech-2.wav\n"]
    assert "of speech in speech.wav, as there is no sound output" in done[0].err
    assert "no sound output" not in omnitts("say", *TOY, "--no-play", "-o", "speech.wav", "Hello there.").err
    assert omnitts("say", *TOY, "--no-play", "-F", "flac", "Hello.").out == b"speech.flac\n"
    assert left_in(Path()) == ["speech-2.wav", "speech.flac", "speech.wav"]


@pytest.mark.parametrize(("options", "spoken"), [([], "auto"), (["-l", "de"], "de"), (["-l", "detect"], "en")])
def test_json_has_the_language_that_was_spoken(omnitts: Omnitts, options: list[str], spoken: str) -> None:
    text = "This is a sentence that nobody would take for another language."
    assert omnitts("say", *TOY, "-o", "a.wav", "--json", *options, text).json["lang"] == spoken


def test_a_temperature_of_next_to_nothing_is_greedy_in_every_group(omnitts: Omnitts) -> None:
    for temperature in ("0", "1e-40"):
        omnitts(
            "say", *TOY, "--temperature", temperature, "--codes", f"{temperature}.st", "-o", "a.wav", "Hello."
        ).ended(0)
    assert Path("0.st").read_bytes() == Path("1e-40.st").read_bytes()


@pytest.mark.parametrize(("typed", "words"), [
    ("say --play -m nowhere -o a.wav Hello.", "leave --play out to write a.wav"),
    ("voices preview ann -m random:toy", "-o "),
])  # fmt: skip
def test_without_a_loudspeaker_it_is_5_before_a_model_is_looked_for(
    omnitts: Omnitts, silent_machine: None, typed: str, words: str
) -> None:
    omnitts(*typed.split()).ended(5, "no sound output", words)
    assert left_in(Path()) == []


def test_stdout_gets_a_wav_and_nothing_else(omnitts: Omnitts) -> None:
    done = omnitts("say", *TOY, "-o", "-", "Hello there.").ended(0)
    assert done.out[:4] == b"RIFF"
    assert len(done.out) == 44 + 2 * 12 * 640
    raw = omnitts("say", *TOY, "-o", "-", "-F", "raw", "--json", "-q", "Hello there.")
    assert raw.out == done.out[44:] and json.loads(raw.err)["output"] == "-", "the report goes to stderr"


# -- results


def test_json_subtitles_and_codes_say_what_was_made(omnitts: Omnitts) -> None:
    text = "Hello there, this is one. This is another one."
    beside = ("--sentence-gap", "500", "--subs", "a.srt", "--codes", "a.safetensors")
    done = omnitts("say", *TOY, "-o", "a.wav", *beside, "--json", text)
    result = done.json
    assert (done.code, result["status"], result["schema"], result["output"]) == (0, "ok", 1, "a.wav")
    assert result["audio_s"] == pytest.approx(soundfile.info("a.wav").duration, abs=0.001)
    assert [s["text"] for s in result["sentences"]] == ["Hello there, this is one.", "This is another one."]
    assert result["seed"] == 5 and result["pieces"] == 2 and result["stopped"] == "limit"
    assert soundfile.info("a.wav").frames == 2 * 12 * 640 + 4000
    assert "00:00:00,000 --> 00:00:00,960\nHello there, this is one." in Path("a.srt").read_text()
    assert "00:00:01,460 --> 00:00:02,420\nThis is another one." in Path("a.srt").read_text()
    codes = load(Path("a.safetensors").read_bytes())
    assert list(codes) == ["codes"] and codes["codes"].dtype == np.int64
    assert codes["codes"].shape == (24, 4), "there are none for the gap"


def test_speed_loudness_and_words_a_minute_change_what_they_say(omnitts: Omnitts) -> None:
    omnitts("say", *TOY, "-o", "a.wav", "Hello there.")
    omnitts("say", *TOY, "-o", "b.wav", "--speed", "2", "Hello there.")
    omnitts("say", *TOY, "-o", "c.wav", "--volume", "-6", "Hello there.")
    a, b, c = (soundfile.read(name)[0] for name in ("a.wav", "b.wav", "c.wav"))
    assert len(b) == len(a) // 2
    assert np.abs(c).max() == pytest.approx(np.abs(a).max() * 10 ** (-6 / 20), abs=1e-3)
    for name, option in (("a.wav", ("--wpm", "330")), ("b.wav", ("--speed", "1.5"))):
        assert omnitts("say", *TOY, *option, "-o", name, "Hello there.").code == 0
    assert same_sound("a.wav", "b.wav")


def test_clipping_by_volume_is_reported(omnitts: Omnitts) -> None:
    loud = ("say", *TOY, "--volume", "40", "--json", "-o", "a.wav", "Hello there.")
    (_, warning) = omnitts(*loud).json["warnings"]
    assert warning.startswith("the sound is clipped: its peaks are ")
    hint = omnitts(*loud).err.partition("try: --volume ")[2].partition(",")[0]
    for whole in (["--volume", hint], ["--loudness", "-20"], ["--subtype", "float"]):
        given = loud if whole[0] != "--volume" else ("say", *TOY, "--json", "-o", "a.wav", "Hello there.")
        assert not [one for one in omnitts(*given, *whole).json["warnings"] if "clipped" in one], whole


def test_json_has_the_loudness(omnitts: Omnitts) -> None:
    loud = omnitts("say", *TOY, "-o", "a.wav", "--json", "Hello there.").json
    soft = omnitts("say", *TOY, "-o", "b.wav", "--json", "--loudness", "-30", "Hello there.").json
    assert soft["loudness_lufs"] == pytest.approx(-30, abs=0.2)
    change = soft["loudness_lufs"] - loud["loudness_lufs"]
    assert soft["peak_dbfs"] - loud["peak_dbfs"] == pytest.approx(change, abs=0.2)
    assert soft["peak_dbfs"] == pytest.approx(20 * np.log10(np.abs(soundfile.read("b.wav")[0]).max()), abs=0.1)


def test_max_seconds_is_a_cap_like_max_frames(omnitts: Omnitts) -> None:
    toy = ["say", "-m", "random:toy", "--seed", "5", "-o", "a.wav", "Hello there."]
    assert omnitts(*toy, "--max-seconds", "0.8", "--json").json["stopped"] == "limit"
    assert soundfile.info("a.wav").duration == pytest.approx(0.8)
    assert omnitts(*toy, "--max-seconds", "0.8", "--max-frames", "9").code == 2


def test_many_warnings_of_a_kind_are_folded(omnitts: Omnitts) -> None:
    done = omnitts("say", *TOY, "-o", "a.wav", "--split", "line", "--json", stdin=b"One is here.\n" * 9).ended(0)
    assert len(done.json["warnings"]) == 4 and done.json["warnings"][-1].startswith("... and ")
    assert done.err.count("warning:") == 4


def test_dry_run_loads_nothing(omnitts: Omnitts) -> None:
    done = omnitts("say", "-m", "nowhere", "--dry-run", "--json", "Hello there, this is one. This is another one.")
    assert done.code == 0
    assert [piece["text"] for piece in done.objects] == ["Hello there, this is one.", "This is another one."]
    assert "2 pieces, about 0:03; model 'nowhere' not found" in done.err


def test_dry_run_shows_the_size_of_the_model_or_that_there_is_none(omnitts: Omnitts) -> None:
    done = omnitts("say", "-m", str(checkpoint("custom_voice")), "--dry-run", "Hello there.")
    assert done.code == 0 and done.err.rstrip().endswith(" MiB")
    Path("words").mkdir()
    assert omnitts("say", "-m", "words", "--dry-run", "Hello.").err.endswith("/words is not a model folder\n")
    assert omnitts("say", "-m", "1.7b", "--dry-run", "Hello.").err.endswith("; model 1.7b is not on this machine\n")


@pytest.mark.parametrize(("typed", "warning"), [
    ("-F flac -o a.wav", "a.wav is written as flac, although its suffix is .wav"),
    ("-F wav -o a.m4a", "a.m4a is written as wav, although its suffix is .m4a"),
    ("-o a.flc", "unknown suffix .flc; a.flc is written as wav (choose with -F)"),
    *((f"-F {form} -o {name}", None) for form, name in (
        ("wav", "b.wave"), ("opus", "b.ogg"), ("raw", "b.pcm"), ("flac", "b.flac"), ("flac", "b.bin"),
    )),
    *((f"-o {name}", None) for name in ("a", "take.2", "a.WAV", "a.recording", "a.tmp -F wav")),
])  # fmt: skip
def test_a_suffix_of_another_format_gets_a_warning(omnitts: Omnitts, typed: str, warning: str | None) -> None:
    done = omnitts("say", *TOY, *typed.split(), "Hello.")
    assert done.code == 0 and ("suffix" in done.err) == bool(warning) and (warning is None or warning in done.err)
    if "flac" in typed:
        assert Path(typed.split()[-1]).read_bytes()[:4] == b"fLaC"


def test_neither_a_text_nor_a_kept_file_is_replaced(omnitts: Omnitts) -> None:
    Path("book.txt").write_text("A whole book.")
    omnitts("say", *TOY, "-o", "book.txt", "Hello.").ended(2, "book.txt is a text file", "-f book.txt")
    assert Path("book.txt").read_text() == "A whole book."
    assert omnitts("say", *TOY, "-o", "book.txt", "-F", "wav", "Hello.").code == 0
    assert Path("book.txt").read_bytes()[:4] == b"RIFF"
    assert omnitts("say", *TOY, "-o", "book.txt", "Hello.").code == 0  # sound replaces sound
    Path("a.wav").write_bytes(b"mine")
    assert omnitts("say", *TOY, "-o", "a.wav", "--no-clobber", "Hello.").code == 3
    assert Path("a.wav").read_bytes() == b"mine"


# -- Ctrl-C


TWO = "This is the first sentence of two.\nThis is the second sentence of two."


@pytest.mark.parametrize("loudness", [(), ("--loudness", "-16")])
@pytest.mark.parametrize(("place", "name", "call", "said"), [
    (loading, "open_engine", 1, "; a.wav was not written"),
    (TTS, "open", 1, "; a.wav was not written"),
    (Stream, "poll", 1, "; a.wav was not written"),
    (FileSink, "sentence_done", 1, "; finished sentences are in a.partial.wav"),
    (sound_out, "report", 1, ""),  # it is written
])  # fmt: skip
def test_ctrl_c_says_what_was_written(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, call: int, said: str,
    loudness: tuple[str, ...],
) -> None:  # fmt: skip
    Path("a.wav").write_bytes(b"what was there before")
    interrupted_in(monkeypatch, place, name, call)
    done = omnitts("say", *TOY, *loudness, "--split", "line", "-o", "a.wav", TWO)
    assert done.code == 130 and done.err.splitlines()[-1] == f"interrupted{said}"
    assert (Path("a.wav").read_bytes()[:4] == b"what") == bool(said)
    assert sorted(os.listdir()) == (["a.partial.wav", "a.wav"] if "partial" in said else ["a.wav"])


@pytest.mark.parametrize("arguments", [("-o", "-"), ("-o", "/dev/null")])
def test_ctrl_c_says_nothing_of_places_that_are_written_at_once(
    omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    interrupted_in(monkeypatch, loading, "open_engine")
    done = omnitts("say", *TOY, *arguments, "Hello.")
    assert (done.code, done.err.splitlines()[-1]) == (130, "interrupted")


def test_ctrl_c_in_the_second_of_two_files_names_that_one(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("one.txt").write_text("One.")
    Path("two.txt").write_text("Two.")
    interrupted_in(monkeypatch, TTS, "open", 2)
    done = omnitts("say", *TOY, "-f", "one.txt", "-f", "two.txt", "-O", "out")
    assert (done.code, done.err.splitlines()[-1]) == (130, "interrupted; out/two.wav was not written")
    assert os.listdir("out") == ["one.wav"]


# -- text


def test_a_file_name_typed_as_words_is_spoken_with_a_warning(omnitts: Omnitts) -> None:
    Path("a.txt").write_text("Hello there.")
    done = omnitts("say", *TOY, "-o", "a.wav", "a.txt").ended(0, "a.txt is a file; only its name is spoken")
    assert "omnitts say -f a.txt" in done.err
    said = omnitts("say", *TOY, "--dry-run", "https://example.com/a").err
    assert "web address" in said and "curl -sL https://example.com/a | omnitts say --input-format html" in said
    assert "web address" not in omnitts("say", *TOY, "--dry-run", "See https://example.com/a").err
    assert "looks like SSML" in omnitts("say", *TOY, "--dry-run", "<speak>Hi.</speak>").err
    assert "SSML" not in omnitts("say", *TOY, "--dry-run", "--input-format", "ssml", "<speak>Hi.</speak>").err
    for words in (["b.txt"], ["Read", "a.txt"], ["x" * 300 + ".txt"]):  # no file, a sentence, not a possible name
        assert "is a file" not in omnitts("say", *TOY, "--dry-run", *words).err


def test_a_folder_that_does_not_exist_is_8(omnitts: Omnitts) -> None:
    done = omnitts("say", *TOY, "-o", "new/", "Hello.").ended(8, "cannot write new/: there is no such folder")
    assert "mkdir -p new/   and then   -o new/speech.wav" in done.err
    assert left_in(Path()) == []


# -- exit codes that need a model


def test_an_unknown_voice_is_4_with_the_nearest_name(omnitts: Omnitts) -> None:
    done = omnitts("say", *TOY, "-v", "anne", "-o", "a.wav", "Hello.").ended(4, "did you mean 'ann'?")
    assert "set in" not in done.err
    assert left_in(Path()) == []


def test_a_missing_preset_says_which_setting_names_it(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert omnitts("config", "set", "preset", "missing").code == 0
    omnitts("say", *TOY, "-o", "a.wav", "Hello.").ended(2, "preset 'missing' not found (set in ", "config.toml)")
    assert "'other' not found\n" in omnitts("say", *TOY, "--preset", "other", "-o", "a.wav", "Hello.").err
    monkeypatch.setenv("OMNITTS_PRESET", "none")
    assert "'none' not found (set in the environment)" in omnitts("say", *TOY, "-o", "a.wav", "Hello.").err


def test_a_missing_voice_or_model_says_what_names_it(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert omnitts("config", "set", "voice", "anne").code == 0
    omnitts("say", *TOY, "-o", "a.wav", "Hello.").ended(4, "voice 'anne' not found (set in ", "config.toml)")
    monkeypatch.setenv("OMNITTS_VOICE", "bea")
    assert "'bea' not found (set in the environment)" in omnitts("say", *TOY, "-o", "a.wav", "Hello.").err
    monkeypatch.setenv("OMNITTS_MODEL", "nowhere")
    assert "model 'nowhere' not found (set in the environment)" in omnitts("say", "-v", "ann", "Hello.").err
    monkeypatch.setenv("OMNITTS_MODEL", "random:toy")
    monkeypatch.setenv("OMNITTS_DEVICE", "cuda:77")
    assert "error: cuda:77" in omnitts("say", "-v", "ann", "Hello.").err


def test_a_device_is_checked_wherever_it_is_written(omnitts: Omnitts) -> None:
    """`gpu` is another word for cuda; what the settings file takes, the option takes."""
    assert omnitts("config", "set", "device", "gpu:77").code == 0
    assert omnitts("config", "get", "device").out == b"cuda:77\n"
    assert "error: cuda:77" in omnitts("say", *TOY[:2], "Hello.").err
    assert "error: cuda:77" in omnitts("say", *TOY[:2], "-d", "GPU:77", "Hello.").err
    for name in ("gpus", "tpu", "cuda:", "cpu:0"):
        assert omnitts("config", "set", "device", name).code == 2
        done = omnitts("say", *TOY[:2], "-d", name, "Hello.")
        assert done.code == 2 and f"--device '{name}' is not one of auto, cpu, cuda[:N] or npu[:N]" in done.err


def test_runaway_speech_is_7_and_finished_pieces_are_kept(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.speech import speaking

    def judge(self: Any, take: Any) -> None:
        take.stopped = "end" if take.number == 0 else "limit"
        take.request = speaking.replace(take.request, max_frames=None)
        plain(self, take)

    plain = speaking.Stream._judge
    monkeypatch.setattr(speaking.Stream, "_judge", judge)
    omnitts(
        "say", *TOY, "-b", "1", "--retries", "1", "-o", "a.wav", "Hello there, this is one. This is another one."
    ).ended(7, "sentence 2 kept talking", "2 tries", "a.partial.wav")
    assert left_in(Path()) == ["a.partial.wav"]


def test_an_internal_error_is_1_with_a_report(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnitts_cli.cli import job

    monkeypatch.setattr(job.Job, "script", lambda *_: 1 / 0)
    done = omnitts("say", "Hello.", "--json")
    assert done.code == 1 and done.json["code"] == "internal"
    report = Path(done.json["hint"].split()[-1])
    assert "ZeroDivisionError" in report.read_text()
    assert "Traceback" not in done.err


# -- D. output and files


@pytest.mark.parametrize("form", ["wav", "flac", "mp3", "ogg", "opus"])
def test_a_full_disk_is_8(omnitts: Omnitts, form: str) -> None:
    omnitts("say", *TOY, "-o", "/dev/full", "-F", form, "Hello there.").ended(8, "no space")


def test_a_closed_pipe_is_141(started: Started) -> None:
    process = started("say", *TOY, "-o", "-", "-q", "Hello there.")  # else a notice of the sentence may come first
    process.stdout.close()
    assert process.wait(LONG_S) == 141
    assert process.stderr.read() == b""


def test_a_fifo_is_written_in_place(started: Started) -> None:
    os.mkfifo("pipe.wav")
    reader = os.open("pipe.wav", os.O_RDONLY | os.O_NONBLOCK)  # it does not block if the command fails
    process = started("say", *TOY, "-o", "pipe.wav", "-q", "Hello there.")
    assert process.wait(LONG_S) == 0
    data = os.read(reader, 1 << 20)  # all of it fits into the buffer of a pipe
    os.close(reader)
    assert data[:4] == b"RIFF" and len(data) == 44 + 2 * 12 * 640
    assert int.from_bytes(data[40:44], "little") == 0x7FFFF000
    with wave.open(io.BytesIO(data)) as file:
        assert len(file.readframes(10**9)) == 2 * 12 * 640


def test_nothing_else_is_on_stdout(started: Started, home: Path) -> None:
    """A library that prints while it is imported, and every warning switched on."""
    (home / "loud").mkdir()
    (home / "loud" / "sitecustomize.py").write_text(
        "import sys, os\n"
        "class Loud:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('torch', 'soxr', 'safetensors'):\n"
        "            print('LOUD', name, flush=True)\n"
        "            os.system('echo LOUDER')\n"
        "sys.meta_path.insert(0, Loud())\n"
    )
    path = os.pathsep.join([str(home / "loud"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "always"}
    process = started("say", *TOY, "-o", "-", "--sample-rate", "16000", "Hello there.", env=environment, fresh=True)
    out, err = process.communicate(timeout=LONG_S)
    assert process.returncode == 0
    assert b"LOUD torch" in err and b"LOUDER" in err
    assert out[:4] == b"RIFF" and b"LOUD" not in out
    assert len(out) == 44 + 2 * 12 * 1280


def test_offline_opens_no_socket(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert omnitts("say", *TOY, "--offline", "-o", "a.wav", "Hello there.").code == 0


def test_a_home_that_cannot_be_written(started: Started, home: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("HOME", "HF_HOME")}
    process = started(
        "say", *TOY, "-o", "a.wav", "Hello there.", env={**environment, "HOME": "/proc/nowhere"}, fresh=True
    )
    assert process.wait(LONG_S) == 0


def test_a_locale_of_the_last_century(started: Started) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    process = started("say", *TOY, "-v", "anné", "-o", "a.wav", "Grüße", env=environment, fresh=True)
    _, err = process.communicate(timeout=LONG_S)
    assert process.returncode in (3, 4)  # where the locale knows no é, the text is no text either
    assert b"UnicodeEncodeError" not in err and b"Traceback" not in err


def test_no_time_at_all_is_no_division_by_zero(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    done = omnitts("say", *TOY, "-o", "a.wav", "--json", "Hello there.")
    assert done.code == 0 and done.json["rtf"] == 0.0


def test_no_terminal_at_all(started: Started) -> None:
    process = started("say", start_new_session=True)
    assert process.wait(LONG_S) == 3  # an empty stdin
    process = started("say", *TOY, "-o", "a.wav", "Hello.", stdin=None, close_fds=True, start_new_session=True)
    assert process.wait(LONG_S) == 0


def test_streams_line_by_line_from_an_open_pipe(started: Started) -> None:
    """The first line's sound is there before the second line is written, to the last sample."""
    process = started("say", *TOY, "-o", "-", "-F", "raw", "-q", stdin=subprocess.PIPE, fresh=True)
    process.stdin.write(b"Hello there, this is one.\n")
    process.stdin.flush()
    first = process.stdout.read(2 * 12 * 640)
    assert len(first) == 2 * 12 * 640
    process.stdin.write(b"This is another one.\n")
    process.stdin.close()
    process.stdin = None
    rest = process.stdout.read()
    assert process.wait(LONG_S) == 0
    assert len(rest) == 2 * (2000 + 12 * 640)


SPEED_PROBE = """
import sys
import torch
before = len(sys.modules)
from omnitts_cli.cli.app import run
code = run(sys.argv[1:])
heavy = {"transformers", "torch._dynamo", "sympy", "scipy", "rich", "sounddevice", "huggingface_hub"} & set(sys.modules)
print(len(sys.modules) - before, sorted(heavy))
sys.exit(code)
"""


def test_speaking_imports_little_beyond_torch(home: Path) -> None:
    """With a model in the released layout; it starts within a second of processor time."""
    call = ["say", "-m", str(checkpoint("custom_voice")), "-q", "-o", "a.wav", "--max-frames", "2", "Hello there."]
    done = subprocess.run([sys.executable, "-c", SPEED_PROBE, *call], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, _, heavy = done.stdout.partition(" ")
    assert heavy.strip() == "[]"
    assert int(count) < 262


def test_dry_run_shows_what_will_be_spoken(omnitts: Omnitts) -> None:
    from omnitts_cli.speech.speaking import estimated_s

    done = omnitts("say", "--dry-run", "--json", "Dr. Smith paid $42.50 on 3/4/2025.").json
    assert done["text"] == "Dr. Smith paid $42.50 on 3/4/2025."
    assert done["spoken"].startswith("Doctor Smith paid forty two dollars and fifty cents on March fourth")
    assert done["expected_s"] == pytest.approx(estimated_s(done["spoken"]), abs=0.01)
    plain = omnitts("say", "--dry-run", "-m", "random:toy", "--normalize", "It is 5 km.")
    assert b"five kilometers" in plain.out, "also where another model is asked to"
    assert b"5 km" in omnitts("say", "--dry-run", "-m", "random:toy", "It is 5 km.").out


def test_a_folder_takes_one_file_per_input(omnitts: Omnitts) -> None:
    for name, words in (("one.txt", "First text here."), ("two.md", "# Second one there.")):
        Path(name).write_text(words)
    Path("more").mkdir()
    Path("more/one.txt").write_text("Third text here.")
    done = omnitts("say", *TOY, "-f", "one.txt", "-f", "two.md", "-f", "more/one.txt", "-O", "out", "--json")
    assert [one["output"] for one in done.objects] == ["out/one.wav", "out/two.wav", "out/one-2.wav"]
    assert omnitts("say", *TOY, "-f", "two.md", "-o", "alone.wav").code == 0
    assert Path("alone.wav").read_bytes() == Path("out/two.wav").read_bytes(), "each as if it were alone"
    assert omnitts("say", *TOY, "Hello.", "-O", "out", "-o", "a.wav").code == 2
    assert omnitts("say", *TOY, "Hello.", "-O", "out", "--subs", "a.srt").code == 2
    assert len(omnitts("say", "--dry-run", "--json", "-f", "one.txt", "-f", "two.md", "-O", "none").objects) == 2
    assert not Path("none").exists()
    late = omnitts("say", *TOY, "-f", "one.txt", "-f", "nothing.txt", "-O", "late")
    assert late.code == 3 and "nothing.txt" in late.err and not Path("late").exists()  # before one.txt is spoken
    assert omnitts("say", *TOY, "Hello.", "-v", "nobody", "-O", "new/none").code == 4
    assert not Path("new").exists(), "an empty folder is not left behind"
    assert omnitts("say", *TOY, "Hello.", "-v", "nobody", "-O", "out").code == 4
    assert len(list(Path("out").iterdir())) == 3


def test_each_input_has_a_file_of_its_own(omnitts: Omnitts) -> None:
    """Also where an input has the name that another one gets, and on disks that do not tell Y from y."""
    names = ["x/a.txt", "y/a.txt", "a-2.txt", "z/A.txt"]
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("Hello.")
    inputs = [word for name in names for word in ("-f", name)]
    done = omnitts("say", *TOY, *inputs, "-O", "out", "--json")
    assert [Path(one["output"]).name for one in done.objects] == ["a.wav", "a-2.wav", "a-2-2.wav", "A-3.wav"]


def test_the_same_seed_is_the_same_speech_however_it_is_made(omnitts: Omnitts) -> None:
    """In a file, a pipe, any number of sentences together; twice. Within one 16-bit step."""
    text = "One sentence is here. Then comes another one. And here is the third of them."
    call = ("say", text, "--seed", "7", "--max-frames", "15", "--no-safe")
    made = []
    for number, more in enumerate((("-b", "4"), ("-b", "4"), ("-b", "1"), ("-b", "16"), (), ("-t", "2"))):
        assert omnitts(*call, *more, "-o", f"{number}.wav").code == 0
        made.append(soundfile.read(f"{number}.wav", dtype="int16")[0].astype(int))
    piped = np.frombuffer(omnitts(*call, "-o", "-", "-F", "raw").out, "<i2").astype(int)
    for other in (*made, piped):
        assert other.size == made[0].size and np.abs(other - made[0]).max() <= 1


@pytest.mark.parametrize("command", [
    ["say", "-f", "book.txt", "-o", "book.txt"], ["say", "-f", "book.txt", "-o", "./book.txt"],
    ["say", "-f", "book.txt", "-o", "link.txt"], ["say", "-f", "talk.srt", "-o", "a.wav", "--subs", "talk.srt"],
    ["say", "--lexicon", "words.tsv", "-o", "words.tsv", "Hello"],
    ["say", "-f", "book.md", "--chapters", "1", "-o", "book.md"],
    ["clone", "-r", "clip.wav", "-o", "clip.wav", "Hello"], ["codec", "encode", "clip.wav", "clip.wav"],
    ["codec", "decode", "codes.st", "codes.st"], ["codec", "decode", "codes.st", "-o", "codes.st"],
])  # fmt: skip
def test_no_input_is_overwritten(omnitts: Omnitts, command: list[str]) -> None:
    files = {name: f"# {name}\n\nA line.".encode() for name in ("book.txt", "book.md", "clip.wav", "codes.st")}
    files |= {"talk.srt": b"1\n00:00:01,000 --> 00:00:02,000\nHi.\n", "words.tsv": b"hello\thallo\n"}
    for name, data in files.items():
        Path(name).write_bytes(data)
    Path("link.txt").symlink_to("book.txt")
    omnitts(*command).ended(3, "would be overwritten, but it is read too")
    assert {name: Path(name).read_bytes() for name in files} == files


def test_settings_that_wait_for_their_use_refuse_nothing(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert omnitts("config", "set", "asr-model", "base").code == 0
    monkeypatch.setenv("OMNITTS_SUBS_BY", "words")
    done = omnitts("say", *TOY, "Hello", "-o", "a.wav")
    assert done.code == 0 and "no effect" not in done.err


# -- small wishes


def test_subtitles_on_stdout(omnitts: Omnitts) -> None:
    done = omnitts("say", *TOY, "--subs", "-", "-o", "a.wav", "Hello there.")
    assert done.code == 0 and done.out.startswith(b"1\n00:00:00,000 --> 00:00:0") and b"Hello there." in done.out
    named = omnitts("say", *TOY, "--subs", "-", "--no-play", "Hello there.")
    assert named.code == 0 and named.out == done.out, "the name of the file is not among them"


def test_an_unknown_word_of_a_description_is_named(omnitts: Omnitts) -> None:
    done = omnitts("design", "--max-frames", "6", "-o", "a.wav", "-i", "A deep, slow pirate from England", "Hello.")
    assert done.code == 0 and "'pirate'" in done.err and "'deep'" not in done.err and "'england'" not in done.err
    assert "understand" not in omnitts("design", *TOY, "-o", "a.wav", "-i", "an old pirate", "Hello.").err


needs_ffmpeg = pytest.mark.skipif(not (shutil.which("ffmpeg") and shutil.which("ffprobe")), reason="needs ffmpeg")


@needs_ffmpeg
@pytest.mark.parametrize(
    "options", [("-o", "a.m4a"), ("-F", "m4a", "--no-play"), ("-o", "a.m4a", "--sample-rate", "44100")]
)
def test_aac_by_suffix_or_by_name(omnitts: Omnitts, options: tuple[str, ...]) -> None:
    omnitts("say", *TOY, *options, "Hello there.").ended(0)
    (name,) = left_in(Path())
    (stream,) = probe(name)["streams"]
    assert (stream["codec_name"], stream["channels"]) == ("aac", 1) and name.endswith(".m4a")
    assert int(stream["sample_rate"]) == (44100 if "44100" in options else 8000)
    assert float(stream["duration"]) == pytest.approx(0.96, abs=0.3)


@needs_ffmpeg
def test_an_interrupted_m4a_keeps_its_sentences(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_in(monkeypatch, Sink, "sentence_done")
    done = omnitts("say", *TOY, "--split", "line", "-o", "a.m4a", TWO)
    assert done.code == 130 and "a.partial.m4a" in done.err and left_in(Path()) == ["a.partial.m4a"]
    assert probe("a.partial.m4a")["streams"][0]["codec_name"] == "aac"
