"""Which questions end with a falling voice: those that ask with "what", "who", "where" and the like.

The phonemes of such a question end in a full stop. So a question mark in phonemes means that the voice rises.
"""

from collections.abc import Sequence
from itertools import pairwise

ASKING = frozenset("what when where who whom whose why which how".split())
SHORT = frozenset(("s", "re", "d", "ll", "ve"))  # what's, who're, how'd
OPENING = frozenset(
    "about after ah all and anyway as at before but by exactly for from hello hey hi honestly in just no now of oh ok "
    "okay on or please since so sorry then through to under until well with yes yet".split()
)
"""Words that may stand before the word that asks: "And in which year was that?"."""
CLAUSES = frozenset("what when where why how".split())
"""These also begin clauses that do not ask: "When it rains, do you walk?", "He left, when it was late?"."""
VERBS = frozenset(
    "is are was were am do does did can could will would shall should has have had may might must about many much long "
    "far old often come".split()
)
"""Words after those of CLAUSES that ask, and words that begin a question of yes or no."""
ENDS = frozenset(".!?")


def falls(words: Sequence[str], at: int) -> bool:
    """Whether the voice falls at the question mark `words[at]`. `words` holds words and marks."""
    begin = at
    while begin and words[begin - 1] not in ENDS:
        begin -= 1
    asked = [word.lower() for word in words[begin:at]]
    while asked and (asked[0] == "," or asked[0] in OPENING):
        del asked[0]
    pairs = list(pairwise([*asked, ""]))
    after_commas = [pair for (comma, _), pair in pairwise(pairs) if comma == ","]
    if pairs and asks(pairs[0][0]):
        clause = pairs[0][0] in ("when", "where") and pairs[0][1] not in VERBS
        return not (clause and any(word in VERBS for word, _ in after_commas))
    return any(
        asks(word) and word.partition("'")[0] in CLAUSES and (word not in CLAUSES or after in VERBS)
        for word, after in after_commas
    )


def asks(word: str) -> bool:
    """Whether it is "what", "what's" or another such word."""
    whole, _, short = word.partition("'")
    return whole in ASKING and (not short or short in SHORT)
