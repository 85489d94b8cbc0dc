"""Words whose reading depends on what they mean here, not only on their part of speech: a bass guitar, a large bass.

A rule names a reading of `training/own_words.txt` or of the dictionary, and looks for words that give it away: near
the word, right before it, or right after it. The first rule that fits wins; without one, the part of speech decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

NEAR = 9  # words on either side


@dataclass(frozen=True)
class Cue:
    """One reading and its signs. With `both`, the word before and the word after must fit."""

    reading: str
    near: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    both: bool = False

    def fits(self, around: frozenset[str], before: str, after: str) -> bool:
        if self.both:
            return before in self.before and after in self.after
        return before in self.before or after in self.after or bool(self.near and self.near & around)


Groups = dict[str, frozenset[str]]


def rules_in(text: str) -> tuple[Groups, dict[str, list[Cue]]]:
    """The groups of words, and the rules of each word, in their order."""
    _, named, *rules = text.strip().split("\n\n")
    groups: Groups = {}
    for name, *words in map(str.split, named.split("\n")):
        groups[name] = groups.get(name, frozenset()).union(words)
    found: dict[str, list[Cue]] = {}
    for rule in rules:
        head, *lines = rule.split("\n")
        word, reading, *both = head.split()
        signs: dict[str, list[str]] = {"near": [], "before": [], "after": []}
        for side, *words in map(str.split, lines):
            signs[side] += [one for name in words for one in groups.get(name, [name])]
        near, before, after = map(frozenset, signs.values())
        found.setdefault(word, []).append(Cue(reading, near, before, after, bool(both)))
    return groups, found


GROUPS, RULES = rules_in(Path(__file__).with_suffix(".txt").read_text("utf-8"))

CAPITAL = frozenset({"nice", "reading", "job"})
"""Senses of a name: only with a capital inside a sentence."""


def read(words: Sequence[str], at: int) -> str:
    """Present or past, which look alike."""
    before = before_adverbs(words, at)
    if before in GROUPS["HAVING"]:
        return "VBD"
    if before in GROUPS["MODALS"]:
        return "DEFAULT"
    around = frozenset(word.lower() for word in words[max(0, at - NEAR) : at + NEAR + 4])
    if before in ("he", "she", "it", "everyone", "everybody", "someone", "who"):
        return "VBD"
    if before in GROUPS["SUBJECTS"]:
        if around & GROUPS["HABITS"] and not around & {"yesterday", "ago", "was", "were", "had"}:
            return "DEFAULT"
        return "VBD" if around & GROUPS["PAST_TIMES"] else "DEFAULT"
    if before in ("|", ".", "!", "?", ",", "and", "or", "but", "then"):
        return "VBD" if around & {"was", "were", "had", "yesterday", "ago", "sat", "opened"} else "DEFAULT"
    if before in ("well", "widely", "a", "the"):
        return "VBD" if before in ("well", "widely") else "DEFAULT"
    if before.endswith("s") and not before.endswith("ss"):
        return "VBD" if around & GROUPS["PAST_TIMES"] else "DEFAULT"
    return "VBD" if before[0].isalpha() else "DEFAULT"


def used(words: Sequence[str], at: int) -> str:
    """used to (the habit, or accustomed) against used (the verb)."""
    after = [word.lower() for word in words[at + 1 : at + 3]]
    if after[:1] != ["to"]:
        return "DEFAULT"
    accustomed = after[1:2] and (after[1] in GROUPS["ARTICLES"] or after[1].endswith("ing") or after[1] in
                                 {"it", "him", "them", "me", "you", "us", ".", ","})  # fmt: skip
    if before_adverbs(words, at) in GROUPS["BEING"] and not accustomed:
        return "DEFAULT"
    return "VBD"


def before_adverbs(words: Sequence[str], at: int) -> str:
    """The word before, adverbs apart."""
    at -= 1
    skipped = GROUPS["ADVERBS"] - {"not", "never"}
    while at >= 0 and (words[at].lower() in skipped or words[at].endswith("ly")):
        at -= 1
    return words[at].lower() if at >= 0 else "|"


def by_rules(words: Sequence[str], at: int) -> str | None:
    """The reading that the rules of this word name."""
    word = words[at].lower()
    before = words[at - 1].lower() if at else "|"
    after = words[at + 1].lower() if at + 1 < len(words) else "|"
    if word in CAPITAL and (words[at].islower() or before in ".!?|"):
        return None
    near = frozenset(w.lower() for w in (*words[max(0, at - NEAR) : at], *words[at + 1 : at + 1 + NEAR]))
    for rule in RULES[word]:
        if not (rule.near or rule.before or rule.after) or rule.fits(near, before, after):
            return rule.reading
    return None


SENSES: dict[str, Callable[[Sequence[str], int], str | None]] = dict.fromkeys(RULES, by_rules)
SENSES |= {"read": read, "reread": read, "used": used}
