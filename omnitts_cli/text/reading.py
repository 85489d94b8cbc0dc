"""Reading: prepares a piece for the model: splits it if it is too long to be spoken well in one piece, and writes it in
words that the model can read. Each part keeps the text as it was written, for subtitles and results.

Models that read plain letters only get numbers and signs spelled out, unless --no-normalize is given. Other models read
digits and signs themselves, and get the text unchanged unless --normalize is given.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cache
from typing import Any, Protocol

from omnitts_cli.errors import Notice, UsageError
from omnitts_cli.text.boundary import STOPS
from omnitts_cli.text.clean import has_speech
from omnitts_cli.text.language import CERTAIN, LANGUAGES, codes_of, detect, likeliest
from omnitts_cli.text.phrases import cuts, spoken_width
from omnitts_cli.text.piece import Break, Piece
from omnitts_cli.text.split import SHORT_COLUMNS, Splitter
from omnitts_cli.text.spoken.european import MODULES
from omnitts_cli.text.unreadable import Unreadable

INNER_STOP = re.compile(rf"[{re.escape(STOPS)}](?=\W*\w)")
Read = Callable[[str], str]

GROWTH = 4 / 3  # how much longer a piece may become by spelling out numbers before it is split again
GOES_ON = "…"  # written form of the later parts of one long number; the first part shows all of it


def readings(piece: Piece, read: Read | None, longest: int | None) -> list[tuple[Piece, str]]:
    """The parts of a piece, each with the text for the model. `longest`: letters that it speaks well in one piece."""
    parts = parts_of(piece, longest)
    if read is None:
        return [(part, part.text) for part in parts]
    found = [reading for part in parts for reading in read_part(part, read, longest)]
    ends = [part.gap != "none" for part, _ in found[1:]] + [not piece.goes_on]
    return [
        (part, in_its_sentence(part.text, text, begins=n == 0 or ends[n - 1], ends=ends[n]))
        for n, (part, text) in enumerate(found)
    ]


def in_its_sentence(written: str, text: str, *, begins: bool, ends: bool) -> str:
    """A part of a sentence is not closed like a sentence, and a later part begins as it was written."""
    if not begins and written[:1].islower():
        text = text[:1].lower() + text[1:]
    return f"{text[:-1]}," if not ends and text.endswith(".") else text


def parts_of(piece: Piece, longest: int | None) -> list[Piece]:
    """The piece in parts of at most `longest` letters: its sentences, and the phrases of a sentence that is longer."""
    if longest is None or len(piece.text) <= longest:
        return [piece]
    parts: list[tuple[str, Break]] = []
    for text, gap in sentences(piece.text, longest):
        phrases = at_places(text, cuts(text, longest)) if len(text) > longest else [text]
        for n, phrase in enumerate(phrases):
            parts += cut_hard(phrase, "none" if n else gap, longest)
    return divided(piece, parts)


def sentences(text: str, longest: int) -> Iterator[tuple[str, Break]]:
    """The sentences, each with the break before it; a short one goes with the next unless both are too long."""
    if not INNER_STOP.search(text):
        yield text, "none"
        return
    splitter = Splitter(largest=len(text) + 1, short=0, pauses=False)
    found = [part for part in splitter.flush(text) if part.speech]
    held, gap = "", found[0].gap if found else "none"
    for part in found:
        both = f"{held} {part.text}" if held else part.text
        if held and len(both) > longest:
            yield held, gap
            both, held = part.text, ""
        gap = gap if held else part.gap
        held = both
        if len(held) > SHORT_COLUMNS:
            yield held, gap
            held = ""
    if held:
        yield held, gap


def cut_hard(text: str, gap: Break, longest: int) -> list[tuple[str, Break]]:
    """A phrase that has too few spaces, in parts as long as they may be."""
    if len(text) <= longest:
        return [(text, gap)]
    splitter = Splitter(largest=longest, pauses=False)
    parts = [part for part in splitter.flush(text) if part.speech]
    # a sentence keeps its closing marks together, and only they may lie beyond
    return [(part.text[:longest], part.gap if n else gap) for n, part in enumerate(parts)]


def divided(piece: Piece, parts: Sequence[tuple[str, Break]]) -> list[Piece]:
    """The piece in parts, each with its share of what was written; the first keeps the break before the piece."""
    texts = [text for text, _ in parts]
    written = shares(piece.written, texts) if piece.written else [""] * len(texts)
    return [
        replace(piece, text=text, written=own, gap=gap if n else piece.gap)
        for n, ((text, gap), own) in enumerate(zip(parts, written, strict=True))
    ]


def at_places(text: str, places: Sequence[int]) -> list[str]:
    """The text cut at spaces."""
    bounds = [-1, *places, len(text)]
    return [text[start + 1 : end] for start, end in itertools.pairwise(bounds)]


def read_part(piece: Piece, read: Read, longest: int | None) -> list[tuple[Piece, str]]:
    """The piece in words; cut again if they are too many."""
    text = read(piece.text)
    if longest is None or len(text) <= longest * GROWTH:
        return [(piece, text)]
    return cut_again(piece, text, read, longest)


def cut_again(piece: Piece, text: str, read: Read, longest: int) -> list[tuple[Piece, str]]:
    """Between two written words, so that a number is not cut; but inside a number that is nearly the whole piece."""
    if len(text) <= longest:
        return [(piece, text)]
    grown = len(text) / max(1, sum(spoken_width(word) + 1 for word in piece.text.split()))
    places = cuts(piece.text, max(1, int(longest / grown)))
    texts = [text for text in at_places(piece.text, places) if has_speech(text)]
    made = [(part, read(part.text)) for part in divided(piece, [(text, "none") for text in texts])]
    if len(made) > 1 and min(len(words) for _, words in made) >= longest / 6:
        return [reading for part, words in made for reading in cut_again(part, words, read, longest)]
    if len(text) <= longest * GROWTH:
        return [(piece, text)]
    parts = parts_of(replace(piece, text=text, written=piece.as_written), longest)
    return [(part, read(part.text)) for part in parts]


def shares(written: str, parts: Sequence[str]) -> list[str]:
    """The words of `written`, distributed over the parts of its spoken text.

    A word that became several belongs to the part where they begin.
    """
    words = written.split()
    made = [plain(word) for part in parts for word in part.split()]
    changes = SequenceMatcher(None, [plain(word) for word in words], made, autojunk=False).get_opcodes()
    found, begin, spoken = [], 0, 0
    for part in parts:
        spoken += len(part.split())
        end = max(begin, written_before(changes, spoken))
        found.append(" ".join(words[begin:end]) or GOES_ON)
        begin = end
    return found


def written_before(changes: Sequence[tuple[str, int, int, int, int]], spoken: int) -> int:
    """How many written words the first `spoken` words were made of."""
    for change, first, last, made_first, made_last in changes:
        if spoken <= made_last:
            if change == "equal":
                return first + spoken - made_first
            return last if spoken > made_first else first
    return changes[-1][2] if changes else 0


def plain(word: str) -> str:
    """A word without its marks and capitals, so that the two texts can be compared."""
    return re.sub(r"\W+", "", word).casefold() or word


OWN = ("en", *MODULES)  # languages that have rules here
EXTRA = ("zh", "ja")  # languages that wetext knows


class Reads(Protocol):
    """A model, or the known properties of one that is not loaded."""

    @property
    def plain_letters(self) -> bool:
        """Whether it reads plain letters only: those of English, and of its other languages."""
        ...

    @property
    def languages(self) -> Collection[str]:
        """The names of the languages that it speaks."""
        ...


def read_transcript(words: str, model: Reads) -> str:
    """The transcript of a clip, normalised as the text is: the model gets both in one prompt."""
    read = reader(None, detect(words).language, model)
    return read(words) if read else words


def reader(
    wanted: bool | None,
    language: str | None,
    model: Reads,
    *,
    certain: bool = False,
    parts: bool = False,
    unreadable: str = "skip",
    tell: Callable[[Notice], None] = lambda notice: None,
) -> Read | None:
    """The normaliser for this model; None: text stays as it is. `language`: a code, or None if it is unknown;
    unless it is `certain`, a sentence that is clearly in another language is read in its own.

    With `parts`, texts may be parts of sentences. `unreadable`: what becomes of words in letters that it cannot read.
    """
    if model.plain_letters:
        readable = Unreadable(unreadable, tell)
        if language in MODULES and LANGUAGES[language] in model.languages:
            return in_letters_of(language, wanted is False, readable, parts)
        return in_plain_letters(wanted is False, readable, parts)
    if not wanted:
        return None
    if language is None:
        what = (
            "--normalize: cannot detect the language of the text; reading numbers in that of each sentence, or in "
            "English (set it with -l)"
        )
        tell(Notice(what, plain=True))
    if certain or language in EXTRA:
        return normaliser(language or "en")
    return sentence_by_sentence(normaliser(language or "en"))


@dataclass
class LanguageReaders:
    """Which language each piece of a text is in, and what reads it. A document says it; else, if the model reads plain
    letters of several languages, each sentence shows it. `now`: the language of the sentence before. `read_in`: gives
    the reader for a language's code, or for "", a language that is not found.
    """

    model: Reads
    now: str
    certain: bool
    read_in: Callable[[str], Read | None]
    tell: Callable[[Notice], None]
    _lacking: set[str] = field(default_factory=set)

    def of(self, piece: Piece) -> tuple[Piece, Read | None]:
        """The piece with its language, if that is known, and what reads it."""
        code = self._language_of(piece)
        return replace(piece, language=code), self.read_in(code)

    def _language_of(self, piece: Piece) -> str:
        codes = codes_of(self.model.languages)
        if piece.language in codes:
            return piece.language
        if piece.language:
            self._tell_lacking(piece.language)
        if self.certain or len(codes) < 2 or not self.model.plain_letters or not piece.speech:
            return ""
        self.now = likeliest(piece.text, codes, self.now if self.now in codes else "en")
        return self.now

    def _tell_lacking(self, code: str) -> None:
        # a model without languages takes the language from the text
        if self.model.languages and code not in self._lacking:
            self._lacking.add(code)
            name = LANGUAGES[code].title()
            self.tell(Notice(f"the model does not speak {name}: words in that language are read like the others"))


def language_readers(
    model: Reads,
    language: str | None,
    wanted: bool | None,
    *,
    certain: bool,
    parts: bool = False,
    unreadable: str,
    tell: Callable[[Notice], None],
    watched: Callable[[Read | None], Read | None] = lambda read: read,
) -> LanguageReaders:
    """The languages of a text and their readers. `wanted`, `certain`, `parts`, `unreadable`: see `reader`. `watched`:
    a reader that looks for other languages too, unless the language is certain.
    """

    @cache
    def read_in(code: str) -> Read | None:
        if code and not model.plain_letters and code not in OWN:
            return read_in("")
        known = certain or bool(code)
        read = reader(wanted, code or language, model, certain=known, parts=parts, unreadable=unreadable, tell=tell)
        return read if certain else watched(read)

    return LanguageReaders(model, language or "", certain, read_in, tell)


def sentence_by_sentence(otherwise: Read) -> Read:
    """Reads each sentence in its own language where that is clear and has rules here."""

    def read(text: str) -> str:
        seen = detect(text)
        clear = seen.language in OWN and seen.confidence >= CERTAIN
        return (normaliser(str(seen.language)) if clear else otherwise)(text)

    return read


def in_plain_letters(only: bool, readable: Unreadable, parts: bool) -> Read:
    """The reader of a model of plain letters; `only`: numbers and signs are left to it."""
    if only:
        return readable
    from omnitts_cli.text.spell_out import plain_letters, plain_part

    read = plain_part if parts else plain_letters
    return lambda text: read(readable(text))


def in_letters_of(language: str, only: bool, readable: Unreadable, parts: bool) -> Read:
    """The same for a language with accents."""
    read = normaliser(language)

    def words(text: str) -> str:
        text = readable(text) if only else read(readable(text))
        return text if parts or not has_speech(text) or text.rstrip()[-1:] in STOPS else f"{text.rstrip(' ,;:-')}."

    return words


def normaliser(language: str) -> Read:
    """Numbers, dates, units and signs as words of that language."""
    if language == "en":
        from omnitts_cli.text.spell_out import spell_out

        return spell_out
    if language in MODULES:
        from omnitts_cli.text.spoken.european.reader import speller

        return speller(language)
    if language not in EXTRA:
        raise UsageError(f"--normalize does not support '{language}'", hint=f"supported: {', '.join((*OWN, *EXTRA))}")
    return of_wetext(language)


def of_wetext(language: str) -> Read:
    """The reader of wetext for a language; raises UsageError without wetext."""
    try:
        from wetext import Normalizer
    except ImportError:
        raise UsageError(
            f"--normalize for '{language}' needs wetext, which is not installed",
            hint="pip install wetext",
        ) from None
    rules: Any = Normalizer(lang=language, operator="tn")
    return lambda text: str(rules.normalize(text))
