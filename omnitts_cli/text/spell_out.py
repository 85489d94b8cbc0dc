"""Written English -> English as it is read aloud: numbers, dates, times, money, units and signs as words.

`spell_out` leaves alone what is already words. `plain_letters` goes on to what a model reads that was taught
with letters and simple punctuation only; it refuses what it cannot turn into those. The rules are in `spoken/`,
and tests/text/written_forms.tsv says what each written form becomes.
"""

import html
import re
import unicodedata

from omnitts_cli.text.abbreviations import rules_for
from omnitts_cli.text.boundary import NO_VOWEL, starts_sentence
from omnitts_cli.text.spoken import amounts, codes, dates, files, measures, places, short_forms, signs, units
from omnitts_cli.text.spoken.rules import ReadingRules
from omnitts_cli.text.unreadable import GREEK, Unreadable

SIGNS = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "×": "times", "÷": "divided by", "<": "less than",
    ">": "greater than", "±": "plus or minus", "%": "percent", "‰": "per mille", "°": "degrees", "§": "section",
    "$": "dollar", "€": "euro", "£": "pound", "¥": "yen", "₹": "rupee", "₩": "won", "#": "hash", "≈": "about",
    "≠": "is not", "≤": "at most", "≥": "at least", "∞": "infinity", "√": "square root of", "→": "to",
    "©": "copyright", "∪": "union", "∩": "intersection", "∈": "in", "∠": "angle", "∑": "sum", "∫": "integral",
    "∂": "partial", "∴": "therefore", "⇒": "implies", "←": "from", "♯": "sharp", "♭": "flat", "★": "star",
    "♩": "quarter note",
    "∝": "is proportional to", "−": "minus",
}  # fmt: skip


FORMS = ReadingRules((
    *files.RULES, *codes.ADDRESSES, *dates.RULES, *codes.RULES, *places.RULES, *signs.RULES, *short_forms.RULES,
    *amounts.RULES, *measures.RULES, *short_forms.LAST,
))  # fmt: skip

PLACES = re.compile(
    r"(?<![A-Za-z])[A-Za-z]+|\d[\d]*|'(?=\d\d|\()| (?=[*−–—&|!=<>+:/-]|[x×] ?(?:[HWDLhwdl] )?\.?\d)|\.(?=\S)"
    r"|:(?=[-'()DPpOo|/]|\d\d )|;"
    r"(?=[-)])|!(?==)|(?<= )!(?=[a-z(])"
    r"|\?(?=\w)|[^A-Za-z\s.,:;!?\")\]]"
)
"""Where a form can begin."""

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
SUPERSCRIPT = re.compile("(?<=[\\w)])[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
FRACTION_AFTER_DIGIT = re.compile("(?<=\\d) ?(?=[¼½¾⅐-⅞])")
NOTE_AFTER = re.compile(r"[A-Za-z]{3}\Z")
FUNCTIONS = ("sin", "cos", "tan", "log")
AREA = {"²": "square", "³": "cubic"}
ENTITY = re.compile(r"&(?:amp;)?(?:[a-z]{2,8}|#\d{2,6});")
UNSAID = re.compile("[™®℠]")


def spell_out(text: str) -> str:
    """The text with its numbers, dates, times, money, units and common short forms as words."""
    if "&" in text and ";" in text:
        text = ENTITY.sub(lambda found: unescaped(found[0]), text)
    if not text.isascii():
        text = UNSAID.sub("", text)
        text = without_superscripts(FRACTION_AFTER_DIGIT.sub("\u2064", text))
        text = "".join(unicodedata.normalize("NFKC", c) if foldable(c) else c for c in text)
    return re.sub(" {2,}", " ", FORMS.read(text, PLACES)).replace("\u2064", " ")


def unescaped(entity: str) -> str:
    """&amp; -> &; what is not a character that can be printed stays."""
    character = html.unescape(html.unescape(entity))
    return " " if character == "\xa0" else character if character.isprintable() else entity


def foldable(character: str) -> bool:
    """Digits of other scripts, fractions and enclosed letters; not the signs that a rule reads."""
    return character not in "²³№" and unicodedata.category(character) in ("No", "Nd", "So")


def without_superscripts(text: str) -> str:
    """x² -> x^2, but not in a unit, which a rule reads; a mark after a word is a footnote's and is not spoken."""

    def plain(found: re.Match[str]) -> str:
        before = text[max(0, found.start() - 24) : found.start()]
        if found[0] in AREA and MEASURED_UNIT.search(before):
            return found[0]
        if NOTE_AFTER.search(before) and not before.endswith(FUNCTIONS):
            return ""
        return f"^{found[0].translate(SUPERSCRIPTS)}"

    return SUPERSCRIPT.sub(plain, text)


MEASURED_UNIT = re.compile(rf"(?:\d ?|/|per |\A|\s)(?:{units.UNIT})\Z")


FOLDED = str.maketrans({
    "’": "'", "‘": "'", "ʼ": "'", "´": "'", "`": "", "…": "...", "ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "Ae", "œ": "oe",
    "Œ": "Oe", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ð": "th", "Ð": "Th", "þ": "th", "Þ": "Th",
    "ı": "i", "ĳ": "ij", "µ": "μ", ";": ",", ":": ",", "(": ",", ")": ",", "[": ",", "]": ",", "{": ",", "}": ",",
    "—": ",", "–": ",", "―": ",", "|": ",", "•": ",", "_": " ", "/": " slash ", "\\": " backslash ", "¿": "", "¡": "",
})  # fmt: skip
SIGN = re.compile("[" + re.escape("".join(SIGNS)) + "]")
SPACED_INITIALS = re.compile(r"\b(?:[B-DF-HJ-NP-TV-Z]\. ){2,4}(?=[A-Z][a-z])")
"""Of a name, with no vowel that could make a word of them: C. S. Lewis."""
ACRONYMS = frozenset("USA FBI CIA UAE USSR NYPD LAPD UCLA MIA POW IOU".split())
INITIALS = re.compile(r"\b(?:[A-Za-z]\.){2,}")
LONGEST_SHORT_FORM = 6
INNER_STOP = re.compile(r"\b([A-Za-z]{2,6})\.(?= ([A-Za-z]))")
UNREAD = re.compile(r"[^A-Za-z ,.!?'-]+")
LOOSE_HYPHEN = re.compile(r"(?<![A-Za-z])-|-(?![A-Za-z])")
OF_SHORT_FORM = re.compile(r" ?\. ?,")
RUN = re.compile(r" ?[,.!?](?:[ ,.!?]*[,.!?])?")


refuse_foreign = Unreadable("fail")


def plain_letters(text: str) -> str:
    """A sentence in English letters, spaces and `,.!?'-`; empty where nothing of it can be said.

    Accents are dropped, single Greek letters named, signs without a sound left out; letters of other
    scripts are refused.
    """
    text = plain_part(text).strip(" ,-")
    if not any(c.isalpha() for c in text):
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def plain_part(text: str) -> str:
    """The same for a part of a sentence, whose ends touch other parts."""
    text = spell_out(refuse_foreign(text)).translate(FOLDED)
    text = INNER_STOP.sub(inner_stop, text.replace(". &", " &"))
    text = SPACED_INITIALS.sub(lambda found: found[0].replace(". ", "") + " ", text)
    text = INITIALS.sub(lambda found: initials(found, text), text)
    text = GREEK.sub(lambda found: f" {letter_name(found[0])} ", text)
    text = SIGN.sub(lambda found: f" {SIGNS[found[0]]} ", text)
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = LOOSE_HYPHEN.sub(" ", UNREAD.sub(" ", text))
    text = RUN.sub(lambda found: strongest(found[0]), re.sub(r"\s+", " ", text))
    return re.sub(r"([,.!?])(?=[A-Za-z'])", r"\1 ", text)


def letter_name(letter: str) -> str:
    """Of a Greek letter, in the usual spelling."""
    return unicodedata.name(letter, " ").split()[-1].lower().replace("lamda", "lambda")


def inner_stop(found: re.Match[str]) -> str:
    """A full stop before a small letter ends no sentence; that of a short form is not even a pause."""
    word, known = found[1].lower(), rules_for("en")
    if found[2].isupper():
        after = found.string[found.end() + 1 : found.end() + 24]
        inside = word in known.common or (word in known.short and found[1].istitle())
        return found[1] if inside and not starts_sentence(after, known) else found[0]
    if word in known.known or NO_VOWEL.fullmatch(word):
        return found[1]
    return f"{found[1]}," if len(word) <= LONGEST_SHORT_FORM and found.string.lstrip()[:1].isupper() else found[0]


def initials(found: re.Match[str], text: str) -> str:
    """U.S. -> U S; F.B.I. -> FBI, which is said as every acronym is."""
    letters = found[0].replace(".", "")
    acronym = letters in ACRONYMS or (len(letters) > 2 and letters.isupper() and not re.search("[AEIOUY]", letters))
    joined = letters if acronym else found[0].replace(".", " ").rstrip()
    return joined + "." * (found.end() == len(text))


def strongest(run: str) -> str:
    """Of marks in a row the one that counts; a full stop before a comma is that of a short form."""
    return "," if OF_SHORT_FORM.fullmatch(run) else next(mark for mark in "?!.," if mark in run)
