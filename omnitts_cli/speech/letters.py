"""Letters as classes of sound: what each word should look like in a spectrum, from its spelling alone.

Eight classes suffice to find words in speech: silence, front vowels, other vowels, nasals, liquids, sibilants, other
fricatives, stops. Where spelling leaves it open, a sound has several classes, or may be absent.
"""

import re
import unicodedata
from dataclasses import dataclass

CLASSES = ("silence", "front", "vowel", "nasal", "liquid", "sibilant", "fricative", "stop")
SILENCE, FRONT, VOWEL, NASAL, LIQUID, SIBILANT, FRICATIVE, STOP = range(len(CLASSES))


@dataclass(frozen=True)
class Sound:
    """One sound: the classes that it may belong to, and whether it may be absent."""

    classes: tuple[int, ...]
    absent: bool = False


NAMES = {"V": (FRONT, VOWEL), "N": (NASAL,), "L": (LIQUID, VOWEL), "S": (SIBILANT,), "F": (FRICATIVE,), "T": (STOP,)}


def sound(text: str) -> Sound:
    """A sound as the table spells it: T/S is either, V? may be absent."""
    names = text.rstrip("?").split("/")
    return Sound(tuple(dict.fromkeys(one for name in names for one in NAMES[name])), text.endswith("?"))


# Spelling, then sounds. The first that matches counts; ^ and $ are the ends of a word.
SPELLINGS = tuple(
    (spelling, tuple(map(sound, sounds.split())))
    for spelling, _, sounds in (
        entry.strip().partition(" ")
        for entry in """
        ought V T | aught V T | tion S V? N | sion S V? N | tial S V? L | cial S V? L | cious S V? S | tious S V? S
        ture T S V? L? | tch T S | sch S | eigh V | igh V | ugh$ V F? | gh F/T? | ^kn N | ^gn N | ^ps S | ^wr L?
        ^wh L/F | wh L | ^x S | mb$ N | mn$ N | gn$ N | sten$ S V N | stle$ S L | bt$ T | le$ L | les$ L S | ed$ V? T
        es$ V? S | e's$ V? S | ck T | sh S | ch T/S S? | ph F | th F | dge T S | ge$ T S | gi T/S V | ge T/S V | qu T L?
        ng N T? | nk N T | sce S V | sci S V | ce$ S | se$ S | ze$ S | ce S V? | ci S V? | cy S V | x T S | j T/S S?
        c T | k T | g T | q T | p T | b T | d T | t T | s S | z S | f F | v F | h F? | m N | n N | l L | r L? | w L?
        """.replace("\n", "|").split("|")
        if entry.strip()
    )
)
V, V_OR_NOTHING, ANY = sound("V"), sound("V?"), sound("V/N/L/S/F/T")
SYLLABLE = (sound("N/L/S/F/T?"), V, sound("N?"))
VOWELS = re.compile("[aeiouy]+")
CYRILLIC = dict(
    zip("абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
        "a b v g d e o zh z i i k l m n o p r s t u f h ts ch sh sh _ i _ e u a".split(), strict=True)
)  # fmt: skip
LETTERS = {**CYRILLIC, "ß": "s", "æ": "a", "ø": "o", "œ": "o", "ł": "l", "đ": "d", "ð": "th", "þ": "th", "ı": "i"}


def sounds_of(word: str) -> list[Sound]:
    """The sounds of a word. A character that is not a letter of an alphabet, such as a Chinese one, is a syllable."""
    plain, rest = [], []
    for character in unicodedata.normalize("NFKD", word.casefold()):
        if character in LETTERS:
            plain.append(LETTERS[character].replace("_", ""))
        elif character.isascii() and (character.isalpha() or character == "'"):
            plain.append(character)
        elif character in "’ʼ":
            plain.append("'")
        elif character.isalpha():
            rest.append(character)
        elif character.isdigit():
            rest += [character] * 2
    found = spelled("".join(plain))
    for _ in rest:
        found += SYLLABLE
    if not any(not sound.absent for sound in found):
        found = [Sound(sound.classes) for sound in found[:1]] or [ANY]
    return found


def spelled(word: str) -> list[Sound]:
    """The sounds of a word in Latin letters."""
    word = word.strip("'")
    found: list[Sound] = []
    at, last_vowel = 0, max((m.start() for m in VOWELS.finditer(word)), default=-1)
    while at < len(word):
        group = VOWELS.match(word, at)
        if group and not any(matches(word, at, spelling) for spelling, _ in SPELLINGS if spelling[0] in "aeiou"):
            found += vowels(word, group, last_vowel)
            at = group.end()
            continue
        for spelling, sounds in SPELLINGS:
            if matches(word, at, spelling):
                letters = spelling.strip("^$")
                if found and len(letters) == 1 and word[at - 1] == letters:
                    pass  # a doubled consonant is one
                else:
                    found += sounds
                at += len(letters)
                break
        else:
            at += 1
    return found


def matches(word: str, at: int, spelling: str) -> bool:
    """Returns whether a spelling stands at a place of a word; ^ is its beginning, $ its end."""
    letters = spelling.strip("^$")
    if not word.startswith(letters, at) or (spelling[0] == "^" and at):
        return False
    return spelling[-1] != "$" or at + len(letters) == len(word)


def vowels(word: str, group: re.Match[str], last: int) -> list[Sound]:
    """Vowels in a row: one sound, and perhaps a second. A last e after a consonant is silent if there is another."""
    letters = group[0]
    ends = group.end() == len(word)
    if letters == "e" and ends and group.start() and group.start() == last and VOWELS.search(word[: group.start()]):
        return [V_OR_NOTHING]
    if len(letters) == 1:
        return [V]
    if letters in ("ee", "oo", "ea", "ai", "ou", "oa", "au", "ay", "ey", "oe", "ei"):
        return [V]
    return [V, V_OR_NOTHING]
