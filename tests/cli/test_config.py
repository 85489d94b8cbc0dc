"""omnitts config, and where a value comes from: typed, preset, environment, project, user, default."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command import Omnitts

from omnitts_cli.cli import config
from omnitts_cli.settings.file import all_names


def user_file(home: Path, text: str) -> Path:
    path = home / ".config" / "omnitts" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def value(omnitts: Omnitts, key: str) -> tuple[Any, str]:
    found = {one["key"]: one for one in omnitts("config", "show", "--json").objects}
    return found[key]["value"], found[key]["origin"]


def pieces(omnitts: Omnitts, *options: str) -> int:
    return len(omnitts("say", "--dry-run", "--json", *options, stdin=b"One line.\nTwo lines.\n").objects)


def test_the_order_of_origins(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert value(omnitts, "sentence-gap") == (250, "default")
    user = user_file(home, "sentence-gap = 1")
    assert value(omnitts, "sentence-gap") == (1, str(user))
    Path("omnitts.toml").write_text("sentence-gap = 2")
    assert value(omnitts, "sentence-gap") == (2, "omnitts.toml")
    monkeypatch.setenv("OMNITTS_SENTENCE_GAP", "3")
    assert value(omnitts, "sentence-gap") == (3, "environment")


def test_a_preset_goes_over_files_if_it_was_typed_and_under_them_if_a_file_named_it(
    omnitts: Omnitts, home: Path
) -> None:
    user_file(home, 'preset = "studio"\nsentence-gap = 1\n')
    shown = {one["key"]: one for one in omnitts("config", "show", "--json").objects}
    assert shown["sentence-gap"]["value"] == 1
    assert (shown["sample-rate"]["value"], shown["sample-rate"]["origin"]) == (48000, "preset studio")
    arguments = ("say", "-m", "random:toy", "--max-frames", "12", "-o", "a.wav", "--json", "Hello there.")
    assert omnitts(*arguments, "--preset", "fast").json["sample_rate"] == 8000


def test_typed_goes_over_everything(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_SPLIT", "none")
    assert pieces(omnitts) == 1
    assert pieces(omnitts, "--split", "line") == 2


def test_typed_words_go_over_a_file_that_was_not(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.txt").write_text("From a file.")
    user_file(home, 'file = ["a.txt"]\n')
    assert omnitts("say", "--dry-run", "--json").json["text"] == "From a file."
    assert omnitts("say", "--dry-run", "--json", "Typed.").json["text"] == "Typed."
    monkeypatch.setenv("OMNITTS_FILE", "a.txt")
    assert omnitts("say", "--dry-run", "--json", "Typed.").json["text"] == "Typed."
    both = omnitts("say", "--dry-run", "Typed.", "-f", "a.txt").out.decode()
    assert [line.split("\t")[2] for line in both.splitlines()] == ["Typed.", "From a file."]


def test_falsy_values_count_as_given(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file(home, "sentence-gap = 9\nno-clobber = true\n")
    monkeypatch.setenv("OMNITTS_SENTENCE_GAP", "0")
    monkeypatch.setenv("OMNITTS_NO_CLOBBER", "no")
    assert value(omnitts, "sentence-gap") == (0, "environment")
    assert value(omnitts, "no-clobber") == (False, "environment")


def test_a_negative_value_is_set_without_a_separator(omnitts: Omnitts) -> None:
    assert omnitts("config", "set", "volume", "-6").code == 0
    assert value(omnitts, "volume")[0] == -6
    assert "volume '--loud' is not a number" in omnitts("config", "set", "volume", "--loud").err
    assert omnitts("config", "set", "volume", "3", "--quite").code == 2


def test_a_table_is_for_its_command(omnitts: Omnitts, home: Path) -> None:
    user_file(home, 'split = "none"\n[say]\nsplit = "line"\n')
    assert pieces(omnitts) == 2
    assert value(omnitts, "split")[0] == "none"


def test_every_language_of_a_file_suits_every_command(omnitts: Omnitts, home: Path) -> None:
    """bench had a list of its own, without detect; files and presets knew codes only."""
    user_file(home, 'language = "detect"\n[presets.mine]\nlanguage = "English"\n')
    omnitts("bench", "-m", "random:toy", "-c", "1", "-n", "1", "--warmup", "0", "--frames", "2", "-d", "cpu").ended(0)
    checks = {one["name"]: one for one in omnitts("doctor", "--json", "--offline").json["checks"]}
    assert checks["settings"]["status"] == "ok", checks["settings"]
    assert omnitts("say", "--preset", "mine", "-o", "a.wav", "Hello", "--json").json["lang"] == "en"
    user_file(home, 'language = "English"\n')
    assert value(omnitts, "language")[0] == "en"


@pytest.mark.parametrize("former, name, given", [("lang", "language", "en"), ("batch-size", "slots", 2)])
def test_former_names_work_everywhere(
    omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch, former: str, name: str, given: str | int
) -> None:
    words = "say -m random:toy --max-frames 8 --lang en --instruct loud --batch-size 2 -o a.wav Hi."
    assert omnitts(*words.split()).code == 0
    variable = f"OMNITTS_{former.replace('-', '_').upper()}"
    monkeypatch.setenv(variable, str(given))
    assert "warning" not in omnitts("say", "--dry-run", "Hi.").err and value(omnitts, name)[0] == given
    monkeypatch.delenv(variable)
    line = f"{former} = {json.dumps(given)}\n"
    for text in (f'preset = "own"\n[presets.own]\n{line}', line):
        user_file(home, text)
        assert value(omnitts, name)[0] == given
    assert omnitts("config", "unset", former).code == 0 and value(omnitts, name)[0] == "auto"
    assert omnitts("config", "set", former, str(given)).code == 0 and value(omnitts, name)[0] == given


def test_a_voice_of_the_file_is_for_say_and_not_against_design(omnitts: Omnitts, home: Path) -> None:
    user_file(home, 'voice = "ben"\ninstruct = "loud"\n')
    toy = ("-m", "random:toy", "--max-frames", "12", "-o", "a.wav", "Hello there.")
    assert omnitts("say", *toy, "--json").json["voice"] == "ben"
    assert omnitts("design", "-i", "deep", *toy).code == 0
    assert omnitts("design", *toy).code == 2
    assert omnitts("design", "-v", "ben", "-i", "deep", *toy).code == 2


def test_presets_of_the_user(omnitts: Omnitts, home: Path) -> None:
    user_file(home, '[presets.mine]\nsplit = "none"\n')
    assert pieces(omnitts, "--preset", "mine") == 1
    omnitts("say", "--dry-run", "--preset", "stduio", "Hello").ended(2, "studio")
    assert "mine, studio" in omnitts("say", "--dry-run", "--preset", "nothing", "Hello").err
    assert "'mine'?" in omnitts("say", "--dry-run", "--preset", "mnie", "Hello").err


@pytest.mark.parametrize(("text", "words"), [
    ("a = 1\nsentense-gap = 3", ["line 2", "sentence-gap"]), ("sentence-gap = 'x'", ["line 1", "whole number"]),
    ("speed = true", ["line 1", "number"]), ("no-clobber = 1", ["line 1"]), ("speed = 1\nspeed = 2", ["config.toml"]),
    ("[presets.mine]\nsped = 1", ["preset mine", "speed"]),
    ("[presets.mine]\noutput = 'a.wav'", ["preset mine", "'output' cannot be set in a preset", "above the tables"]),
    ("[presets]\nspeed = 1", ["[presets.speed]"]), ("[said]\nspeed = 1", ["said"]), ("speed = nan", ["line 1"]),
])  # fmt: skip
def test_what_is_wrong_in_a_file_is_3_with_its_place(omnitts: Omnitts, home: Path, text: str, words: list[str]) -> None:
    user_file(home, text)
    done = omnitts("say", "--dry-run", "Hello")
    if "a = 1" in text:
        words = ["line 1", "'a'"]
    assert done.code == 3, done.err
    assert all(word in done.err for word in words), done.err


def test_a_settings_file_that_was_named_must_be_there(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNITTS_CONFIG", "nowhere.toml")
    assert omnitts("say", "--dry-run", "Hello").code == 3
    monkeypatch.setenv("OMNITTS_CONFIG", ".")
    assert "is a folder" in omnitts("say", "--dry-run", "Hello").err
    monkeypatch.setenv("OMNITTS_CONFIG", os.devnull)
    assert omnitts("say", "--dry-run", "Hello").code == 0
    assert f"\nread: {os.devnull}" in "\n" + omnitts("config", "show", "--origin").err
    omnitts("config", "set", "sentence-gap", "300").ended(3, "is not a regular file")
    assert not Path(os.devnull).is_file()
    Path("only.toml").write_text("sentence-gap = 7")
    monkeypatch.setenv("OMNITTS_CONFIG", "only.toml")
    assert value(omnitts, "sentence-gap") == (7, "only.toml")


def test_set_and_unset(omnitts: Omnitts, home: Path) -> None:
    path = user_file(home, '# mine\n[say]\nsplit = "line"\n')
    wrong = omnitts("config", "set", "sentence-gap", "long").err
    assert "error: sentence-gap 'long' is not" in wrong and "try: omnitts config set sentence-gap 250\n" in wrong
    assert omnitts("config", "set", "sentence-gap", "300").code == 0
    assert omnitts("config", "set", "voice", "Ännchen").code == 0
    assert value(omnitts, "sentence-gap")[0] == 300
    assert omnitts("config", "set", "sentence-gap", "400").code == 0
    assert value(omnitts, "sentence-gap")[0] == 400
    assert "# mine\n[say]" in path.read_text() and 'voice = "Ännchen"' in path.read_text()
    assert omnitts("config", "unset", "sentence-gap").code == 0
    assert value(omnitts, "sentence-gap")[1] == "default"
    assert omnitts("config", "set", "lexicon", "a,b").code == 0 and value(omnitts, "lexicon")[0] == ["a", "b"]
    omnitts("config", "set", "voice", "henri").ended(0, "no voice 'henri' is saved", "config set voice henry")
    assert "warning" not in omnitts("config", "set", "voice", "henry").err


def test_set_and_unset_leave_tables_and_presets_alone(omnitts: Omnitts, home: Path) -> None:
    tables = '[say]\nvoice = "ann"\n[presets.mine]\nspeed = 1.5\n'
    path = user_file(home, f'"voice" = "ben"\n{tables}')
    assert omnitts("config", "set", "voice", "eric").code == omnitts("config", "set", "speed", "1.1").code == 0
    assert path.read_text() == f'voice = "eric"\nspeed = 1.1\n{tables}'
    assert omnitts("config", "unset", "voice").code == omnitts("config", "unset", "speed").code == 0
    assert path.read_text() == tables


def test_set_warns_of_what_overrides_it(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "warning" not in omnitts("config", "set", "speed", "1.1").err
    Path("omnitts.toml").write_text("speed = 1.2")
    assert "warning: speed is still 1.2, from omnitts.toml" in omnitts("config", "set", "speed", "1.3").err
    monkeypatch.setenv("OMNITTS_SPEED", "1.4")
    assert "warning: speed is still 1.4, from environment" in omnitts("config", "unset", "speed").err


def test_a_value_over_several_lines_is_one_value(omnitts: Omnitts, home: Path) -> None:
    text = 'style = """\nslowly,\nvoice = b"""\nlexicon = [\n "a",\n]\n'
    path = user_file(home, text)
    assert omnitts("config", "set", "voice", "leo").code == 0
    assert path.read_text() == f'{text}voice = "leo"\n'
    assert omnitts("config", "set", "style", "one\ntwo").code == omnitts("config", "unset", "lexicon").code == 0
    assert value(omnitts, "style") == ("one\ntwo", str(path))
    assert path.read_text() == 'style = "one\\ntwo"\nvoice = "leo"\n'


def test_what_a_file_cannot_hold(omnitts: Omnitts, home: Path) -> None:
    assert omnitts("config", "set", "style", "a\x7fb\x01").code == 0
    assert value(omnitts, "style")[0] == "a\x7fb\x01"
    done = omnitts("config", "set", "voice", "\udcff.voice")  # a file name that is no text
    assert done.code == 2 and "UTF-8" in done.err and value(omnitts, "voice")[1] == "default"


def test_options_of_bench_stand_in_its_table(omnitts: Omnitts, home: Path) -> None:
    user_file(home, '[bench]\nconcurrency = [2]\nrequests = 2\nwarmup = 0\nframes = 4\nvs = "nobuckets"\n')
    levels = omnitts("bench", "-m", "random:toy", "-d", "cpu", "--json").json["levels"]
    assert [(one["concurrency"], one["requests"], one["variant"]) for one in levels] == [
        (2, 2, None),
        (2, 2, "nobuckets"),
    ]
    user_file(home, "[bench]\nconcurrency = [0]\n")
    assert omnitts("bench", "-m", "random:toy").code == 3


def test_paths_and_secrets(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    done = omnitts("config", "path")
    assert done.out.count(b"\n") == 1 and done.out.endswith(b"/config.toml\n")  # an editor can be given that
    assert done.err == "", '$EDITOR "$(omnitts config path)" shows nothing else'
    assert len(omnitts("config", "path", "--json").objects) == 3
    monkeypatch.setenv("OMNITTS_CONFIG", "only.toml")
    Path("only.toml").touch()
    assert omnitts("config", "path").out == b"only.toml\n"
    monkeypatch.delenv("OMNITTS_CONFIG")
    monkeypatch.setenv("HF_TOKEN", "hf_abc123")
    out = omnitts("config", "show").out
    assert b"HF_TOKEN\t(set)" in out and b"abc123" not in out


def test_json_errors_have_file_and_line(omnitts: Omnitts) -> None:
    Path("omnitts.toml").write_text("speed = 1.0\nspeeed = 2\n")
    assert omnitts("say", "--json", "Hello.").json["where"] == {"file": "omnitts.toml", "line": 2}
    Path("omnitts.toml").unlink()
    Path("words").write_text("a\tb\nno tab\n")
    done = omnitts("say", "--json", "--lexicon", "words", "Hello.")
    assert done.code == 3 and done.json["where"] == {"file": "words", "line": 2}


@pytest.mark.parametrize(("line", "key"), [
    ('output = "../../hijack.wav"', "output"), ('subs = "x.srt"', "subs"), ('codes = "x"', "codes"),
    ('model = "hf:someone/model"', "model"), ('lexicon = ["/etc/passwd"]', "lexicon"),
    ('file = ["/etc/passwd"]', "file"), ("play = true", "play"), ('device = "cuda"', "device"),
    ('audio-device = "2"', "audio-device"), ("offline = false", "offline"), ('[say]\noutput = "x.wav"', "output"),
    ('[clone]\nref-audio = ["x.wav"]', "ref-audio"), ('[design]\noutput-dir = "x"', "output-dir"),
    ('[bench]\nurl = "http://127.0.0.1:1"', "url"), ('[bench]\nsave = "x.json"', "save"),
    ('[presets.fast]\nmodel = "hf:someone/model"', "model"), ('voice = "x.voice"', "voice"),
    ('voice = "../x.voice"', "voice"), ("batch-size = 2", "batch-size"),
])  # fmt: skip
def test_a_project_file_never_says_what_is_read_written_or_fetched(omnitts: Omnitts, line: str, key: str) -> None:
    Path("omnitts.toml").write_text(f"speed = 1.1\n{line}\n")
    done = omnitts("say", "--dry-run", "hi").ended(3, f"a project file may not set '{key}'")
    assert "omnitts.toml line" in done.err and "OMNITTS_CONFIG=omnitts.toml" in done.err
    assert not Path("../../hijack.wav").exists()


def test_a_project_file_sets_how_speech_sounds(omnitts: Omnitts, home: Path) -> None:
    user_file(home, '[presets.mine]\nmodel = "random:toy"\n')
    taste = 'voice = "ben"\nspeed = 1.5\nlanguage = "en"\nseed = 3\npreset = "mine"\nsplit = "line"\n'
    Path("omnitts.toml").write_text(f"{taste}[presets.p]\nspeed = 2.0\n")
    for key, wanted in (("voice", "ben"), ("speed", 1.5), ("language", "en"), ("seed", 3), ("preset", "mine")):
        assert value(omnitts, key) == (wanted, "omnitts.toml")
    assert pieces(omnitts) == 2


def test_a_file_named_by_the_user_may_set_everything(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("omnitts.toml").write_text('output = "x.wav"')
    monkeypatch.setenv("OMNITTS_CONFIG", "omnitts.toml")
    assert value(omnitts, "output") == ("x.wav", "omnitts.toml")


def test_show_origin_says_which_files_count(omnitts: Omnitts, home: Path) -> None:
    path = user_file(home, "speed = 1.1")
    Path("omnitts.toml").write_text("speed = 1.2")
    err = omnitts("config", "show", "--origin").err
    assert "read: omnitts.toml   (project file: may set how speech sounds" in err
    assert f"read: {path}\n" in err and "not found: /" in err


BROKEN = ("voise = 'kurt'", "speed = 'fast'", "[presets.mine]\nsped = 1", "speed = = 1")


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_file_does_not_lock_out_what_mends_it(omnitts: Omnitts, home: Path, text: str) -> None:
    path = user_file(home, f"{text}\n")
    assert omnitts("say", "--dry-run", "hi").code == 3, "speaking is refused"
    assert omnitts("config", "path").out == f"{path}\n".encode()
    for command in (("config", "path"), ("config", "show"), ("config", "get", "voice"), ("voices", "list")):
        assert omnitts(*command).code == 0, command
    assert "its settings are ignored" in omnitts("config", "show").err
    if "= =" in text:
        for command in (("set", "voice", "leo"), ("unset", "voice")):
            omnitts("config", *command).ended(3, "omnitts config edit")
        path.rename("omnitts.toml")
        done = omnitts("say", "--dry-run", "hi")
        assert done.code == 3 and "try: correct omnitts.toml" in done.err and "config edit" not in done.err
        Path("omnitts.toml").rename(path)
    (check,) = [one for one in omnitts("doctor", "--offline", "--json").json["checks"] if one["name"] == "settings"]
    assert check["status"] == "fail" and str(path) in str(check)


def test_a_wrong_key_is_removed_by_its_name(omnitts: Omnitts, home: Path) -> None:
    path = user_file(home, 'voise = "kurt"\nspeed = "fast"\nretries = 1\n')
    assert omnitts("config", "unset", "voise").code == 0
    assert omnitts("config", "unset", "speed").code == 0
    assert path.read_text() == "retries = 1\n"
    assert omnitts("say", "--dry-run", "hi").code == 0
    assert omnitts("config", "unset", "voise").code == 2, "it is neither there nor a setting"


def test_a_preset_sets_a_voice(omnitts: Omnitts, home: Path) -> None:
    user_file(home, '[presets.narrator]\nvoice = "ben"\nspeed = 0.9\n')
    toy = ("-m", "random:toy", "--max-frames", "12", "-o", "a.wav", "Hello there.", "--json")
    assert omnitts("say", "--preset", "narrator", *toy).json["voice"] == "ben"
    assert omnitts("say", "--preset", "narrator", "-v", "ann", *toy).json["voice"] == "ann"
    assert omnitts("design", "--preset", "narrator", "-i", "deep", *toy).code == 0, "a voice is not against design"


def test_get_and_edit(omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert omnitts("config", "get", "voice").out == b"henry\n"
    assert omnitts("config", "get", "model").out == b"tiny\n"
    path = user_file(home, "sentence-gap = 7\n")
    assert omnitts("config", "get", "sentence-gap").out == b"7\n"
    assert omnitts("config", "get", "sentense-gap").code == 2
    editor = home / "editor"
    editor.write_text("#!/bin/sh\necho 'speed = 1.5' >> \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)
    assert omnitts("config", "edit").code == 0 and path.read_text() == "sentence-gap = 7\nspeed = 1.5\n"
    done = omnitts("config", "edit")
    assert done.code == 3 and "Cannot overwrite" in done.err, "the key is there twice now"
    monkeypatch.setenv("EDITOR", "no-such-editor")
    assert omnitts("config", "edit").code == 2
    monkeypatch.delenv("EDITOR")
    assert "EDITOR=nano" in omnitts("config", "edit").err


def test_show_is_short_and_says_who_speaks(omnitts: Omnitts, home: Path) -> None:
    user_file(home, "speed = 1.5\n")
    values = {one["key"]: one["value"] for one in map(json.loads, omnitts("config", "show", "--json").out.splitlines())}
    assert (values["model"], values["voice"]) == ("tiny", "henry")
    lines = omnitts("config", "show").out.decode().splitlines()
    assert {"model\ttiny (default)", "voice\thenry (default)", "speed\t1.5"} <= set(lines) and len(lines) < 12
    assert any(line.startswith("chunk\t") for line in omnitts("config", "show", "--all").out.decode().splitlines())
    omnitts("config", "set", "voice", "clara")
    assert b"voice\tclara\n" in omnitts("config", "show").out


@pytest.mark.parametrize(("call", "folder", "hint"), [
    (("config", "set", "speed", "1.1"), ".config", "XDG_CONFIG_HOME=DIR"),
    (("say", "-f", "a.md", "-o", "a.opus", "-m", "random:toy"), ".cache", "--work DIR"),
    (("say", "Hello.", "-O", "file/out", "-m", "random:toy"), "file", "choose another folder"),
])  # fmt: skip
def test_a_folder_that_cannot_be_made_has_a_next_step(
    omnitts: Omnitts, home: Path, call: tuple[str, ...], folder: str, hint: str
) -> None:
    Path("a.md").write_text("# One\n\nHello.\n")
    Path("file").write_text("not a folder")
    for name in (".config", ".cache"):
        (home / name).write_text("not a folder")
    omnitts(*call).ended(8, "cannot make the folder", folder, "a part of its path is not a folder", hint)


@pytest.mark.parametrize(("name", "tables"), [
    ("port", "[serve]"), ("tries", "[batch]"), ("ref-audio", "[clone], [voices] or [bench]"),
    ("save-codes", "[batch]"),
])  # fmt: skip
def test_settings_of_single_commands_are_set_in_their_tables(omnitts: Omnitts, name: str, tables: str) -> None:
    done = omnitts("config", "set", name, "3").ended(2, f"'{name}' is not a setting of all commands")
    assert done.err.rstrip().endswith(f"write it below {tables}"), done.err


def test_every_setting_of_single_commands_has_a_table() -> None:
    shared = {name for field in config.all_fields() for name in (field.key, field.former_key)}
    assert [name for name in all_names() if name not in shared and not config.sections_with(name)] == []


def test_a_device_that_is_not_supported_is_an_error_with_its_place(
    omnitts: Omnitts, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak = ("say", "Hello.", "-o", "a.wav", "-m", "random:toy")
    path = home / "mine.toml"
    monkeypatch.setenv("OMNITTS_CONFIG", str(path))
    path.write_text('speed = 1.0\ndevice = "mps"\n')
    omnitts(*speak).ended(3, f"{path} line 2: device = 'mps' is not one of auto")
    path.write_text('[presets.mac]\ndevice = "mps"\n')
    omnitts(*speak, "--preset", "mac").ended(3, f"{path}, preset mac: device = 'mps' is not one of")
    path.write_text("")
    monkeypatch.setenv("OMNITTS_DEVICE", "MPS")
    omnitts(*speak).ended(5, "OMNITTS_DEVICE 'MPS' is not supported by this version", "OMNITTS_DEVICE=cpu")
    monkeypatch.delenv("OMNITTS_DEVICE")
    omnitts(*speak, "-d", "mps").ended(5, "--device 'mps' is not supported by this version")
    omnitts("config", "set", "device", "mps").ended(5, "device 'mps' is not supported", "set device cpu")
