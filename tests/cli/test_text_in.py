"""Scripts: words, files of every kind, and pipes."""

import json
from pathlib import Path

import pytest
from command import Omnitts

from omnitts_cli.cli import text_in
from omnitts_cli.errors import InputError
from omnitts_cli.settings.table import TextIn
from omnitts_cli.text import inputs
from omnitts_cli.text.american.phonemes import phonemes


def pieces(omnitts: Omnitts, *arguments: str, stdin: bytes = b"") -> list[str]:
    done = omnitts("say", "--dry-run", "--json", *arguments, stdin=stdin).ended(0)
    return [piece["text"] for piece in done.objects]


def test_formats_by_suffix_and_by_name(omnitts: Omnitts) -> None:
    Path("a.md").write_text("# A title\n\nSome *words* and `code`.\n")
    Path("b.srt").write_text("1\n00:00:00,000 --> 00:00:02,000\nA line of speech.\n")
    Path("c.xml").write_text("<speak>Spoken <break time='1s'/> words.</speak>")
    assert pieces(omnitts, "-f", "a.md") == ["A title", "Some words and code."]
    assert "A line of speech." in pieces(omnitts, "-f", "b.srt")
    assert [text for text in pieces(omnitts, "-f", "c.xml", "--input-format", "ssml") if text] == ["Spoken", "words."]
    for arguments in (("-f", "-"), ()):
        assert pieces(omnitts, *arguments, "--input-format", "md", stdin=b"# Only this") == ["Only this"]


def test_an_endless_input_without_words_is_refused(omnitts: Omnitts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MOST_SILENT", 1 << 20)
    monkeypatch.setattr(text_in, "LARGEST_DOCUMENT", 1 << 20)
    Path("a.txt").write_text("Hello.")
    for arguments in (["-f", "/dev/zero"], ["-f", "a.txt", "-f", "/dev/zero"]):
        omnitts("say", "--dry-run", *arguments).ended(3, "there are no words in 1 MiB of /dev/zero")
    omnitts("say", "--dry-run", stdin=bytes(2 << 20)).ended(3, "there are no words in 1 MiB of standard input")
    with pytest.raises(InputError, match="/dev/zero is larger than 1 MiB"):
        list(text_in.live_texts(None, TextIn(file=("/dev/zero",)), "play"))
    assert pieces(omnitts, stdin=bytes(1 << 19) + b"Words.") == ["Words."]


def test_a_dry_run_of_live_text_shows_its_sentences(omnitts: Omnitts) -> None:
    for given, stdin in (["One.\nTwo."], b""), ([], b"One.\nTwo."):
        done = omnitts("play", "--live", "--dry-run", "--json", "--split", "line", *given, stdin=stdin)
        assert done.code == 0 and [one["text"] for one in done.objects] == ["One.", "Two."]


def test_a_lexicon_and_a_model_of_phonemes_show_what_is_spoken(omnitts: Omnitts) -> None:
    Path("words.tsv").write_text("GIF\tjiff\n")
    done = omnitts("say", "--dry-run", "--json", "-m", "random:toy", "--lexicon", "words.tsv", "A GIF is here.")
    assert [(one["text"], one["spoken"]) for one in done.objects] == [("A GIF is here.", "A jiff is here.")]
    call = ("say", "--dry-run", "-m", "tiny", "Dr. Lee has 2 cats.")
    done = omnitts(*call, "--json").json
    assert done["text"] == "Dr. Lee has 2 cats." and done["spoken"] == "Doctor Lee has two cats."
    assert done["tokenizer_input"] == phonemes("Doctor Lee has two cats.")
    shown = omnitts(*call).out.decode()
    assert "Doctor Lee has two cats." in shown and done["tokenizer_input"] not in shown
    assert "tokenizer_input" not in omnitts("say", "--dry-run", "--json", "-m", "random:toy", "Hello.").json


@pytest.mark.parametrize(("name", "data"), [
    ("a.txt", b"caf\xe9"), ("a.ssml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><speak>&a;</speak>"),
    ("a.ssml", b"<speak>unclosed"), ("a.epub", b"no zip at all"), ("a.txt", b""),
])  # fmt: skip
def test_what_cannot_be_read_is_3(omnitts: Omnitts, name: str, data: bytes) -> None:
    Path(name).write_bytes(data)
    omnitts("say", "-m", "random:toy", "--seed", "5", "--max-frames", "12", "-o", "a.wav", "-f", name).ended(3)
    assert not Path("a.wav").exists()


@pytest.mark.parametrize(("typed", "code", "words"), [
    (["say", "-f", "notse.txt"], 3, ["cannot read text file", "-f notes.txt"]),
    (["say", "-f", "my stroy"], 3, ["cannot read text file", "-f 'my story.md'"]),
    (["say", "-f", "nothing like it.txt"], 3, ["cannot read text file", "ls ."]),
    (["say", "-f", "gone/a.txt"], 3, ["cannot read text file", "ls ."]),
    (["say", "-f", "a" * 300], 3, ["cannot read text file", "ls ."]),
    (["say", "-f", "here"], 3, ["cannot read text file", "ls here"]),
    (["say", "-f", "https://example.com"], 3, ["-o page.html   and then   -f page.html"]),
    (["say", "-f", "https://example.com/a.txt"], 3, ["curl -L https://example.com/a.txt -o a.txt   and"]),
    (["say", "-f", "my", "story.md"], 2, ["try: -f 'my story.md'"]),
    (["clone", "-r", "m.wav", "Hello."], 3, ["reference clip m.wav not found", "try: -r me.wav"]),
    (["say", "-f", "one.txt", "-f", "two.txt"], 3, ["nothing to speak in one.txt, two.txt",
                                                    "try: -f FILE   with a file that contains words"]),
    (["say", "caf\udce9 au lait"], 3, ["the text is not UTF-8: byte 0xe9 at offset 3"]),  # as Python passes it on
])  # fmt: skip
def test_what_cannot_be_spoken_has_a_next_step(omnitts: Omnitts, typed: list[str], code: int, words: list[str]) -> None:
    for name in ("notes.txt", "my story.md", "one.txt", "two.txt"):
        Path(name).write_text(" ...\n")
    Path("me.wav").touch()
    Path("here").mkdir()
    done = omnitts(*typed, "-o", "a.wav")
    assert done.code == code and all(one in done.err for one in words) and not Path("a.wav").exists(), done.err


def test_words_come_before_the_files(omnitts: Omnitts) -> None:
    Path("notes.txt").write_text("# Not a heading here. And the file.")
    Path("page.md").write_text("# A heading\n\nAnd a page.")
    done = omnitts("say", "Hello first.", "-f", "notes.txt", "-f", "page.md", "--dry-run", "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert "".join(one["text"] for one in found).startswith("Hello first.")
    assert found[-1]["text"] == "And a page." and len(found) > 3
    done = omnitts("say", "Hello first.", "-f", "-", "--dry-run", stdin=b"From a pipe.")
    assert [line.split(b"\t")[2] for line in done.out.splitlines()] == [b"Hello first.", b"From a pipe."]


@pytest.mark.parametrize(("text", "file", "message", "hint"), [
    (b"", [], "standard input is empty", "check the command before the pipe"),
    (b"\n \n", ["-f", "-"], "standard input is empty", "check the command before the pipe"),
    (b"\n ...\n", ["-f", "-"], "'...' has no letter or digit", "add some words"),
])  # fmt: skip
def test_stdin_without_words_is_shown(omnitts: Omnitts, text: bytes, file: list[str], message: str, hint: str) -> None:
    omnitts("say", *file, "-o", "a.wav", stdin=text).ended(3, f"nothing to speak: {message}", hint)
    assert not Path("a.wav").exists()


def test_a_voice_tag_without_dialogue_is_noticed_once(omnitts: Omnitts) -> None:
    Path("two.md").write_text("# One\n\n[voice: leo] Hello.\n\nYes. [voice: ruth] Goodbye.\n")
    done = omnitts("say", "-f", "two.md", "--dry-run")
    assert done.err.count("is spoken as it stands") == 1
    assert "[voice: leo] is spoken as it stands; omnitts say --dialogue switches voices" in done.err
    assert "as it stands" not in omnitts("say", "-f", "two.md", "--dialogue", "--dry-run").err


def test_encodings_of_files_pipes_and_words(omnitts: Omnitts) -> None:
    Path("a.txt").write_bytes("Grüße an alle.".encode("cp1252"))
    assert pieces(omnitts, "-f", "a.txt", "--encoding", "cp1252") == ["Grüße an alle."]
    assert pieces(omnitts, stdin="\ufeffGrüße an alle.".encode("utf-16-le")) == ["Grüße an alle."]
    assert omnitts("say", "--dry-run", "--encoding", "zip", "-f", "a.txt").code == 2
    for encoding in ("utf-16-le", "utf-16-be"):
        Path("b.txt").write_bytes("\ufeffHello there.".encode(encoding))
        assert pieces(omnitts, "-f", "b.txt") == ["Hello there."]
    done = omnitts("say", "--dry-run", "--json", "na\udcc3\udcafve enough")
    assert done.code == 0 and done.json["text"] == "naïve enough"
    assert omnitts("say", "--dry-run", "na\udcff enough").code == 3


def test_a_lone_dash_is_stdin_as_everywhere(omnitts: Omnitts) -> None:
    assert pieces(omnitts, "-", stdin=b"From a pipe.") == pieces(omnitts, "-f", "-", stdin=b"From a pipe.")
    assert pieces(omnitts, "--", "-", "is a dash") == ["- is a dash"]
    Path("a.txt").write_text("A file.")
    assert pieces(omnitts, "-", "-f", "a.txt", stdin=b"From a pipe.") == ["From a pipe.", "A file."]
    assert pieces(omnitts, "-f", "a.txt", "-f", "-", stdin=b"From a pipe.") == ["A file.", "From a pipe."]
    assert omnitts("say", "--dry-run", "-", "-f", "-", stdin=b"From a pipe.").code == 2
    assert omnitts("clone", "-r", "-", "-", stdin=b"From a pipe.").code == 2


@pytest.mark.parametrize(("head", "words"), [
    (b"RIFF\x24\0\0\0WAVEfmt ", "looks like sound (wav)"), (b"%PDF-1.7\n", "looks like a PDF document"),
    (b"PK\x03\x04\x14\0", "looks like a ZIP archive"), (b"\xff\xfb\x90\x44", "looks like sound (mp3)"),
    (b"\xff\xf1\x50\x80", "looks like sound (aac)"),
])  # fmt: skip
def test_what_is_surely_no_text_is_called_what_it_is(omnitts: Omnitts, head: bytes, words: str) -> None:
    Path("a").write_bytes(head + bytes(range(256)))
    done = omnitts("say", "-f", "a", "-o", "a.wav")
    assert done.code == 3 and f"text file a {words}" in done.err and "--encoding" not in done.err
    assert ("omnitts clone -r a" in done.err) == ("sound" in words)


def test_more_files_than_a_process_may_have_open(omnitts: Omnitts) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    names = [f"{number}.txt" for number in range(200)]
    for name in names:
        Path(name).write_text(f"{name}.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    try:
        assert len(pieces(omnitts, *[word for name in names for word in ("-f", name)])) == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_detect_passes_the_language_on_and_auto_only_refuses(omnitts: Omnitts) -> None:
    toy = ("say", "-m", "random:toy", "--max-frames", "12", "-o", "a.wav")
    russian = "Когда последний паром уходит из гавани, весь остров затихает до утра."
    for code in ("auto", "detect", "ru"):
        omnitts(*toy, "-l", code, russian).ended(2, "does not support Russian")
    assert omnitts(*toy, "-l", "detect", "Wenn die letzte Fähre den Hafen verlässt, wird es still.").code == 0
    assert "cannot detect the language" in omnitts(*toy, "-l", "detect", "12 34.").err
