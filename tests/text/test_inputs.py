"""From bytes to pieces: formats, pipes, lexicon, limits."""

import io

import pytest

from omnitts_cli.errors import InputError, UsageError
from omnitts_cli.text import inputs
from omnitts_cli.text.inputs import TextOptions, TextStream, input_format, pieces_of_document, pieces_of_text
from omnitts_cli.text.lexicon import Lexicon


def spoken(data: bytes, form: str, **how: object) -> list[str | float]:
    options = TextOptions(**how)  # type: ignore[arg-type]
    found = pieces_of_document(io.BytesIO(data), form, options, "doc")  # type: ignore[arg-type]
    return [piece.text or piece.pause_s for piece in found]


def test_formats_by_option_then_suffix() -> None:
    assert [input_format(p) for p in ("a.md", "a.SRT", "a.vtt", "a.epub", "a.ssml", "a.txt", None, "-")] == [
        "md", "srt", "srt", "epub", "ssml", "text", "text", "text",
    ]  # fmt: skip
    assert [input_format(p) for p in ("a.html", "a.HTM", "a.xhtml")] == ["html"] * 3
    assert input_format("a.md", "text") == "text" and input_format("a.md", "auto") == "md"
    with pytest.raises(UsageError, match="docx"):
        input_format("a", "docx")


def test_words_in_another_language_are_pieces_of_their_own() -> None:
    source = (
        '<speak>He said <lang xml:lang="es">hola</lang>. <lang xml:lang="fr">Bonjour à tous.</lang>'
        '<p xml:lang="it">Uno qui. Due qui.</p><p>Three.</p><break time="1s"/>Four.</speak>'
    )
    found = list(pieces_of_text(source, TextOptions(), "ssml"))
    assert [(piece.text, piece.language, piece.gap, piece.goes_on) for piece in found] == [
        ("He said", "", "none", True), ("hola.", "es", "none", False), ("Bonjour à tous.", "fr", "sentence", False),
        ("Uno qui. Due qui.", "it", "paragraph", False),
        ("Three.", "", "paragraph", False), ("", "", "none", False), ("Four.", "", "none", False),
    ]  # fmt: skip


def test_every_format_becomes_pieces_and_blocks_are_paragraphs() -> None:
    assert spoken("Hällo there you. Bye bye now.\n".encode(), "text") == ["Hällo there you.", "Bye bye now."]
    assert spoken(b"# Title of it\n\nSome *words* here.", "md") == ["Title of it", "Some words here."]
    assert spoken(b"<speak>One here.<break time='1s'/>Two there.</speak>", "ssml") == ["One here.", 1.0, "Two there."]
    assert spoken(b"1\n00:00:01,000 --> 00:00:02,000\nHello there you.\n", "srt") == ["Hello there you."]
    assert spoken(b"<html><body><p>Hello there you.</p></body></html>", "html") == ["Hello there you."]
    pieces = list(pieces_of_document(io.BytesIO(b"# One\n\n# Two"), "md", TextOptions(), "x"))
    assert [(piece.gap, piece.paragraph) for piece in pieces] == [("none", 0), ("paragraph", 1)]


def test_the_lexicon_speaks_last() -> None:
    lexicon = Lexicon()
    lexicon.add([("dr", "doctor"), ("gif", "jif")])
    (piece,) = pieces_of_text("Dr. No likes the GIF.", TextOptions(language="en", lexicon=lexicon))
    assert piece.text == "doctor. No likes the jif."
    assert (piece.start, piece.end) == (0, 21), "places are of the text as it was written"


def test_a_quiet_pipe_gives_what_a_finished_line_holds() -> None:
    stream = TextStream(TextOptions(language="en"))
    line = b"2026-11-21 12:00:00 ERROR something has gone wrong in the engine room\n"
    assert stream.feed(line) == []
    assert [piece.text for piece in stream.idle()] == [line.decode().strip()]
    assert stream.flush() == [] and stream.characters == len(line)


def test_documents_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LARGEST_DOCUMENT", 1000)
    with pytest.raises(InputError, match="doc is larger than"):
        spoken(b"<speak a='" + b"x" * 2000 + b"'/>", "ssml")
    assert spoken(b"word " * 500, "text"), "plain text may be of any size"


def test_words_may_be_of_any_format() -> None:
    words = "<speak>One here.<break time='1s'/>Two there.</speak>"
    assert [p.text or p.pause_s for p in pieces_of_text(words, form="ssml")] == ["One here.", 1.0, "Two there."]
    assert [p.text for p in pieces_of_text("<p>One here.</p><script>x</script>", form="html")] == ["One here."]
    with pytest.raises(UsageError, match="EPUB"):
        list(pieces_of_text("x", form="epub"))


def test_a_notice_says_that_times_of_subtitles_are_not_kept() -> None:
    notices: list[str] = []
    spoken(b"1\n00:00:01,000 --> 00:00:02,000\nHello there you.\n", "srt", notices=notices)
    assert notices == ["doc: subtitles are read one after the other; their times are not kept"]
