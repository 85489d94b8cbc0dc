"""Part of speech from context, for words that are said in more than one way: "a record", "to record".

An averaged perceptron trained by `training/parts_of_speech.py`. It looks at the word, two words on either side, and
the parts of speech that those usually are; so any word can be tagged on its own, and only ambiguous ones are.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from omnitts_cli.text.american.dictionary import Dictionary, write

FILE = "context.bin"
TAGS = "NBPDMZGJRTX"
"""Noun; verb: base form, present, past, participle, third person, -ing; adjective; adverb; determiner; other."""
ENDINGS = (
    ("ly", "R"), ("ing", "G"), ("ed", "DM"), ("ous", "J"), ("ful", "J"), ("ive", "J"), ("able", "J"), ("ible", "J"),
    ("ical", "J"), ("less", "J"), ("tion", "N"), ("ment", "N"), ("ness", "N"), ("ity", "N"), ("ss", "N"), ("s", "NZ"),
)  # fmt: skip
KEPT = 50_000  # features and words that were looked up lately
EDGE = "|"  # before the first word and after the last


Classes = Callable[[str], str | None]
"""The usual tags of a word; None: it is not a common one."""


class Tagger:
    """Its file is a dictionary of features, so that a word costs a few blocks of it."""

    def __init__(self, path: Path) -> None:
        self._features = Dictionary(path)
        self._of = lru_cache(KEPT)(self._weights)
        self.classes: Classes = lru_cache(KEPT)(lambda word: self._features.find(f"= {word}"))

    def tag(self, words: Sequence[str], at: int, kind: str) -> str:
        """The best of the tags in `kind` for the word at this place of a sentence in words and marks."""
        scores = dict.fromkeys(kind, 0.0)
        for feature in features(words, at, self.classes, kind):
            for tag, weight in self._of(feature).items():
                if tag in scores:
                    scores[tag] += weight
        return max(scores, key=scores.__getitem__)

    def _weights(self, feature: str) -> dict[str, float]:
        return {part[0]: float(part[1:]) for part in (self._features.find(feature) or "").split()}


def write_tagger(path: Path, classes: Mapping[str, str], weights: Mapping[str, Mapping[str, float]]) -> None:
    """The file of a trained tagger."""
    lines = {f"= {word}": tags for word, tags in classes.items()}
    lines |= {f: " ".join(f"{tag}{weight:g}" for tag, weight in row.items()) for f, row in weights.items()}
    write(path, lines.items())


def usual(word: str, classes: Classes) -> str:
    """The tags that a word often has."""
    if not word[0].isalpha():
        return word
    known = classes(word.lower())
    if known is not None:
        return "S" if known == "N" and word.endswith("s") and not word.endswith("ss") else known
    if word[0].isupper():
        return "S" if word.endswith("s") else "N"
    return next((tags for ending, tags in ENDINGS if word.endswith(ending)), "?")


def features(words: Sequence[str], at: int, classes: Classes, kind: str) -> list[str]:
    """What the choice depends on. The word itself counts only if it is a common one."""
    around = [words[n] if 0 <= n < len(words) else EDGE for n in (at - 2, at - 1, at, at + 1, at + 2)]
    earlier, before, word, after, later = (w.lower() for w in around)
    c2, c1, _, d1, d2 = (usual(w, classes) for w in around)
    first = before in ".!?|"
    capital = around[2][0].isupper() and not first
    found = [
        f"k {kind} {capital}", f"p {kind} {before}", f"pp {kind} {earlier}", f"n {kind} {after}", f"nn {kind} {later}",
        f"cp {kind} {c1}", f"cpp {kind} {c2}", f"cn {kind} {d1}", f"cnn {kind} {d2}", f"cc {kind} {c1} {d1}",
        f"cpc {kind} {c2} {c1}", f"cnc {kind} {d1} {d2}", f"pc {kind} {before} {d1}", f"ccn {kind} {c1} {after}",
        f"ppp {kind} {earlier} {before}", f"p2 {kind} {c2} {before}", f"n2 {kind} {after} {d2}",
        f"c4 {kind} {c2} {c1} {d1}", f"c5 {kind} {c1} {d1} {d2}", f"f {kind} {first} {d1} {d2}",
    ]  # fmt: skip
    if word in OWN:
        found += [f"w {word}", f"wp {word} {before}", f"wn {word} {after}", f"wcp {word} {c1}", f"wcn {word} {d1}"]
    return found


OWN = frozenset("that that's in read close live use used house present object".split())
"""Words that are learned apart from others with the same parts of speech."""
