"""SSML: what is spoken, and everything hostile refused."""

import pytest

from omnitts_cli.errors import InputError
from omnitts_cli.text.formats.ssml import ssml_blocks


def blocks(source: str, notices: list[str] | None = None) -> list[str | float]:
    return [b.text or b.pause_s for b in ssml_blocks(source, "a.ssml", [] if notices is None else notices)]


def test_words_sentences_and_breaks() -> None:
    source = """<?xml version="1.0"?><speak xmlns="http://www.w3.org/2001/10/synthesis" version="1.0">
      <p><s>One  here.</s><s>Two.</s></p> loose
      <break time="500ms"/>words<break strength="strong"/> <sub alias="World Wide Web">WWW</sub>
      <prosody rate="slow">slow <emphasis>very</emphasis></prosody> end</speak>"""
    notices: list[str] = []
    assert blocks(source, notices) == ["One here.", "Two.", "loose", 0.5, "words", 0.8, "World Wide Web slow very end"]
    assert notices == ["a.ssml: the words in <emphasis>, <prosody> are spoken, the tags have no effect"]


@pytest.mark.parametrize(("source", "found"), [
    ('He said <lang xml:lang="es">buenos días</lang> to me.',
     [("He said", "", "none"), ("buenos días", "es", "none"), ("to me.", "", "paragraph")]),
    ('Hi. <lang xml:lang="fr-CA">Ça va?</lang> Fine.',
     [("Hi.", "", "sentence"), ("Ça va?", "fr", "sentence"), ("Fine.", "", "paragraph")]),
    ('They say <lang xml:lang="it">ciao</lang>!', [("They say", "", "none"), ("ciao!", "it", "paragraph")]),
    ('<p xml:lang="pt">Olá.</p><p>Hi.</p>', [("Olá.", "pt", "paragraph"), ("Hi.", "", "paragraph")]),
    ('<lang xml:lang="it">uno</lang><lang xml:lang="es">dos <lang xml:lang="es">tres</lang></lang>',
     [("uno", "it", "none"), ("dos tres", "es", "paragraph")]),
    ('A <lang xml:lang="nl">dag</lang> b.', [("A dag b.", "", "paragraph")]),
])  # fmt: skip
def test_words_know_their_language(source: str, found: list[tuple[str, str, str]]) -> None:
    notices: list[str] = []
    made = ssml_blocks(f"<speak>{source}</speak>", "a.ssml", notices)
    assert [(block.text, block.language, block.then) for block in made] == found
    assert bool(notices) == ('"nl"' in source)


def test_the_language_of_the_document_is_that_of_all_its_words_unless_another_was_given() -> None:
    source = '<speak xml:lang="fr">Un. <lang xml:lang="es">Dos.</lang></speak>'
    for given, codes in ((None, ["fr", "es"]), ("en", ["", "es"])):
        assert [block.language for block in ssml_blocks(source, "a.ssml", [], given)] == codes


@pytest.mark.parametrize(("kind", "words", "said"), [
    ("characters", "NaCl", "N A C L"), ("spell-out", "a1-b", "A 1 dash B"), ("digits", "2024", "2 0 2 4"),
    ("telephone", "555-01", "5 5 5, 0 1"), ("ordinal", "3", "3rd"), ("ordinal", "112", "112th"),
    ("cardinal", "1999", "1,999"), ("expletive", "darn", "beep"),
])  # fmt: skip
def test_words_are_said_as_asked(kind: str, words: str, said: str) -> None:
    notices: list[str] = []
    assert blocks(f'<speak>So <say-as interpret-as="{kind}">{words}</say-as>.</speak>', notices) == [f"So {said}."]
    assert notices == []


def test_a_kind_of_words_that_is_not_known_has_no_effect_and_is_told() -> None:
    for kind in ('interpret-as="date" format="mdy"', 'interpret-as="ordinal"', ""):
        notices: list[str] = []
        assert blocks(f"<speak>on <say-as {kind}>May 5</say-as></speak>", notices) == ["on May 5"]
        assert len(notices) == 1 and "<say-as>" in notices[0]


def test_breaks_have_a_limit() -> None:
    notices: list[str] = []
    assert blocks('<speak><break time="99999s"/>a<break time="60s"/>b<break time="99999s"/></speak>', notices) == [
        60.0, "a", 60.0, "b", 60.0,
    ]  # fmt: skip
    assert notices == ["a.ssml: <break time='99999s'> is cut to 60 s, the longest"]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><speak>&b;</speak>'


@pytest.mark.parametrize(("source", "words"), [
    (BOMB, "document type or entities"),
    ('<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><speak>&a;</speak>', "document type or entities"),
    ('<!DOCTYPE speak SYSTEM "http://example.com/x.dtd"><speak>a</speak>', "document type or entities"),
    ("<speak>" + "<prosody>" * 10_000 + "x" + "</prosody>" * 10_000 + "</speak>", "nested more than 32"),
    ("<speak>unclosed", "not well-formed"), ("<speak>&nbsp;</speak>", "not well-formed"),
    ("<speak><blink>x</blink></speak>", "unknown tag <blink>"), ("<html>x</html>", "not SSML"),
    ("just text", "not well-formed"), ('<speak><break time="soon"/></speak>', "is not a time"),
    ('<speak><break strength="huge"/></speak>', "unknown <break strength"), ("", "not well-formed"),
])  # fmt: skip
def test_hostile_or_wrong_documents(source: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        blocks(source)
    assert caught.value.exit_code == 3


def test_links_are_never_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("builtins.open", lambda *given, **_: opened.append(given))
    monkeypatch.setattr("socket.socket", lambda *given, **_: opened.append(given))
    source = """<speak><lexicon uri="file:///etc/passwd"/><audio src="http://127.0.0.1:9/x.wav">fallback</audio>
      <voice name="../../x.voice">spoken</voice></speak>"""
    assert blocks(source) == ["fallback spoken"] and opened == []
