"""From bytes to pieces: formats, pipes, lexicon, limits."""

from __future__ import annotations

import io
import os
import threading
import zipfile

import pytest

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text import inputs
from omnitts_cli.text.inputs import (
    TextOptions,
    TextStream,
    input_format,
    pieces_of_document,
    pieces_of_stream,
    pieces_of_text,
    require_speech,
)
from omnitts_cli.text.lexicon import Lexicon


def spoken(data: bytes, form: str, notices: list[str] | None = None, **how: object) -> list[str | float]:
    options = TextOptions(**how)  # type: ignore[arg-type]
    found = pieces_of_document(io.BytesIO(data), form, options, "doc", [] if notices is None else notices)  # type: ignore[arg-type]
    return [piece.text or piece.pause_s for piece in found]


def test_formats_by_option_then_suffix() -> None:
    assert [input_format(p) for p in ("a.md", "a.SRT", "a.vtt", "a.epub", "a.ssml", "a.txt", None, "-")] == [
        "md", "srt", "srt", "epub", "ssml", "text", "text", "text",
    ]  # fmt: skip
    assert input_format("a.md", "text") == "text" and input_format("a.md", "auto") == "md"
    with pytest.raises(UsageError, match="docx"):
        input_format("a", "docx")


def test_every_format_becomes_pieces() -> None:
    assert spoken("Hällo there you. Bye bye now.\n".encode(), "text") == ["Hällo there you.", "Bye bye now."]
    assert spoken(b"# Title of it\n\nSome *words* here.", "md") == ["Title of it", "Some words here."]
    assert spoken(b"<speak>One here.<break time='1s'/>Two there.</speak>", "ssml") == ["One here.", 1.0, "Two there."]
    assert spoken(b"1\n00:00:01,000 --> 00:00:02,000\nHello there you.\n", "srt") == ["Hello there you."]


def test_blocks_of_a_document_are_paragraphs() -> None:
    pieces = list(pieces_of_document(io.BytesIO(b"# One\n\n# Two"), "md", TextOptions(), "x", []))
    assert [(piece.gap, piece.paragraph) for piece in pieces] == [("none", 0), ("paragraph", 1)]


def test_the_lexicon_speaks_last() -> None:
    lexicon = Lexicon()
    lexicon.add([("dr", "doctor"), ("gif", "jif")])
    (piece,) = pieces_of_text("Dr. No likes the GIF.", TextOptions(language="en", lexicon=lexicon))
    assert piece.text == "doctor. No likes the jif."
    assert (piece.start, piece.end) == (0, 21), "places are of the text as it was written"


def test_case_28_utf16_and_named_encodings() -> None:
    assert spoken("Grüße an alle.".encode("utf-16"), "text") == ["Grüße an alle."]
    assert spoken("Grüße an alle.".encode("cp1252"), "text", encoding="cp1252") == ["Grüße an alle."]
    with pytest.raises(InputError, match="doc is not utf-8 text"):
        spoken("Grüße".encode("cp1252"), "text")


def test_case_24_the_first_line_leaves_before_the_second_arrives() -> None:
    read, write = os.pipe()
    got: list[str] = []
    first = threading.Event()

    def listen() -> None:
        with open(read, "rb", buffering=0) as file:
            for piece in pieces_of_stream(file, TextOptions(language="en")):
                got.append(piece.text)
                first.set()

    listener = threading.Thread(target=listen)
    listener.start()
    os.write(write, b"The first line.\n")
    assert first.wait(5) and got == ["The first line."]
    os.write(write, b"The second")
    os.close(write)
    listener.join(5)
    assert got == ["The first line.", "The second"]


def test_a_quiet_pipe_gives_what_a_finished_line_holds() -> None:
    stream = TextStream(TextOptions(language="en"))
    line = b"2026-11-21 12:00:00 ERROR something has gone wrong in the engine room\n"
    assert stream.feed(line) == []
    assert [piece.text for piece in stream.idle()] == [line.decode().strip()]
    assert stream.flush() == [] and stream.characters == len(line)


def test_case_29_a_character_and_a_line_end_cut_between_two_reads() -> None:
    data = "Grüße an alle.\r\nZweite Zeile hier.".encode()
    for cut in range(len(data)):
        stream = TextStream(TextOptions(language="de"))
        pieces = stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.flush()
        assert [piece.text for piece in pieces] == ["Grüße an alle.", "Zweite Zeile hier."]


@pytest.mark.parametrize("data", [b"", b" \n\n", "…?!".encode(), "🙂".encode()])
def test_case_22_nothing_to_speak(data: bytes) -> None:
    with pytest.raises(InputError, match="nothing to speak"):
        list(require_speech(pieces_of_stream(io.BytesIO(data), TextOptions())))


def test_case_31_documents_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LARGEST_DOCUMENT", 1000)
    with pytest.raises(InputError, match="doc is larger than"):
        spoken(b"<speak a='" + b"x" * 2000 + b"'/>", "ssml")
    assert spoken(b"word " * 500, "text"), "plain text may be of any size"


def test_case_32_an_epub_through_the_front_door() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(InputError, match=r"doc lacks 'META-INF/container\.xml'"):
        spoken(file.getvalue(), "epub")


def test_B10_words_may_be_of_any_format() -> None:
    words = "<speak>One here.<break time='1s'/>Two there.</speak>"
    assert [p.text or p.pause_s for p in pieces_of_text(words, form="ssml")] == ["One here.", 1.0, "Two there."]
    assert [p.text for p in pieces_of_text("<p>One here.</p><script>x</script>", form="html")] == ["One here."]
    with pytest.raises(UsageError, match="EPUB"):
        list(pieces_of_text("x", form="epub"))


def test_B10_html_is_a_format_of_its_own() -> None:
    assert [input_format(p) for p in ("a.html", "a.HTM", "a.xhtml")] == ["html"] * 3
    assert spoken(b"<html><body><p>Hello there you.</p></body></html>", "html") == ["Hello there you."]


def test_B10_that_the_times_of_subtitles_are_not_kept_is_told() -> None:
    notices: list[str] = []
    spoken(b"1\n00:00:01,000 --> 00:00:02,000\nHello there you.\n", "srt", notices)
    assert notices == ["doc: subtitles are read one after the other; their times are not kept"]
