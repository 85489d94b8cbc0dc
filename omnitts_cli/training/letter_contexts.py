"""Makes the tables of `text/european`: what letters stand for in their contexts, counted in what espeak-ng reads.

    python -m omnitts_cli.training.letter_contexts es --words FILE --texts FILE... --work DIR

--words has one word a line; --texts has sentences. Words are read in random company, small words among them, so that
their ends meet every kind of neighbour; sentences teach how small words follow each other. Each letter is aligned with
the sounds that it stands for, contexts of growing size are counted, and those that say the same as a shorter one are
left out.
One word in 25 and one sentence in 25 are held out; the shares of words that come out right are printed; --all holds out
none. The result is DIR/<language>.bin. espeak-ng (GPL) is called as a library and only here; nothing of it is stored.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import re
import sys
import unicodedata
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from omnitts_cli.text.european.contexts import (
    BY_ACCENT,
    BY_LETTER,
    CLAUSE,
    ONLY_SECONDARY,
    PART,
    PRIMARY,
    SECONDARY,
    Tables,
    by_accent,
    capitals,
    nuclei,
    second_keys,
    sound_keys,
    spoken,
    stress_keys,
    write,
)
from omnitts_cli.text.language import word_lists
from omnitts_cli.training.alignment import LetterAlignment

VOICES = {"es": "es", "fr": "fr", "it": "it", "pt": "pt-br"}
MOST_ALIGNED = 12_000  # pairs that the probabilities of the alignment are learned from
ELIDED = {
    "fr": ("l'", "d'", "j'", "qu'", "n'", "s'", "m'", "t'", "c'"),
    "it": ("l'", "d'", "un'", "dell'", "all'", "nell'", "dall'", "sull'", "quell'", "c'"),
}
ELIDED_SHARE = 0.3  # of words that begin with a vowel
SMALL_TOO = {
    "fr": (
        "ils elles ont sont suis es sommes êtes avons avez avais avait avaient étaient était eu peu beaucoup "
        "tous toutes quelques chaque ces ses mes tes leurs nos vos mon ton quand sans vers après avant depuis "
        "pendant jusque presque mieux trop hier comment combien dont deux trois cinq six huit dix vingt cent "
        "gros grand petit petits petites vieux vieil premier faut doit peut veut fait vont vais dit lui moi "
        "toi eux rien jamais plus tout toute encore déjà alors puis"
    ),
}
BY_RULE = 0.9  # of the words with an accent that have the stress there: a language above it shows stress by accents
COMPANY = 7  # words that are read together
WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*['’]?")
SYNCHRONOUS, UTF8, AS_IPA = 2, 1, 2  # of espeak-ng's library


class Espeak:
    """espeak-ng's reading of a text."""

    def __init__(self, language: str) -> None:
        self._library = ctypes.CDLL("libespeak-ng.so.1")
        self._library.espeak_Initialize(SYNCHRONOUS, 0, None, 0)
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._library.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
        if self._library.espeak_SetVoiceByName(VOICES[language].encode()):
            raise SystemExit(f"espeak-ng has no voice {VOICES[language]}")

    def clauses(self, text: str) -> list[list[str]]:
        """The phonemes of each word, clause by clause."""
        buffer = ctypes.create_string_buffer(text.encode())
        place, found = ctypes.c_void_p(ctypes.addressof(buffer)), []
        while place.value:
            said = self._library.espeak_TextToPhonemes(ctypes.byref(place), UTF8, AS_IPA)
            if said and said.strip():
                found.append(said.decode().replace("-", "").split())
        return found


def units(spoken_word: str) -> list[str]:
    """Sounds with the marks that belong to them: stress before, length and nasality after."""
    return re.findall(r"[ˈˌ]?.[\u0300-\u036fːˑʰʲ]*", spoken_word)


Clause = tuple[list[str], list[str]]
"""Written words and what each is read as."""


def clauses_of(espeak: Espeak, text: str) -> Iterator[Clause]:
    """The clauses of a text of which every word is read as one."""
    text = unicodedata.normalize("NFC", text)
    for piece in re.split(r"[,.;:!?…()«»“”\"—–]+\s*", text):
        written = WORD.findall(piece)
        if any(len(word) > 1 and word.isupper() for word in written):
            continue  # read as letters
        words = [word.lower().replace("’", "'") for word in written]
        said = espeak.clauses(piece.strip())
        if len(said) == 1 and len(said[0]) == len(words) and "(" not in said[0][0] + "".join(said[0]):
            yield words, said[0]


def in_company(
    words: Sequence[str], times: int, small: Sequence[str] = (), elided: Sequence[str] = ()
) -> Iterator[str]:
    """The words in random order, several at a time, with small words between them, and elided ones before vowels."""
    for seed in range(times):
        draw = random.Random(seed)
        mixed = list(words)
        draw.shuffle(mixed)
        for n in range(0, len(mixed), COMPANY):
            said: list[str] = []
            for word in mixed[n : n + COMPANY]:
                said += draw.choices(small, k=draw.choice((0, 1, 1, 2))) if small else []
                vowel = elided and unicodedata.normalize("NFD", word)[0] in "aeiouyhœ"
                said.append(draw.choice(elided) + word if vowel and draw.random() < ELIDED_SHARE else word)
            yield " ".join(said)


def held_out(text: str) -> bool:
    return zlib.crc32(text.encode()) % 25 == 0


class ContextCounts:
    """Examples of one question: contexts from the shortest to the longest, and the answer."""

    def __init__(self) -> None:
        self._examples: list[tuple[Iterator[str], str]] = []

    def add(self, keys: Iterator[str], said: str) -> None:
        self._examples.append((keys, said))

    def table(self) -> dict[str, str]:
        """The contexts that say something else than the longest shorter one. A context whose examples agree is not
        made longer.
        """
        found: dict[str, str] = {}
        left = [(keys, said, "\0") for keys, said in self._examples]
        while left:
            counts: dict[str, Counter[str]] = defaultdict(Counter)
            level = [
                (key, keys, said, shorter) for keys, said, shorter in left if (key := next(keys, None)) is not None
            ]
            for key, _, said, _ in level:
                counts[key][said] += 1
            says = {}
            for key, _, _, shorter in level:
                if key not in says:
                    best, times = counts[key].most_common(1)[0]
                    says[key] = shorter if times == counts[key][shorter] else best
                    if says[key] != shorter:
                        found[key] = best
            left = [(keys, said, says[key]) for key, keys, said, _ in level if len(counts[key]) > 1]
        return found


def learn(clauses: Sequence[Clause], tell: Callable[[str], None]) -> Tables:
    """Counts every context of the clauses."""
    pairs = sorted({pair for words, said in clauses for pair in zip(words, said, strict=True)})
    alignment = LetterAlignment(units)
    alignment.learn(random.Random(0).sample(pairs, min(MOST_ALIGNED, len(pairs))), rounds=4)
    chunks = {pair: parts for pair in pairs if (parts := alignment.align(*pair))}
    tell(f"{len(clauses)} clauses, {len(pairs)} readings of words, {len(chunks)} aligned")
    stress, second, sounds = ContextCounts(), ContextCounts(), ContextCounts()
    for words, said in clauses:
        pieces = [chunks.get(pair) for pair in zip(words, said, strict=True)]
        if None in pieces:
            continue
        text = f"{CLAUSE}{' '.join(words)}{CLAUSE}"
        flat = ["", *(chunk for piece in pieces for chunk in (*piece, ""))]  # type: ignore[misc]
        count_sentence(text, flat, stress, second, sounds)
    table = stress.table()
    if (share := accents_stressed(chunks)) > BY_RULE:
        table[BY_ACCENT] = f"{share:.2f}"
    return Tables(table, second.table(), sounds.table())


def accents_stressed(chunks: Mapping[tuple[str, str], Sequence[str]]) -> float:
    """Of the words with an accent, the share that has the stress there."""
    found = [
        PRIMARY in parts[places[-accent]]
        for (word, _), parts in chunks.items()
        if word.isalpha() and (accent := by_accent(word, places := nuclei(word)))
    ]
    return sum(found) / max(1, len(found))


def count_sentence(
    text: str, chunks: Sequence[str], stress: ContextCounts, second: ContextCounts, sounds: ContextCounts
) -> None:
    marks = {
        n: PRIMARY if PRIMARY in chunk else SECONDARY
        for n, chunk in enumerate(chunks)
        if PRIMARY in chunk or SECONDARY in chunk
    }
    for part in PART.finditer(text):
        own = {n - part.start(): mark for n, mark in marks.items() if part.start() <= n < part.end()}
        count_stress(part[0], text[part.end()], own, stress, second)
    text = capitals(text, marks)
    for at, letter in enumerate(text):
        if letter not in " |":
            plain = chunks[at].replace(PRIMARY, "").replace(SECONDARY, "")
            sounds.add(sound_keys(text, at, marks.get(at, "")), plain)


def count_stress(part: str, after: str, marks: dict[int, str], stress: ContextCounts, second: ContextCounts) -> None:
    """The primary stress by the end of the word, and the others by their distance from it."""
    places = nuclei(part)
    main = [n for n, mark in marks.items() if mark == PRIMARY][-1:] or sorted(marks)[:1]
    label, stressed = 0, None
    if main:
        if main[0] in places:
            stressed = places.index(main[0])
            label = len(places) - stressed
        elif len(part) - main[0] < ONLY_SECONDARY:
            label = BY_LETTER + len(part) - main[0]
        label += ONLY_SECONDARY if label and marks[main[0]] == SECONDARY else 0
    stress.add(stress_keys(part, after), str(label))
    before = False
    for n, place in enumerate(places):
        if n == stressed:
            before = True
            continue
        mark = marks.get(place, "")
        second.add(second_keys(part, places, n, stressed, before), mark)
        before = bool(mark)


def right(tables: Tables, clauses: Iterable[Clause]) -> tuple[float, float]:
    """The share of words that come out right: wholly, and without regard to stress."""
    whole = bare = count = 0
    for words, said in clauses:
        chunks = spoken(f"{CLAUSE}{' '.join(words)}{CLAUSE}", tables)
        at = 1
        for word, meant in zip(words, said, strict=True):
            got = "".join(chunks[at : at + len(word)])
            at += len(word) + 1
            count += 1
            whole += got == meant
            bare += got.replace(PRIMARY, "").replace(SECONDARY, "") == meant.replace(PRIMARY, "").replace(SECONDARY, "")
    return whole / max(1, count), bare / max(1, count)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=VOICES)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--all", action="store_true", help="teach what is held out too, and judge nothing")
    parser.add_argument("--times", type=int, default=2, help="how often each word is read")
    given = parser.parse_args()
    espeak = Espeak(given.language)
    words = given.words.read_text("utf-8").split()
    lines = [line for path in given.texts for line in path.read_text("utf-8").splitlines()]
    small = [*word_lists(given.language)["small"], *SMALL_TOO.get(given.language, "").split()]
    elided = ELIDED.get(given.language, ())
    known = [word for word in words if given.all or not held_out(word)]
    taught = [
        *in_company(known, given.times, small, elided),
        *(line for line in lines if given.all or not held_out(line)),
    ]
    clauses = [clause for text in taught for clause in clauses_of(espeak, text)]
    tables = learn(clauses, tell)
    path = given.work / f"{given.language}.bin"
    write(path, tables)
    tell(f"{given.language}: contexts {[len(table) for table in tables]}, {path.stat().st_size / 1024:.0f} KiB")
    if given.all:
        return
    unseen = [
        clause
        for text in in_company([word for word in words if held_out(word)], 1)
        for clause in clauses_of(espeak, text)
    ]
    for name, sample in (("words held out", unseen), ("sentences held out", [
        clause for line in lines if held_out(line) for clause in clauses_of(espeak, line)
    ]), ("taught", random.Random(0).sample(clauses, min(2000, len(clauses))))):  # fmt: skip
        whole, bare = right(tables, sample)
        tell(f"{given.language}: {name}: {whole:.2%} of words, without stress {bare:.2%}")


if __name__ == "__main__":
    main()
