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


ARTICLES = "the a an this that his her my our your their its every each some any no"
SUBJECTS = "i you we they who"
MODALS = (
    "to will would can could shall should may might must let do does did don't doesn't didn't can't won't couldn't "
    "wouldn't shouldn't cannot i'll you'll he'll she'll we'll they'll i'd please lets let's not never"
)
HAVING = (
    "have has had having i've you've we've they've haven't hasn't hadn't was were is are be been being am he's she's "
    "it's you're they're we're i'm wasn't weren't isn't"
)
BEING = "is are was were be been being am i'm it's he's she's they're we're you're isn't aren't wasn't weren't"
ADVERBS = "also already just never ever always often recently once only since been not carefully first then"
PEOPLE = "man men woman women people person couple mother father parents aunt uncle queen king gentleman lady patient"
DIGITS = (
    "zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand"
)
ENDS = ". , ! ? |"

GROUPS = {
    "ARTICLES": ARTICLES, "SUBJECTS": SUBJECTS, "MODALS": MODALS, "HAVING": HAVING, "PEOPLE": PEOPLE, "DIGITS": DIGITS,
    "ENDS": ENDS,
}  # fmt: skip
"""What capitals in senses.txt stand for."""


def rules_in(text: str) -> dict[str, list[Cue]]:
    """The rules of each word, in their order."""
    found: dict[str, list[Cue]] = {}
    for rule in text.strip().split("\n\n")[1:]:
        head, *lines = rule.split("\n")
        word, reading, *both = head.split()
        signs: dict[str, list[str]] = {"near": [], "before": [], "after": []}
        for side, *words in map(str.split, lines):
            signs[side] += [one for name in words for one in GROUPS.get(name, name).split()]
        near, before, after = map(frozenset, signs.values())
        found.setdefault(word, []).append(Cue(reading, near, before, after, bool(both)))
    return found


RULES = rules_in(Path(__file__).with_suffix(".txt").read_text("utf-8"))

CAPITAL = frozenset({"nice", "reading", "job"})
"""Senses of a name: only with a capital inside a sentence."""

PAST_TIMES = frozenset(
    "yesterday ago last earlier previously once already recently was were had did said told went came gave took made "
    "saw heard knew thought found got wrote stood sat then aloud".split()
)
HABITS = frozenset("every usually always often sometimes daily rarely never tomorrow each can will do don't".split())


def read(words: Sequence[str], at: int) -> str:
    """Present or past, which look alike."""
    before = before_adverbs(words, at)
    if before in set(HAVING.split()):
        return "VBD"
    if before in set(MODALS.split()):
        return "DEFAULT"
    around = frozenset(word.lower() for word in words[max(0, at - NEAR) : at + NEAR + 4])
    if before in ("he", "she", "it", "everyone", "everybody", "someone", "who"):
        return "VBD"
    if before in SUBJECTS.split():
        if around & HABITS and not around & {"yesterday", "ago", "was", "were", "had"}:
            return "DEFAULT"
        return "VBD" if around & PAST_TIMES else "DEFAULT"
    if before in ("|", ".", "!", "?", ",", "and", "or", "but", "then"):
        return "VBD" if around & {"was", "were", "had", "yesterday", "ago", "sat", "opened"} else "DEFAULT"
    if before in ("well", "widely", "a", "the"):
        return "VBD" if before in ("well", "widely") else "DEFAULT"
    if before.endswith("s") and not before.endswith("ss"):
        return "VBD" if around & PAST_TIMES else "DEFAULT"
    return "VBD" if before[0].isalpha() else "DEFAULT"


def used(words: Sequence[str], at: int) -> str:
    """used to (the habit, or accustomed) against used (the verb)."""
    after = [word.lower() for word in words[at + 1 : at + 3]]
    if after[:1] != ["to"]:
        return "DEFAULT"
    accustomed = after[1:2] and (after[1] in ARTICLES.split() or after[1].endswith("ing") or after[1] in
                                 {"it", "him", "them", "me", "you", "us", ".", ","})  # fmt: skip
    if before_adverbs(words, at) in BEING.split() and not accustomed:
        return "DEFAULT"
    return "VBD"


def before_adverbs(words: Sequence[str], at: int) -> str:
    """The word before, adverbs apart."""
    at -= 1
    skipped = set(ADVERBS.split()) - {"not", "never"}
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
