"""The ten languages: their names, and which of them a text is in. By script, then by small words and letters."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omnitts_cli.errors import UsageError
from omnitts_cli.text.pattern import WidePattern

LANGUAGES: dict[str, str] = {
    "zh": "chinese", "en": "english", "ja": "japanese", "ko": "korean", "de": "german", "fr": "french",
    "ru": "russian", "pt": "portuguese", "es": "spanish", "it": "italian",
}  # fmt: skip

FLOOR = 0.6
"""A guess below this confidence is discarded: a single `Hello.` fits too many languages."""

CERTAIN = 0.7
"""Text in Latin script is refused as foreign only from this confidence on."""

LEAD = 0.3
"""By how many votes another language must lead before a text changes to it, where only a few are possible."""

ALSO_ENGLISH = frozenset("come die do dove fare per plus pour sans sin son".split())
"""Small words of other languages that English texts have too."""

SAMPLE_CHARACTERS = 4_000
WORD = re.compile(r"[^\W\d_]+")
SCRIPTS: dict[str, WidePattern | re.Pattern[str]] = {
    "kana": WidePattern("[\u3041-\u309f\u30a0-\u30ff]"),
    "han": WidePattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]"),
    "hangul": WidePattern("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]"),
    "cyrillic": WidePattern("[\u0400-\u04ff]"),
    "latin": re.compile("[A-Za-z\u00c0-\u024f]"),
}
NOT_RUSSIAN = WidePattern("(?i:[іїєґўјљњћђџѓќѕқңғүұһәө])")

LATIN = ("en", "de", "fr", "es", "pt", "it")
TELLING_LETTERS = {
    "de": "ßäöü", "fr": "èêëçœùûîïâæ", "es": "ñ¿¡", "pt": "ãõ", "it": "ìò", "en": "",
}  # fmt: skip
TELLING_ENDINGS = {
    "en": re.compile(r"(?:ing|tion|ness|ould|ght|ly|wh\w*|th\w*)$"),
    "de": re.compile(r"(?:ung|lich|keit|heit|isch|chen|sch\w*|en)$"),
    "fr": re.compile(r"(?:eaux?|ment|oir|eux|euse|ez|aient|tion|ais|ait)$"),
    "es": re.compile(r"(?:ción|ciones|mente|dad|ando|iendo|amos|emos|ado|ido|illo|illa|ero)$"),
    "pt": re.compile(r"(?:ção|ções|mente|dade|ando|endo|inha|inho|amos|lh\w*|nh\w*|eir[oa])$"),
    "it": re.compile(r"(?:zione|zioni|mente|tà|ando|endo|iamo|etto|etta|gli\w*|ella|issim[oa])$"),
}
LETTER_WEIGHT, ENDING_WEIGHT = 0.7, 0.35
SMOOTHING = 0.6


@dataclass(frozen=True)
class Guess:
    """`language` is a code of the ten, or None where none is likely enough; `confidence` is 0..1."""

    language: str | None
    confidence: float
    script: str | None = None


@cache
def word_lists(language: str) -> dict[str, list[str]]:
    """The lists of words in the file of a language, by name."""
    parts = Path(__file__).with_name("words").joinpath(f"{language}.txt").read_text("utf-8").split("\n[")[1:]
    return {name: words.split() for name, _, words in (part.partition("]") for part in parts)}


@cache
def small_words(language: str) -> frozenset[str]:
    """The small words that a text in a Latin script cannot do without: what the detector votes by."""
    return frozenset(word_lists(language)["small"])


def language_code(name: str, *also: str) -> str | None:
    """`-l NAME` as a code: `en`, `english` and `EN-gb` are "en", `auto` is None; anything else a UsageError.

    `also` are words that the caller accepts itself, for the hint.
    """
    lower = name.strip().lower()
    short = re.split("[-_]", lower)[0]
    if lower == "auto":
        return None
    if short in LANGUAGES:
        return short
    for code, full in LANGUAGES.items():
        if lower == full:
            return code
    raise UsageError(f"unknown language '{name}'", hint=f"one of: {', '.join(('auto', *also, *LANGUAGES))}")


def detect(text: str) -> Guess:
    """The language of a text, judged by its beginning."""
    sample = text[:SAMPLE_CHARACTERS]
    counts = {name: len(letters.findall(sample)) for name, letters in SCRIPTS.items()}
    letters = sum(1 for c in sample if c.isalpha())
    if not letters:
        return Guess(None, 0.0)
    script = max(counts, key=lambda name: counts[name] * (3 if name in ("han", "kana", "hangul") else 1))
    if not counts[script]:
        return Guess(None, 0.0)
    share = counts[script] / letters
    if script in ("han", "kana"):
        return asian(counts, letters)
    if script == "hangul":
        return answer("ko", share, script)
    if script == "cyrillic":
        foreign = len(NOT_RUSSIAN.findall(sample))
        return answer("ru", share * (0.3 if foreign > 0.02 * letters else 1.0), script)
    return latin(sample, share)


def codes_of(names: Collection[str]) -> list[str]:
    """The codes of a model's languages."""
    return [code for code, name in LANGUAGES.items() if name in names]


def likeliest(text: str, codes: Collection[str], now: str) -> str:
    """The language of a sentence, if it can only be one of `codes` in Latin letters. `now`: that of the sentences
    before, which stays unless another one leads.
    """
    sample = text[:SAMPLE_CHARACTERS]
    words = words_once(sample)
    votes = {code: count for code, count in latin_votes(sample, words).items() if code in codes}
    if "en" in votes:
        votes["en"] += len(ALSO_ENGLISH.intersection(words))
    best = max(votes, key=lambda code: votes[code], default=now)
    return best if votes and votes[best] - votes.get(now, 0.0) >= LEAD else now


def asian(counts: dict[str, int], letters: int) -> Guess:
    """Kana make Japanese; Han alone makes Chinese."""
    share = min(1.0, 3 * (counts["han"] + counts["kana"]) / letters)
    if counts["kana"] > 0.1 * (counts["kana"] + counts["han"]):
        return answer("ja", share, "kana")
    return answer("zh", share * (0.9 if counts["kana"] else 1.0), "han")


def latin(sample: str, share: float) -> Guess:
    """Votes of small words, telling letters and endings; confident where one language leads clearly."""
    words = words_once(sample)
    votes = latin_votes(sample, words)
    first, second = sorted(votes, key=lambda code: -votes[code])[:2]
    lead = votes[first] - votes[second]
    known = min(1.0, (votes[first] + 0.2) / (0.2 * len(words) + 0.6))  # text of another language has few known words
    return answer(first, share * known * lead / (lead + SMOOTHING) if lead > 0 else 0.0, "latin")


def words_once(sample: str) -> list[str]:
    """The words, each once: `ho ho ho` is not Italian."""
    return list(dict.fromkeys(WORD.findall(sample.lower())))


def latin_votes(sample: str, words: Collection[str]) -> dict[str, float]:
    """Language -> how much speaks for it. `words`: those of the sample."""
    votes = dict.fromkeys(LATIN, 0.0)
    for word in words:
        vote(word, votes)
    for code, telling in TELLING_LETTERS.items():
        votes[code] += LETTER_WEIGHT * sum(sample.lower().count(letter) for letter in telling)
    return votes


def vote(word: str, votes: dict[str, float]) -> None:
    """A small word counts in full for its language, less the more languages have it."""
    owners = [code for code in LATIN if word in small_words(code)]
    for code in owners:
        votes[code] += 1.0 / len(owners)
    if not owners and len(word) > 3:
        for code, ending in TELLING_ENDINGS.items():
            votes[code] += ENDING_WEIGHT if ending.search(word) else 0.0


def answer(language: str, confidence: float, script: str) -> Guess:
    return Guess(language if confidence >= FLOOR else None, round(min(1.0, confidence), 3), script)
