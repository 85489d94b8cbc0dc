"""omnitts voices, clone and design: making, keeping, moving and blending voices."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import tune_kit
from command import Omnitts
from sounds import speech
from tune_kit import Golden

from omnitts_cli.speech import voice_files
from omnitts_cli.speech.voice_files import SavedVoice
from omnitts_cli.voices import Cloned

TOY = ["-m", "random:toy", "--max-frames", "12", "--seed", "5"]


@pytest.fixture
def clip(home: Path) -> str:
    """Four seconds of something like a voice."""
    soundfile.write(home / "clip.wav", speech(4.0), 24_000)
    return str(home / "clip.wav")


def saved(name: str, *, model: str = "random:toy", width: int = 32, value: float = 1.0) -> SavedVoice:
    voice = SavedVoice(name, Cloned(np.full(width, value, np.float32)), {"model": model})
    voice_files.save(voice)
    return voice


def test_clone_speaks_and_keeps_the_voice(omnitts: Omnitts, clip: str) -> None:
    done = omnitts("clone", *TOY, "-r", clip, "Hello there.", "-o", "a.wav", "--save-voice", "me", "--consent", "I did")
    assert done.code == 0, done.err
    shown = omnitts("voices", "show", "me", "--json").json
    assert shown["consent"] == "I did" and shown["model"] == "random:toy"
    assert omnitts("say", "-v", "me", *TOY[2:], "Hello again.", "-o", "b.wav").code == 0  # it brings its model along
    assert omnitts("clone", *TOY, "-r", clip, "Hello.", "-o", "c.wav", "--save-voice", "me").code == 3


def test_silence_behind_the_clip_only_when_asked(omnitts: Omnitts, clip: str) -> None:
    save = ["voices", "save", "-m", "random:toy", "-r", clip, "--ref-text", "This is what the clip says, more or less."]
    assert omnitts(*save, "me").code == omnitts(*save, "you", "--ref-pad", "0.5").code == 0
    lengths = [len(voice_files.load(name).voice.codes) for name in ("me", "you")]  # type: ignore[arg-type]
    assert lengths == [50, 57]


def test_several_clips_are_one_voice(omnitts: Omnitts, clip: str) -> None:
    twice = ["-r", clip, "-r", clip]
    texts = [
        "--ref-text", "This is what the clip says, more or less.", "--ref-text", "This is what the other one says.",
    ]  # fmt: skip
    omnitts("voices", "save", "me", "-m", "random:toy", *twice, *texts).ended(0)
    voice = voice_files.load("me").voice
    assert voice.transcript == f"{texts[1]} {texts[3]}"
    assert voice.codes is not None and len(voice.codes) == 103  # 4 s, a breath and 4 s
    three = [*texts, "--ref-text", "One too many."]
    for wrong in ([*twice, *three], [*twice, "--ref-start", "1"], ["-r", "-", "-r", "-"]):
        assert omnitts("voices", "save", "you", "-m", "random:toy", *wrong).code == 2


def test_a_clip_on_stdin(omnitts: Omnitts, clip: str) -> None:
    data = Path(clip).read_bytes()
    assert omnitts("clone", *TOY, "-r", "-", "-o", "a.wav", "Hello there.", stdin=data).code == 0


def test_an_empty_clip_and_a_short_one_say_what_to_record(omnitts: Omnitts, tmp_path: Path) -> None:
    empty, short = tmp_path / "empty.wav", tmp_path / "short.wav"
    empty.touch()
    soundfile.write(short, np.zeros(2400, np.float32), 24_000)
    for path in (empty, short):
        omnitts("clone", *TOY, "-r", str(path), "Hello.").ended(3, "record 3 to 30 s of one speaker")


def test_design_needs_a_description_which_may_be_empty(omnitts: Omnitts) -> None:
    assert omnitts("design", *TOY, "-o", "a.wav", "Hello.").code == 2
    assert omnitts("design", *TOY, "-o", "a.wav", "-i", "", "Hello there.").code == 0
    assert omnitts("design", *TOY, "-o", "b.wav", "-i", "deep and slow", "Hello there.").code == 0


def test_design_makes_takes_with_their_seeds(omnitts: Omnitts) -> None:
    call = ("design", *TOY, "-i", "deep", "--candidates", "3", "-O", "takes", "Hello there.")
    missing = ("-m", "hf:nobody/nothing", "--offline")
    assert omnitts("design", *missing, "-i", "deep", "-O", "takes", "Hello.").code == 4 and not Path("takes").exists()
    done = omnitts(*call, "--json").ended(0)
    assert [one["seed"] for one in done.objects] == [5, 6, 7]
    assert sorted(path.name for path in Path("takes").iterdir()) == ["take-1.wav", "take-2.wav", "take-3.wav"]
    first = Path("takes/take-1.wav").read_bytes()
    assert omnitts(*call).out.decode().split() == [f"takes/take-{n}.wav" for n in (4, 5, 6)]
    assert Path("takes/take-1.wav").read_bytes() == first, "a take that one liked is still there"
    assert Path("takes/take-1.wav").read_bytes() != Path("takes/take-2.wav").read_bytes()
    assert omnitts("design", *TOY, "-i", "deep", "--candidates", "3", "Hello.").code == 2


def test_design_keeps_a_voice(omnitts: Omnitts) -> None:
    call = ("design", *TOY, "-i", "deep", "Hello there.", "--save-voice", "deep")
    assert omnitts(*call).code == 2
    assert omnitts(*call, "-o", "a.wav").code == 0
    done = omnitts(*call[:-1], "deep2", "-o", "a.wav")
    assert done.code == 0 and "--ref-text" not in done.err, "an option that design has not"
    assert voice_files.load("deep").voice.embedding.size == 32
    assert voice_files.load("deep").about["source"] == "design: deep", "the description is kept"


def test_a_dry_run_of_design_makes_nothing(omnitts: Omnitts) -> None:
    call = ("design", *TOY, "-i", "deep", "--dry-run", "Hello there.")
    assert omnitts(*call, "-o", "a.wav", "--save-voice", "deep").code == 0
    assert omnitts(*call, "--candidates", "2", "-O", "takes").code == 0
    assert list(Path().iterdir()) == [] and voice_files.names() == []


def test_save_and_preview_take_the_voice_from_their_argument_only(omnitts: Omnitts) -> None:
    for command, option in (("save", b"--save-voice"), ("preview", b"--voice")):
        assert option not in omnitts("voices", command, "--help-all").out


def test_list_shows_saved_voices_for_people_and_programs(omnitts: Omnitts, no_model: None) -> None:
    assert "no voices yet" in omnitts("voices", "list").err
    saved("anna")
    assert omnitts("voices", "list").out.decode().split("\t")[:2] == ["anna", "saved"]
    assert [voice["name"] for voice in omnitts("voices", "list", "--json").objects] == ["anna"]
    (voice_files.folder() / "broken.voice").write_bytes(b"no voice")
    assert b"broken\tdamaged" in omnitts("voices", "list").out


def test_list_of_a_language(omnitts: Omnitts, landed: Path) -> None:
    done = omnitts("voices", "list", "-l", "de")
    assert done.code == 0 and not done.out and "no voice of tiny speaks German" in done.err
    lists = [omnitts("voices", "list", option, "english").out for option in ("-l", "--language", "--lang")]
    assert lists[0].startswith(b"henry\t") and len(set(lists)) == 1
    done = omnitts("voices", "list", "-l", "detect")
    assert done.code == 2 and "detect," not in done.err
    saved("anna")  # whatever its model speaks
    saved("ben", model="tiny")  # which speaks English only
    assert [voice["name"] for voice in omnitts("voices", "list", "-l", "de", "--json").objects] == ["anna"]
    english = [voice["name"] for voice in omnitts("voices", "list", "-l", "en", "--json").objects]
    assert english == ["anna", "ben", "henry", "clara"]


def test_preview_speaks(omnitts: Omnitts) -> None:
    saved("anna")
    for name in ("anna", "ben"):
        assert omnitts("voices", "preview", name, *TOY, "-o", f"{name}.wav").code == 0
    assert soundfile.info("ben.wav").frames == 12 * 640
    assert omnitts("voices", "preview", "ben", "-v", "ann", *TOY, "-o", "no.wav").code == 2


def test_export_import_rm(omnitts: Omnitts) -> None:
    saved("anna")
    assert omnitts("voices", "export", "anna", "anna.voice").code == 0
    assert omnitts("voices", "export", "anna", "anna.voice").code == 3  # it is there now
    assert omnitts("voices", "export", "anna", "anna.wav").code == 2
    assert omnitts("voices", "import", "anna.voice").code == 3
    assert omnitts("voices", "import", "anna.voice", "--name", "hanna").code == 0
    assert omnitts("voices", "rm", "anna").code == 0
    assert voice_files.names() == ["hanna"]
    assert omnitts("voices", "rm", "anna").code == 4
    assert omnitts("say", *TOY, "-v", "anna.voice", "-o", "a.wav", "Hello there.").code == 0


def test_blend(omnitts: Omnitts) -> None:
    saved("a", value=1.0)
    saved("b", value=2.0)
    assert omnitts("voices", "blend", "c", "a:60", "b:40").code == 0
    assert voice_files.load("c").voice.embedding == pytest.approx(1.4)
    assert omnitts("say", *TOY, "-v", "a:60,b:40", "-o", "a.wav", "Hello there.").code == 0
    assert omnitts("voices", "blend", "d", "a", "b").code == omnitts("voices", "blend", "e", "a:7", "b:7").code == 0
    assert voice_files.load("d").voice.embedding == pytest.approx(1.5) == voice_files.load("e").voice.embedding


REFUSED = [
    ("clone Hello", 2, ["clone needs a reference clip"]),
    ("clone CLIP Hello.", 2, ["omnitts clone -r CLIP Hello."]),
    ("clone CLIP", 2, ['omnitts clone -r CLIP "text"']),
    ("clone -m random:toy -r nowhere.wav Hello", 3, ["nowhere.wav"]),
    ("clone -m random:toy -r CLIP --ref-text ' ' Hello", 3, []),
    ("clone -m random:toy -r CLIP -v ann Hello", 2, []),
    ("clone -m random:toy -r - -f -", 2, []),
    ("clone -m random:toy -r CLIP --ref-text @nowhere Hello", 3, ["nowhere"]),
    ("clone -m random:toy -r CLIP --ref-start 3 --ref-end 2 Hello", 3, []),
    ("clone -m random:toy -r CLIP --save-voice ../me -o a.wav Hello", 2, ["../me"]),
    ("clone -m random:toy -r CLIP -o a.wav --consent yes Hello", 2, ["--consent has no effect without --save-voice"]),
    ("voices save me --save-voice you -m random:toy -r CLIP", 2, ["--save-voice"]),
    ("voices save clara -r CLIP", 2, ["tiny has a voice 'clara'"]),
    ("voices list -m hf:someone/model", 4, ["'hf:someone/model' is not on this machine\n",
                                           "omnitts models pull hf:someone/model"]),
    ("voices export a HOME", 2, ["omnitts voices export a HOME/a.voice"]),
    ("voices renew far", 3, ["voices save far"]),
    ("voices import CLIP", 3, ["CLIP is a recording, not a voice file", "omnitts voices save NAME -r CLIP"]),
    ("say -m random:toy -v CLIP Hello. -o a.wav", 4, ["omnitts clone -r CLIP"]),
    ("say -m random:toy -v far Hello. -o a.wav", 4, ["1.7b-base"]),
    ("say -v a:1,ann:1 Hello.", 4, ["voice 'ann' not found", "omnitts voices list"]),
    ("voices blend c a:1 ann:1", 4, ["voice 'ann' not found", "omnitts voices list"]),
    ("voices blend e a b:7", 2, ["try: omnitts voices blend e a:50 b:50\n"]),
    *((f"voices blend c {parts}", None, []) for parts in ("a:0 b:1", "a:nan b:1", "a:1", "a:1 far:1")),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "code", "words"), REFUSED, ids=[typed for typed, *_ in REFUSED])
def test_what_is_refused(
    omnitts: Omnitts, home: Path, clip: str, typed: str, code: int | None, words: list[str]
) -> None:
    saved("a")
    saved("b")
    saved("far", model="1.7b-base", width=16)

    def filled(text: str) -> str:
        return text.replace("CLIP", clip).replace("HOME", str(home))

    done = omnitts(*shlex.split(filled(typed)))
    assert done.code in ((code,) if code else (2, 3)), done.err
    assert all(filled(one) in done.err for one in words) and "offline" not in done.err, done.err
    assert list(Path().iterdir()) == [] and voice_files.names() == ["a", "b", "far"]


def test_no_way_to_save_a_voice_hides_one_of_the_model_unless_forced(omnitts: Omnitts, clip: str) -> None:
    saved("a")
    saved("b")
    omnitts("voices", "export", "a", "a.voice")
    for name, arguments in {
        "emily": ["blend", "emily", "a:1", "b:2"],
        "hugh": ["import", "a.voice", "--name", "hugh"],
        "clara": ["rename", "a", "clara"],
        "henry": ["save", "henry", "-m", "random:toy", "-r", clip],
    }.items():
        done = omnitts("voices", *arguments)
        assert done.code == 2 and f"tiny has a voice '{name}'" in done.err and name not in voice_files.names()
        assert omnitts("voices", *arguments, "--force").code == 0 and name in voice_files.names()
    assert omnitts("voices", "rename", "b", "c").code == 0


def test_a_voice_of_another_version_is_refused_and_renewed(omnitts: Omnitts, clip: str) -> None:
    short = ["--max-frames", "6", "--seed", "5"]
    assert omnitts("voices", "save", "me", "-r", clip, "--consent", "I did").code == 0
    first = voice_files.load("me")
    assert first.clip and first.about["model"] == "tiny"
    shown = omnitts("voices", "show", "me", "--json").json
    assert shown["consent"] == "I did" and shown["frames"] == 0
    old = replace(first, voice=Cloned(first.voice.embedding + 1), about={**first.about, "revision": "0" * 64})
    narrow = replace(old, voice=Cloned(first.voice.embedding[:256]))  # of a version with other widths
    for made in (narrow, old):
        voice_files.save(made, replace=True)
        omnitts("say", "-v", "me", *short, "-o", "a.wav", "Hello there.").ended(4, "voices renew me")
    voice_files.save(replace(first, name="new"))
    assert omnitts("voices", "blend", "mix", "me:1", "new:1").code == 3
    assert omnitts("voices", "renew", "me").code == 0
    again = voice_files.load("me")
    assert again.about == first.about and again.clip == first.clip
    assert np.allclose(again.voice.embedding, first.voice.embedding, atol=0.05)  # the clip is kept in 16 bits
    assert omnitts("say", "-v", "me", *short, "-o", "a.wav", "Hello there.").code == 0


NAMES = [
    "../../etc/passwd", "/abs", "a/b", "..", ".hidden", "con", "NUL", "x\0y", "n" * 300, "аnna", "-rf", "", "a b", "A",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_never_a_path(omnitts: Omnitts, home: Path, name: str) -> None:
    before = sorted(str(path) for path in home.rglob("*") if path.name != "stdin")
    for command in (["rm", "-y"], ["show"]):
        done = omnitts("voices", *command, "--", name)
        assert done.code == 2, (command, name, done.err)
    assert sorted(str(path) for path in home.rglob("*") if path.name != "stdin") == before


def test_drawn_seeds_are_printed(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = tuple(word for word in TOY if word not in ("--seed", "5"))
    takes = omnitts("design", *toy, "-i", "deep", "--candidates", "2", "-O", "takes", "Hello there.")
    assert takes.err.count("  seed ") == 2
    assert "  seed " not in omnitts("say", *toy, "-o", "a.wav", "Hello there.").err, "nobody is looking"
    monkeypatch.setattr("omnitts_cli.terminal.console.Console.on_terminal", staticmethod(lambda: True))
    told = omnitts("say", *toy, "-o", "a.wav", "Hello there.").err
    seed = told.split("  seed ")[1].split()[0]
    again = omnitts("say", *toy, "--seed", seed, "-o", "b.wav", "Hello there.")
    assert "  seed " not in again.err, "who gave it knows it"
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


@pytest.mark.parametrize(("command", "what"), [("rm", "removed"), ("export", "exported"), ("rename", "renamed")])
def test_a_voice_of_the_model_is_not_called_missing(omnitts: Omnitts, command: str, what: str) -> None:
    more = {"rm": (), "export": ("h.voice",), "rename": ("harry",)}[command]
    done = omnitts("voices", command, "henry", *more)
    assert done.code == 2 and f"henry is a voice of the model tiny and cannot be {what}" in done.err
    assert "not found" in omnitts("voices", command, "henrietta", *more).err
    hint = done.err.split("try: omnitts ")[1].split("   ")[0].split()
    assert omnitts(*hint).code == 0, "the hint is a command that works"
    if command != "rm":
        call = ("say", "--max-frames", "12", "--seed", "5", "--text-mode", "whole", "Hello there.")
        assert omnitts(*call, "-v", "henry", "-o", "own.wav").code == 0
        assert omnitts(*call, "-v", hint[2], "-o", "copy.wav").code == 0
        assert Path("own.wav").read_bytes() == Path("copy.wav").read_bytes()
        assert omnitts("voices", "export", hint[2], "copy.voice").code == 0


def test_shipped_voices_are_blended(omnitts: Omnitts) -> None:
    call = ("say", "--max-frames", "12", "--seed", "5", "Hello there.")
    assert omnitts(*call, "-v", "henry:60,clara:40", "-o", "a.wav").code == 0
    assert omnitts("voices", "blend", "mix", "henry:60", "clara:40").code == 0
    assert voice_files.load("mix").about["model"] == "tiny"
    assert omnitts(*call, "-v", "mix", "-o", "b.wav").code == 0
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()
    saved("a")
    assert omnitts(*call, "-v", "henry:60,nobody:40", "-o", "c.wav").code == 4


def test_rename(omnitts: Omnitts) -> None:
    saved("a")
    saved("b")
    assert omnitts("voices", "rename", "a", "c").code == 0 and voice_files.names() == ["b", "c"]
    assert omnitts("voices", "rename", "c", "b").code == 3 and voice_files.names() == ["b", "c"]
    assert omnitts("voices", "rename", "c", "../c").code == 2
    same = omnitts("voices", "rename", "c", "c")  # not a reason to remove it
    assert same.code == 2 and "c is its name already" in same.err and "voices rm" not in same.err


def test_a_voice_file_does_not_have_models_downloaded(omnitts: Omnitts) -> None:
    saved("evil", model="hf:someone/model")
    done = omnitts("say", "-v", "evil", "Hello there.", "-o", "a.wav")
    assert done.code == 4 and "needs the model hf:someone/model" in done.err and "-m hf:someone/model" in done.err
    assert omnitts("voices", "export", "evil", "evil.voice").code == 0
    assert "needs the model" in omnitts("say", "-v", "evil.voice", "Hello there.", "-o", "a.wav").err


def test_a_name_in_a_voice_file_is_never_a_path(omnitts: Omnitts, home: Path) -> None:
    voice = Cloned(np.ones(4, np.float32))
    voice_files.write(voice_files.SavedVoice("../../hijack", voice, {"model": "tiny"}), Path("x.voice"))
    done = omnitts("voices", "import", "x.voice")
    assert done.code == 2 and not list(home.rglob("hijack*"))


def test_voices_of_a_released_model_are_listed_without_it(omnitts: Omnitts, no_model: None) -> None:
    names = [one["name"] for one in omnitts("voices", "list", "-m", "0.6b", "--json").objects]
    assert "ryan" in names and len(names) == 9


def test_the_list_says_which_of_two_henrys_speaks(omnitts: Omnitts) -> None:
    saved("henry")
    rows = [line.split("\t") for line in omnitts("voices", "list").out.decode().splitlines()]
    assert [row[1] for row in rows if row[0] == "henry"] == ["saved", "model"]
    assert any("-v henry is the saved one" in row[3] for row in rows)


@pytest.fixture
def tuned() -> SavedVoice:
    """A tuned voice of the tiny golden model, saved as "tuned"."""
    voice = Cloned(Golden.of("small").tensors["speaker"].numpy())
    about = {"model": str(tune_kit.folder("small")), "consent": "Anna, today"}
    made = SavedVoice("tuned", voice, about, None, tune_kit.golden_adapter("small", "one"))
    voice_files.save(made)
    return made


def test_a_tuned_voice_speaks_through_its_merged_model(omnitts: Omnitts, tuned: SavedVoice) -> None:
    voice_files.save(replace(tuned, name="plain", adapter=None))
    rest = ("hello world", "--seed", "1", "--temperature", "0", "--max-frames", "6", "--retries", "0")
    for name in ("tuned", "plain"):
        assert omnitts("say", "-v", name, *rest, "-o", f"{name}.wav").code == 0
    assert Path("tuned.wav").read_bytes() != Path("plain.wav").read_bytes()
    omnitts("say", "-v", "tuned", *rest, "-o", "far.wav", "--via", "http://127.0.0.1:1").ended(2)
    shown = omnitts("voices", "show", "tuned", "--json").json
    assert shown["consent"] == "Anna, today" and shown["rank"] == "4"


def test_batch_and_books_open_a_model_for_each_tuned_voice(omnitts: Omnitts, tuned: SavedVoice) -> None:
    voice_files.save(replace(tuned, name="plain", adapter=None))
    rest = ("-m", tuned.about["model"], "--temperature", "0", "--max-frames", "6", "--retries", "0")
    rows = [{"id": f"{name}{n}", "text": "hello world", "voice": name} for n in (1, 2) for name in ("tuned", "plain")]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert omnitts("batch", "rows.jsonl", "-O", "rows", "--flat", "-F", "wav", *rest).code == 0
    tuned_bytes, plain_bytes = (Path("rows", f"{name}1.wav").read_bytes() for name in ("tuned", "plain"))
    assert tuned_bytes != plain_bytes
    assert tuned_bytes == Path("rows", "tuned2.wav").read_bytes()
    Path("own.jsonl").write_text('{"id": "a", "text": "hello world"}\n' + json.dumps(rows[1]))
    assert omnitts("batch", "own.jsonl", "-O", "own", "--flat", "-F", "wav", "-v", "tuned", *rest).code == 0
    assert [Path("own", name).read_bytes() for name in ("a.wav", "plain1.wav")] == [tuned_bytes, plain_bytes]
    Path("book.md").write_text("# One\n\nHello world.\n")
    for name in ("tuned", "plain"):
        book = ("say", "-f", "book.md", "-v", name, "-o", f"{name}.m4b", "--work", "work", "--json")
        assert omnitts(*book, *rest).code == 0
    assert Path("tuned.m4b").read_bytes() != Path("plain.m4b").read_bytes()


def test_a_tuned_voice_becomes_a_model_that_speaks_it(omnitts: Omnitts, tuned: SavedVoice) -> None:
    assert omnitts("voices", "export", "tuned", "model", "--format", "model").code == 0
    assert omnitts("voices", "export", "tuned", "model", "--format", "model").code == 3  # it is there now
    rest = ("hello", "--temperature", "0", "--max-frames", "4", "--retries", "0", "--text-mode", "whole")
    assert omnitts("say", "-v", "tuned", "-o", "b.wav", *rest).code == 0
    assert omnitts("voices", "rename", "tuned", "kept").code == 0  # a saved voice hides one of the model
    assert omnitts("say", "-m", "model", "-v", "tuned", "-o", "a.wav", *rest).code == 0
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()


def test_a_tuned_voice_goes_to_peft_and_back(omnitts: Omnitts, tuned: SavedVoice) -> None:
    assert omnitts("voices", "export", "tuned", "out", "--format", "peft").code == 0
    assert omnitts("voices", "export", "tuned", "out", "--format", "peft").code == 3  # it is there now
    assert omnitts("voices", "export", "tuned", "other", "--format", "onnx").code == 2
    model = tuned.about["model"]
    assert omnitts("voices", "import", "out", "--name", "again", "-m", model).code == 0
    found, before = voice_files.load("again"), voice_files.load("tuned")
    assert found.adapter is not None and before.adapter is not None
    assert found.adapter.sha256 == before.adapter.sha256 and found.about["model"] == model
