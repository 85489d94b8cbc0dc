"""A word on its own -> its sounds, in misaki's alphabet: looked up, put together from its parts, spelled, or guessed.

A word that is said in more than one way gives its readings by part of speech; `sentence.py` chooses.
"""

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from omnitts_cli.text.american.dictionary import SPACE, Dictionary
from omnitts_cli.text.given import sounds_of

Readings = dict[str, str]
"""Part of speech -> sounds; DEFAULT for the others. An empty one: the letters are named."""

VOWELS = frozenset("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ")
TAPPING = frozenset("AIOWYiuæɑəɛɪɹʊʌ")
"""Sounds after which a t before a vowel is tapped."""
SIBILANTS, VOICELESS = frozenset("szʃʒʧʤ"), frozenset("ptkfθ")
HISSED = frozenset("pkfθʃsʧ")  # before -ed
MARKS = str.maketrans("", "", "ˈˌ")
NUMBER_WORDS = frozenset(
    "twenty thirty forty fifty sixty seventy eighty ninety one two three four five six seven eight nine first second "
    "third fourth fifth sixth seventh eighth ninth".split()
)
INSIDE = {"the": "ðə", "a": "ə", "to": "tə", "in": "ɪn", "non": "nˌɑn", "re": "ɹˌi"}
"""Words inside a word with hyphens."""
FUNCTION_WORDS = frozenset(
    "the and is are was not you for of to on my we this that with no all do be go if up out now your our who how why "
    "what stop don't i'm let get has had have can will by from but his her she he they them me so new one two".split()
)
CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z']+|[A-Z]")
PLURAL_LETTERS = re.compile("[A-Z]{2,5}s")
VOWEL_LETTER = re.compile("[aeiouy]")
# What a word may begin with, and what is left must be a word of at least four letters.
PREFIXES = {
    "un": "ˌʌn", "re": "ɹˌi", "non": "nˌɑn", "pre": "pɹˌi", "anti": "ˌænti", "over": "ˌOvəɹ", "under": "ˌʌndəɹ",
    "sub": "sˌʌb", "super": "sˌupəɹ", "inter": "ˌɪntəɹ", "multi": "mˌʌlti", "micro": "mˌIkɹO", "mini": "mˌɪni",
    "auto": "ˌɔTO", "hyper": "hˌIpəɹ", "counter": "kˌWntəɹ", "semi": "sˌɛmi", "cyber": "sˌIbəɹ", "bio": "bˌIO",
    "geo": "ʤˌiO", "neuro": "nˌʊɹO", "meta": "mˌɛTə", "mega": "mˌɛɡə", "kilo": "kˌɪlO", "nano": "nˌænO",
    "de": "dˌi", "dis": "dˌɪs", "mis": "mˌɪs", "out": "ˌWt", "up": "ˌʌp", "co": "kˌO", "post": "pˌOst", "ex": "ˌɛks",
}  # fmt: skip
SUFFIXES = {
    "ness": "nəs", "less": "ləs", "ly": "li", "ful": "fəl", "ment": "mənt", "ship": "ʃɪp", "hood": "hʊd",
    "able": "əbᵊl", "er": "əɹ", "ers": "əɹz", "ish": "ɪʃ", "like": "lˌIk", "wise": "wˌIz", "ism": "ˌɪzᵊm",
    "ist": "ɪst", "ize": "Iz", "izer": "Izəɹ", "dom": "dəm", "y": "i",
}  # fmt: skip
LONGEST = 60
"""Letters of a word that is taken apart; longer runs of letters are guessed."""


class WordReader:
    """All of it; `readings` for a word in letters, apostrophes and hyphens. `find`: gives the line of a word."""

    def __init__(self, folder: Path, find: Callable[[str], str | None] | None = None) -> None:
        self._folder = folder
        self._find = find or Dictionary(folder / "words.bin").find

    @cached_property
    def _guess(self):  # type: ignore[no-untyped-def]
        from omnitts_cli.text.american.letters import FILE, LetterSounds

        return LetterSounds(self._folder / FILE)

    def readings(self, word: str, shouted: bool = False) -> str | Readings:
        """`shouted`: the words around it are in capitals too, so that it is not an acronym."""
        if len(word) == 1:
            word = word.upper()  # the name of a letter
        if (given := sounds_of(word)) is not None:
            return given
        if "-" in word:
            return self._joined(word, shouted)
        found = self._known(word, shouted)
        return found if found is not None else self._unknown(word)

    # ---- words of the dictionary

    def _known(self, word: str, shouted: bool) -> str | Readings | None:
        """The dictionary's readings of a word or of what it is an inflection of."""
        if len(word) > LONGEST:
            return None
        found = self._stored(word)
        capitals = len(word) > 1 and word.isupper()
        if found is None and capitals:
            found = self._acronym(word, shouted)
        elif found is None and PLURAL_LETTERS.fullmatch(word):
            return plural(default(self._known(word[:-1], False) or self.spelled(word[:-1])))
        if found is None:
            found = self._possessive(word, shouted) or self.inflected(word.lower() if capitals else word)
        if found is None:
            return None
        if isinstance(found, dict):
            if "NOUN" in found and not found["NOUN"]:  # AM, IT, US
                found = found["DEFAULT"] if shouted or not capitals else self.spelled(word)
            else:
                return {tag: stressed(spoken, word) for tag, spoken in found.items()}
        return stressed(found, word)

    def _stored(self, word: str) -> str | Readings | None:
        """The entry of exactly this word, or of the same word with or without a capital."""
        line = self._find(word)
        if line is None and len(word) > 1:
            if word.islower():
                line = self._find(word.capitalize())
            elif word[1:].islower():
                line = self._find(word.lower())
        return None if line is None else parsed(line)

    def _acronym(self, word: str, shouted: bool) -> str | Readings | None:
        """A word in capitals that is not an entry: a word after all, or letters."""
        line = self._find(word.lower()) or self._find(word.capitalize())
        if line is not None and (shouted or len(word) > 3 or not line.startswith("-")):
            return parsed(line)
        if shouted or len(word) > 5 or word.endswith("'S"):
            return None
        return self.spelled(word)

    def ordinary(self, word: str) -> bool:
        """Whether a word in capitals is certainly no acronym: a list of acronyms is not shouted."""
        lower = word.lower()
        if len(word) < 4 or lower in FUNCTION_WORDS:
            return lower in FUNCTION_WORDS
        line = self._find(lower)
        return line is not None and not line.startswith("-") and self._find(word) is None

    def spelled(self, word: str) -> str:
        """The names of the letters; the last one has the stress."""
        names = [self._find(letter.upper()) for letter in word if letter.isalpha()]
        spoken = "".join((name or "").lstrip("-").replace("ˌ", "").replace("ˈ", "ˌ") for name in names)
        return "ˈ".join(spoken.rsplit("ˌ", 1))

    def _possessive(self, word: str, shouted: bool) -> str | Readings | None:
        if word.endswith("'"):
            return self._known(word[:-1], shouted) if len(word) > 1 else None
        stem, mark, ending = word.rpartition("'")
        if mark and ending.lower() == "s" and stem:
            return with_ending(self._known(stem, shouted), plural)
        return None

    def inflected(self, word: str) -> str | Readings | None:
        """A word as the plural, past or -ing form of an entry."""
        for ending, stems, add in INFLECTIONS:
            if word.endswith(ending) and len(word) > len(ending) + 1:
                for stem in stems(word):
                    found = self._stored(stem) if len(stem) > 1 else None
                    if found is not None:
                        return with_ending(found, add)
        return None

    # ---- words with parts

    def _joined(self, word: str, shouted: bool) -> str:
        """A word with hyphens: an entry, a number, or parts of which the later half lose their stress."""
        whole = self._stored(word)
        if whole is not None:
            return stressed(default(whole), word)
        parts = [part for part in word.split("-") if part.strip("'")]
        spoken = [INSIDE.get(part) or default(self.readings(part, shouted)) for part in parts]
        numbers = sum(part.lower() in NUMBER_WORDS for part in parts)
        if 0 < numbers < len(parts):  # mostly digits before they were words, as in 80-column
            return " ".join(spoken)
        return "".join(balanced(spoken, len(parts[0]) == 1 if parts else False))

    def _unknown(self, word: str) -> str | Readings:
        """A word that no rule of the dictionary gives."""
        lower = word.lower()
        bare = lower.strip("'")
        if not bare:
            return ""
        if bare != lower:
            return self.readings(word.strip("'"))
        if not VOWEL_LETTER.search(lower):
            return self.spelled(word[:LONGEST])
        if len(word) <= LONGEST:
            parts = CAMEL.findall(word)
            if len(parts) > 1 and not word.isupper():
                return "".join(balanced([default(self.readings(part)) for part in parts], len(parts[0]) == 1))
            found = self._taken_apart(lower)
            if found is not None:
                return found
        return self._guessed(lower)

    def _taken_apart(self, word: str) -> str | None:
        """A prefix or a suffix and a word, or two words."""
        for size in range(6, 1, -1):
            spoken, rest = PREFIXES.get(word[:size]), word[size:]
            if spoken and len(rest) > 3 and (found := self._known(rest, False)) is not None:
                return spoken + default(found)
        for size in range(4, 0, -1):
            spoken, stem = SUFFIXES.get(word[-size:]), word[:-size]
            if spoken and len(stem) > 3:
                for whole in (stem, stem + "e", stem[:-1] + "y" if stem.endswith("i") else stem):
                    if (found := self._stored(whole)) is not None:
                        return default(found) + spoken
        return self._two_words(word)

    def _two_words(self, word: str) -> str | None:
        for at in range(len(word) - 3, 2, -1):
            first, second = self._stored(word[:at]), self._known(word[at:], False)
            if first is not None and second is not None and min(at, len(word) - at) > (2 if len(word) > 7 else 3):
                return "".join(balanced([default(second), default(first)], False)[::-1])
        return None

    def _guessed(self, word: str) -> str:
        stem, mark, ending = word.rpartition("'")
        if mark and ending == "s":
            return plural(self._guessed(stem.replace("'", "")))
        spoken: str = self._guess.spoken(word.replace("'", ""))
        if "ˈ" not in spoken:
            spoken = stress_first(spoken.replace("ˌ", "ˈ", 1) if "ˌ" in spoken else spoken, "ˈ")
        return spoken


def parsed(line: str) -> str | Readings:
    """A line of the dictionary."""
    first, *others = (part.replace(SPACE, " ") for part in line.removeprefix("-").split(" "))
    if not others:
        return first
    return {"DEFAULT": first} | dict(other.split(":", 1) for other in others)  # type: ignore[misc]


def default(readings: str | Readings) -> str:
    return readings if isinstance(readings, str) else readings["DEFAULT"]


def with_ending(readings: str | Readings | None, add) -> str | Readings | None:  # type: ignore[no-untyped-def]
    if isinstance(readings, dict):
        return {tag: add(spoken) for tag, spoken in readings.items() if spoken}
    return add(readings) if readings else None


def plural(stem: str) -> str:
    return stem + ("s" if stem[-1] in VOICELESS else "ᵻz" if stem[-1] in SIBILANTS else "z")


def past(stem: str) -> str:
    if stem[-1] == "t":
        return (stem[:-1] + "Tᵻd") if stem[-2:-1] and stem[-2] in TAPPING else stem + "ᵻd"
    return stem + ("ᵻd" if stem[-1] == "d" else "t" if stem[-1] in HISSED else "d")


def going(stem: str) -> str:
    if stem[-1] == "t" and stem[-2:-1] and stem[-2] in TAPPING:
        return stem[:-1] + "Tɪŋ"
    return stem + "ɪŋ"


def stems_of_s(word: str) -> list[str]:
    if word.endswith("ss"):
        return []
    stems = [word[:-1]]
    if word.endswith("ies") and len(word) > 4:
        stems.append(word[:-3] + "y")
    elif word.endswith("es") and len(word) > 4:
        stems.append(word[:-2])
    return stems


def stems_of_ed(word: str) -> list[str]:
    stems = [word[:-1], word[:-2]]
    if word[-3:-2] == word[-4:-3]:
        stems.append(word[:-3])  # planned
    if word.endswith("ied"):
        stems.append(word[:-3] + "y")
    return stems


def stems_of_ing(word: str) -> list[str]:
    stems = [word[:-3], word[:-3] + "e"]
    if word[-4:-3] == word[-5:-4]:
        stems.append(word[:-4])  # planning
    if word.endswith("cking"):
        stems.append(word[:-4])  # panicking
    return stems


INFLECTIONS = (("s", stems_of_s, plural), ("ed", stems_of_ed, past), ("ing", stems_of_ing, going),
               ("in'", lambda word: stems_of_ing(word[:-1] + "g"), lambda stem: going(stem)[:-2] + "ən"))  # fmt: skip


def stressed(spoken: str, word: str) -> str:
    """A word with a capital has a stress; one in capitals a strong one."""
    if word.islower() or "ˈ" in spoken:
        return spoken
    if "ˌ" in spoken:
        return spoken.replace("ˌ", "ˈ") if word.isupper() else spoken
    return stress_first(spoken, "ˈ" if word.isupper() else "ˌ")


def stress_first(spoken: str, mark: str) -> str:
    """A stress mark before the first vowel, unless there is none."""
    at = next((n for n, sound in enumerate(spoken) if sound in VOWELS), None)
    return spoken if at is None else spoken[:at] + mark + spoken[at:]


def weakened(spoken: str) -> str:
    """The strong stress made weak, the weak ones dropped."""
    return spoken.replace("ˌ", "").replace("ˈ", "ˌ") if "ˈ" in spoken else spoken


def weight(spoken: str) -> int:
    return sum(2 if sound in "AIOQWYʤʧ" else 1 for sound in spoken)


def balanced(parts: list[str], letter_first: bool) -> list[str]:
    """Parts of one word: with too many strong stresses, the lighter half becomes weak."""
    parts = [part for part in parts if part]
    if len(parts) == 2 and letter_first:
        return [parts[0], weakened(parts[1])]
    strong = sum("ˈ" in part for part in parts)
    if len(parts) < 2 or strong <= (len(parts) + 1) // 2:
        return parts
    lightest = sorted(range(len(parts)), key=lambda n: ("ˈ" in parts[n], weight(parts[n]), n))
    for n in lightest[: len(parts) // 2]:
        parts[n] = weakened(parts[n])
    return parts
