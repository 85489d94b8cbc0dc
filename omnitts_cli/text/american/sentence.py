"""A sentence -> its sounds: each word by itself, then what depends on its neighbours.

Read from the end, as "the", "a" and "to" sound different before a vowel, and function words at the end of a clause.
"""

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from omnitts_cli.text.american.context import FILE, Tagger
from omnitts_cli.text.american.questions import falls
from omnitts_cli.text.american.senses import SENSES
from omnitts_cli.text.american.words import VOWELS, Readings, WordReader

HERE = Path(__file__).parent
TOKEN = re.compile(r"[A-Za-z']+(?:-[A-Za-z']+)*|[,.!?]")
CONSONANTS = frozenset("bdfhjklmnpstvwzðŋɡɹTʃʒʤʧθ")
MARKS = frozenset(",.!?")
KEPT = 50_000
"""Words whose readings are kept."""
PARENT = {"N": "NOUN", "B": "VERB", "P": "VERB", "D": "VERB", "M": "VERB", "Z": "VERB", "G": "VERB", "J": "ADJ",
          "R": "ADV", "T": "DT"}  # fmt: skip
TAGGED = frozenset(PARENT.values()) | {"VBP", "VBD", "VBN"}
EXACT = {"P": "VBP", "D": "VBD", "M": "VBN"}


class SentenceReader:
    """Reads sentences of English letters, apostrophes, hyphens and `,.!?`."""

    def __init__(self, folder: Path = HERE) -> None:
        self._folder = folder
        self._words = WordReader(folder)
        self._readings = lru_cache(KEPT)(self._found)

    @cached_property
    def _tagger(self) -> Tagger:
        return Tagger(self._folder / FILE)

    def spoken(self, text: str, start: int = 0, end: int | None = None) -> str:
        """The sounds of the text, or of the words that begin between two of its places."""
        places = [(found.start(), found[0]) for found in TOKEN.finditer(text)]
        words = [word for _, word in places]
        vowel: bool | None = None
        said: list[str] = []
        for at in range(len(words) - 1, -1, -1):
            word = words[at]
            if word in MARKS:
                sounds, vowel = "." if word == "?" and falls(words, at) else word, None
            else:
                sounds = self._sounds(words, at, vowel)
                vowel = onset if (onset := begins_with_vowel(sounds)) is not None else vowel
            if start <= places[at][0] and (end is None or places[at][0] < end) and sounds:
                said.append(sounds if word in MARKS else f" {sounds}")
        return "".join(reversed(said))

    def _sounds(self, words: Sequence[str], at: int, vowel: bool | None) -> str:
        word = words[at]
        if len(word) == 1 or not word.isupper():
            readings = self._readings(word, False)
        elif words[at + 1 : at + 2] == ["and"] and re.fullmatch("[A-Z]", "".join(words[at + 2 : at + 3])):
            return self._words.spelled(word)  # AT&T
        else:
            readings = self._readings(word, self._shouted(words, at))
        return readings if isinstance(readings, str) else self._chosen(readings, words, at, vowel)

    def _found(self, word: str, shouted: bool) -> str | Readings:
        special = SPECIAL.get(word.lower()) if word != "AM" or shouted else None
        return special or self._words.readings(word, shouted)

    def _shouted(self, words: Sequence[str], at: int) -> bool:
        """Whether a word in capitals is one of several that are shouted, or an acronym."""
        near = [words[n] for n in range(max(0, at - 2), min(len(words), at + 3)) if n != at]
        long = [word for word in near if len(word) > 1 and word.isalpha()]
        return sum(word.isupper() for word in long) * 2 > len(long) > 0 and any(
            self._words.ordinary(other) for other in (*long, words[at]) if other.isupper()
        )

    # ---- words with several readings

    def _chosen(self, readings: Readings, words: Sequence[str], at: int, vowel: bool | None) -> str:
        word = words[at].lower()
        if "before" in readings:  # SPECIAL
            return self._special(readings, words, at, vowel)
        if vowel is None and "None" in readings:
            return readings["None"]
        sense = SENSES.get(word)
        if sense is not None and (key := sense(words, at)) is not None:
            return readings.get(key, readings["DEFAULT"])
        if not readings.keys() & TAGGED:
            return readings["DEFAULT"]
        kind = kind_of(word)
        before = words[at - 1].lower() if at else ""
        if before in BEFORE_VERBS and "B" in kind:
            tag = "B"
        elif "N" in kind and before.endswith(("'s", "s'")) and before not in CONTRACTIONS:
            tag = "N"  # a possessive
        else:
            tag = self._tagger.tag(words, at, kind)
        return readings.get(EXACT.get(tag, ""), readings.get(PARENT.get(tag, ""), readings["DEFAULT"]))

    def _special(self, readings: Readings, words: Sequence[str], at: int, vowel: bool | None) -> str:
        word = words[at]
        lower = word.lower()
        if lower == "a":
            after = words[at + 1] if at + 1 < len(words) else "."
            letter = after in AFTER_LETTERS or (len(after) == 1 and after not in "aAI")  # or a mark
            alone = letter or (word == "A" and at > 0 and words[at - 1] not in MARKS)
            return readings["alone" if alone else "before"]
        if word == "i":
            return "ˈI"
        if vowel is None:
            return readings["alone"]
        return readings["vowel" if vowel else "before"]


@lru_cache(KEPT)
def begins_with_vowel(sounds: str) -> bool | None:
    """None: a reduced vowel says nothing."""
    return next((sound in VOWELS for sound in sounds if sound in VOWELS or sound in CONSONANTS), None)


def kind_of(word: str) -> str:
    """The parts of speech that a word of several readings can be, as the tagger was taught them."""
    if word in KINDS:
        return KINDS[word]
    if word.endswith("s") and not word.endswith("ss"):
        return "NZ"
    if word.endswith("ed"):
        return "DMJ"
    if word.endswith("ing"):
        return "NGJ"
    return "NBPJ" if word.endswith("ate") or word in ADJECTIVES else "NBP"


KINDS = {
    "that": "TX", "that's": "TX", "read": "BPDM", "reread": "BPDM", "wound": "NDM", "used": "DM", "live": "BPJ",
    "in": "RX",
}  # fmt: skip
BEFORE_VERBS = frozenset(
    "i you we they i'll you'll we'll they'll he'll she'll it'll will would can could should must might may cannot "
    "can't won't wouldn't couldn't shouldn't don't didn't doesn't".split()
)
"""After these comes a verb, whatever follows."""
CONTRACTIONS = frozenset("that's it's he's she's there's here's what's who's where's how's let's".split())
ADJECTIVES = frozenset(
    "absent abstract close compact complex content converse diffuse direct frequent invalid minute perfect present "
    "subject upset".split()
)


AFTER_LETTERS = frozenset("slash plus minus sharp flat".split())
SPECIAL: dict[str, Readings] = {
    "a": {"before": "ɐ", "alone": "ˈA"},
    "an": {"before": "ɐn", "alone": "ɐn", "vowel": "ɐn"},
    "the": {"before": "ðə", "alone": "ðə", "vowel": "ði"},
    "to": {"before": "tə", "alone": "tu", "vowel": "tʊ"},
    "in": {"before": "ɪn", "alone": "ˈɪn", "vowel": "ɪn"},
    "am": {"before": "ɐm", "alone": "æm", "vowel": "ɐm"},
    "i": {"before": "ˌI", "alone": "ˌI", "vowel": "ˌI"},
}
"""Function words, by what follows them: a consonant, a vowel, or the end of a clause."""


@lru_cache(maxsize=1)
def reader() -> SentenceReader:
    """The reader of this process; its files are read at the first use."""
    return SentenceReader()
