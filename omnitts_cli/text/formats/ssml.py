"""SSML: words, sentences, paragraphs and breaks. No DTD, no entities, no unknown tags, little nesting."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnitts_cli.errors import InputError
from omnitts_cli.text.boundary import STOPS
from omnitts_cli.text.formats.block import DEEPEST, Block
from omnitts_cli.text.given import given
from omnitts_cli.text.language import LANGUAGES

BREAKS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.8, "x-strong": 1.2}
LONGEST_BREAK_S = 60.0
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
WORDS_ONLY = {"say-as", "prosody", "emphasis", "voice", "lang", "phoneme", "w", "token", "audio"}
SILENT = {"mark", "desc", "meta", "metadata", "lexicon", "lookup"}
SIGN_NAMES = {"-": "dash", ".": "dot", "/": "slash", "_": "underscore", "@": "at", "+": "plus", "#": "hash"}
BETWEEN_DIGITS = re.compile(r"(?<=\d)[^\w\s,]+[ ]*(?=\d)")
APART = re.compile(r"(\d)")
NUMERAL = re.compile(r"\d{1,15}|\d{1,3}(?:,\d{3}){1,4}")
TIME = re.compile(r"\+?(\d{1,6}(?:\.\d{1,6})?)(ms|s)")


def ssml_blocks(text: str, name: str, notices: list[str], language: str | None = None) -> Iterator[Block]:
    """One block for each sentence or paragraph, for each run of words in another language, and for each break.
    `language`: a code that takes precedence over that of <speak>.
    """
    root = parse(text, name)
    if local(root.tag) != "speak":
        raise InputError(f"{name} is not SSML: its outer tag is <{local(root.tag)}>, not <speak>")
    if language is not None:
        root.attrib.pop(XML_LANG, None)
    reader = SsmlReader(name)
    yield from reader.element(root, 1)
    yield from reader.paragraph()
    if reader.ignored:
        notices.append(
            f"{name}: the words in <{'>, <'.join(sorted(reader.ignored))}> are spoken, the tags have no effect"
        )
    notices.extend(f"{name}: <break time='{time}'> is cut to {LONGEST_BREAK_S:g} s, the longest" for time in reader.cut)


def parse(text: str, name: str) -> Any:
    """The element tree, or an InputError: entities, DTDs and outside files are refused by defusedxml."""
    from xml.etree.ElementTree import ParseError

    import defusedxml
    from defusedxml.ElementTree import fromstring

    try:
        return fromstring(text, forbid_dtd=True)
    except defusedxml.DefusedXmlException as error:
        raise InputError(
            f"{name} declares a document type or entities, which are refused", cause=type(error).__name__
        ) from error
    except (ParseError, ValueError) as error:
        raise InputError(
            f"{name} is not well-formed XML: {error}", hint="--input-format text   speaks it as plain text"
        ) from error


def given_sounds(element: Any) -> str | None:
    """The word of <phoneme> with its sounds; None where its alphabet or its sounds are not those of the model."""
    if (element.get("alphabet") or "ipa").strip().lower() != "ipa":
        return None
    return given(" ".join("".join(element.itertext()).split()), element.get("ph") or "")


def said_as(element: Any) -> str | None:
    """The words of <say-as>, written so that they are read as it asks; None for a kind that the reader must guess."""
    kind = (element.get("interpret-as") or "").strip().lower()
    words = " ".join("".join(element.itertext()).split())
    if kind in ("characters", "character", "spell-out", "verbatim", "letters"):
        return " ".join(SIGN_NAMES.get(letter, letter.upper()) for letter in words if not letter.isspace())
    if kind in ("digits", "digit", "telephone"):
        return " ".join(APART.sub(r" \1", BETWEEN_DIGITS.sub(",", words)).split())
    if kind == "ordinal" and words.isdecimal():
        return words + ordinal_ending(words)
    if kind in ("cardinal", "number") and NUMERAL.fullmatch(words):
        return f"{int(words.replace(',', '')):,}"
    if kind == "expletive":
        return "beep"
    return None


def ordinal_ending(digits: str) -> str:
    if digits[-2:-1] == "1":
        return "th"
    return {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")


def local(tag: Any) -> str:
    """A tag without its namespace."""
    return str(tag).rsplit("}", 1)[-1].lower()


class SsmlReader:
    """Walks the tree in order and collects words until something ends them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._words: list[str] = []
        self._language = ""  # of the words
        self._held: Block | None = None  # words in one language, whose sentence may go on with marks only
        self.ignored: set[str] = set()
        self.cut: dict[str, None] = {}  # times of breaks that were too long, in order

    def paragraph(self) -> Iterator[Block]:
        """Ends a paragraph."""
        held, self._held = self._held, None
        block = self._block()
        if held is not None and not any(letter.isalnum() for letter in block.text):
            block = replace(held, text=held.text + block.text, then="paragraph")
        elif held is not None:
            yield held
        if block.text:
            yield block

    def _to(self, language: str) -> Iterator[Block]:
        """Ends a run of words in one language."""
        if language == self._language:
            return
        for block in self.paragraph():
            if self._held is not None:
                yield self._held
            self._held = replace(block, then="sentence" if block.text[-1] in STOPS else "none")
        self._language = language

    def _block(self) -> Block:
        words, self._words = " ".join("".join(self._words).split()), []
        return Block(words, language=self._language)

    def element(self, element: Any, depth: int) -> Iterator[Block]:
        if depth > DEEPEST:
            raise InputError(f"{self._name}: tags are nested more than {DEEPEST} deep")
        tag = local(element.tag)
        if tag in SILENT:
            return
        if tag == "break":
            yield from self.paragraph()
            yield Block(pause_s=self._break_s(element))
            return
        if tag == "sub":
            self._words.append(element.get("alias") or "".join(element.itertext()))
            return
        if tag == "phoneme" and (run := given_sounds(element)) is not None:
            self._words.append(run)
            return
        if tag == "say-as" and (said := said_as(element)) is not None:
            self._words.append(said)
            return
        yield from self._inside(element, tag, depth)

    def _inside(self, element: Any, tag: str, depth: int) -> Iterator[Block]:
        ends = tag in ("p", "paragraph", "s", "sentence", "speak")
        code = str(element.get(XML_LANG) or "").lower().replace("_", "-").split("-")[0]
        before, inside = self._language, code if code in LANGUAGES else self._language
        if tag in WORDS_ONLY:
            if tag != "lang" or code not in LANGUAGES:
                self.ignored.add(tag)
        elif not ends:
            raise InputError(
                f"{self._name}: unknown tag <{tag[:40]}>", hint="speak, p, s, break, sub, say-as and prosody are known"
            )
        if ends:
            yield from self.paragraph()
        yield from self._to(inside)
        self._words.append(element.text or "")
        for child in element:
            yield from self.element(child, depth + 1)
            self._words.append(child.tail or "")
        if ends:
            yield from self.paragraph()
        yield from self._to(before)

    def _break_s(self, element: Any) -> float:
        time, strength = element.get("time"), element.get("strength", "medium")
        if time is not None:
            found = TIME.fullmatch(time.strip())
            if found is None:
                raise InputError(
                    f"{self._name}: <break time='{time[:40]}'> is not a time", hint='time="0.8s" or time="800ms"'
                )
            seconds = float(found[1]) / (1000.0 if found[2] == "ms" else 1.0)
            if seconds > LONGEST_BREAK_S:
                self.cut[time.strip()] = None
            return min(seconds, LONGEST_BREAK_S)
        if strength not in BREAKS:
            raise InputError(f"{self._name}: unknown <break strength='{strength[:40]}'>", hint=", ".join(BREAKS))
        return BREAKS[strength]
