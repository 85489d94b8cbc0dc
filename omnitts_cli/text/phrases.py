"""Where a long sentence may be cut: at the border of a phrase, as a person who reads it aloud takes a breath.

Every space of a text has a cost, from the words around it alone: nothing behind a semicolon, little behind a comma or
before "because", much between an adjective and its noun. `cuts` finds the cheapest set of cuts that leaves no part too
wide.
"""

import math
import re
import sys
from bisect import bisect_left, bisect_right
from itertools import accumulate

ANYWHERE = 1.0  # the cost of a cut between two words of which nothing is known
NEVER = 3.0  # only where nothing else is left
GOOD = 0.75  # up to here it is a border of phrases

MARKS = {";": 0.0, "—": 0.05, "–": 0.1, ":": 0.05, ",": 0.1, ".": 0.3, "!": 0.0, "?": 0.0, "…": 0.1, ")": 0.25}

RELATIVE = frozenset("who whom whose which".split())
CLAUSE = frozenset(
    "although though because while whereas unless until till whether if when whenever where wherever lest whereby "
    "whatever whichever even".split()
)
OFTEN_CLAUSE = frozenset("before after since as once than like".split())  # or prepositions
QUESTION = frozenset("how why what".split())
JOINING = frozenset("and or but nor yet so".split())
PREPOSITIONS = frozenset(
    "about above across against along amid among around at behind below beneath beside besides between beyond by "
    "despite during except for from in inside into near on onto outside over past per through throughout to toward "
    "towards under underneath unlike upon via with within without according following regarding including instead "
    "together such".split()
)
PARTICLES = frozenset("out up down off away back over".split())  # of a verb: broke out
AUXILIARIES = frozenset(
    "is are was were am be been has have had do does did will would shall should can could may might must cannot isn't "
    "wasn't don't didn't won't wouldn't can't couldn't".split()
)
PRONOUNS = frozenset("i you he she it we they there this these those one".split())
ARTICLES = frozenset(
    "a an the my your his her its our their this these those every each some any no all both another other".split()
)
CLINGING = ARTICLES | AUXILIARIES | PREPOSITIONS | RELATIVE | frozenset(
    "of not and or but nor if when while where because although though that than as whether very too so more most less "
    "least such only just even quite rather almost nearly about mr mrs ms dr st prof who what how why i he she we they "
    "number page room figure chapter section version".split()
)  # fmt: skip
"""Words that lean on the next one: a part does not end with them."""
TO_CLAUSE = frozenset("so now except provided given assuming such in on".split())  # with "that": cut before both
BEFORE_CLAUSE = frozenset(
    "just only even shortly soon long immediately right as ever merely simply partly largely mainly not".split()
)
SAYING = frozenset(
    "said says say saying believe believed believes thought think thinks hoped fear feared insist argued agreed warned "
    "announced added told found knew know felt promised wondered asked showed shows show denied noticed".split()
)
TO_DO = frozenset(
    "used fails failed want wants wanted need needs needed able likely unable going ought allow allowed began begin "
    "tried try refused decided meant seemed seem seems appear appears have has had himself herself themselves".split()
)
NUMBER_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion "
    "trillion point".split()
)
AROUND = ',.;:!?()[]{}"“”‘«»„…—–*_#'
WORD = re.compile(r"\S+")
BEHIND_NUMBERS = JOINING | PREPOSITIONS | CLAUSE | RELATIVE
BEGINNING = RELATIVE | CLAUSE | OFTEN_CLAUSE | JOINING | QUESTION | {"that"}
OPENING = BEGINNING | PREPOSITIONS | TO_CLAUSE | PRONOUNS | ARTICLES | {"of"}
SMALL = 0.4  # of the largest width: a part below this costs more, the more the smaller it is


def cuts(text: str, widest: int) -> list[int]:
    """Where to cut a text, at spaces, so that no part is wider than `widest` if the spaces allow it."""
    words = list(WORD.finditer(text))
    if not words:
        return []
    # a word that is wide by itself, such as a long number, is cut by other means
    widths = list(accumulate((min(spoken_width(word[0]), widest // 2) + 1 for word in words), initial=0))
    first, last = bisect_left(widths, widest // 5), bisect_right(widths, widths[-1] - widest // 5)  # no short parts
    costs = costs_between([word[0] for word in words], first, last)
    for limit in (GOOD, NEVER + ANYWHERE):
        places = [0, *(n for n in range(1, len(words)) if costs[n] <= limit), len(words)]
        chosen = cheapest(places, costs, widths, widest)
        if chosen is not None:
            return [words[n].start() - 1 for n in chosen]
    return []


def best_place(text: str) -> int:
    """Behind the best space of a text that must be cut once, the last of several that are equal; 0: it has none."""
    words = list(WORD.finditer(text))
    costs = costs_between([word[0] for word in words])
    places = [(cost, -words[n].start()) for n, cost in enumerate(costs) if n]
    return -min(places)[1] if places else 0


def ends_before(said: str, word: str) -> float:
    """The cost of a cut between what was said so far and the next word, of which nothing more is known."""
    return costs_between([*said.split()[-2:], word.strip()])[-1]


def cheapest(places: list[int], costs: list[float], widths: list[int], widest: int) -> list[int] | None:
    """The places with the smallest sum of costs, each part costing something itself; None if a part stays too wide."""
    best: list[tuple[float, int]] = [(0.0, -1)]
    first = 0  # the earliest place from which a part may still reach
    for j, place in enumerate(places[1:], 1):
        while widths[place] - widths[places[first]] - 1 > widest:
            first += 1
        own = costs[place] if place < len(costs) else 0.0
        least, least_at = math.inf, -1
        for i in range(first, j):
            sum_of = best[i][0] + cost_of_part(widths[place] - widths[places[i]] - 1, widest)
            if sum_of < least:
                least, least_at = sum_of, i
        if least_at < 0:
            return None
        best.append((least + own, least_at))
    chosen, at = [], best[-1][1]
    while at > 0:
        chosen.append(places[at])
        at = best[at][1]
    return chosen[::-1]


def cost_of_part(width: int, widest: int) -> float:
    """One more part is one more pause, and a model stumbles over a short one."""
    share = width / widest
    return 0.35 if share >= SMALL else 0.35 + 1.5 * (SMALL - share)


def costs_between(words: list[str], first: int = 1, last: int = sys.maxsize) -> list[float]:
    """The cost of a cut before each word from the number `first` to `last`; NEVER before the others."""
    bare = ["", "", *(word.strip(AROUND).lower() for word in words), ""]
    found = [NEVER] * len(words)
    for n in range(max(first, 1), min(last + 1, len(words))):
        found[n] = cost(words[n - 1], words[n], bare[n : n + 4])
    return found


def cost(last: str, first: str, bare: list[str]) -> float:
    """The cost of a cut between the words `last` and `first`. `bare`: two before it and two behind, unmarked."""
    if not last[-1].isalnum():
        found = MARKS.get(last[-1], MARKS.get(last.rstrip("\"'”’)]»")[-1:]))
        if found is not None:
            return after_mark(found, first, bare)
    if first[:1] in "(—–[" or (first[:1] in '“"‘«' and bare[1] in SAYING):
        return 0.2
    return NEVER if clings(last, first, bare) else before_word(bare)


def after_mark(found: float, first: str, bare: list[str]) -> float:
    """Behind a mark; a comma between the words of a list, or before "which he" alone, is less of a pause."""
    if bare[1] in JOINING or bare[1] in RELATIVE or bare[1] == "that":
        return NEVER / 2
    if first[:1].isdigit() and bare[1][-1:].isdigit():
        return found + 0.4
    return found


def clings(last: str, first: str, bare: list[str]) -> bool:
    """Whether two words belong together: a number and its noun, a name, a word that leans on the next."""
    before, after = bare[1], bare[2]
    if before in CLINGING and not (before in AUXILIARIES and after in CLAUSE):
        return True
    if number_like(before) and (after not in BEHIND_NUMBERS or number_like(after)):
        return True
    capital = last[0].isupper()
    if capital and number_like(after) and after != "one":
        return True  # Gen 2, Chapter four
    return capital and first[0].isupper() and before not in PRONOUNS


def number_like(word: str) -> bool:
    return word in NUMBER_WORDS or (not word.isalpha() and any(c.isdigit() for c in word))


def before_word(bare: list[str]) -> float:
    """By the word that follows, and its neighbours."""
    before, after, next_one = bare[1], bare[2], bare[3]
    if after not in OPENING:
        return other_words(*bare[:3])
    if after in BEGINNING:
        return before_clause(*bare)
    if next_one in RELATIVE and (after in PREPOSITIONS or after == "of"):
        return 0.2  # in which
    if next_one == "that" and after in TO_CLAUSE:
        return 0.3  # so that, now that
    if after in PREPOSITIONS:
        return before_preposition(*bare[:3])
    if before in SAYING and (after in PRONOUNS or after in ARTICLES):
        return 0.55
    return other_words(*bare[:3])


def before_clause(earlier: str, before: str, after: str, next_one: str) -> float:
    """Before a word with which a clause may begin."""
    if after == "that":
        return NEVER if before in TO_CLAUSE else 0.25
    if after in OFTEN_CLAUSE:
        return before_often_clause(before, after, next_one)
    if after in JOINING:
        return before_joining(next_one)
    if after in QUESTION:
        return 0.4
    return 0.8 if before in BEFORE_CLAUSE or earlier == "to" else 0.2


def before_often_clause(before: str, after: str, next_one: str) -> float:
    """Before, after, since, as, once, than, like: a clause, or a preposition."""
    if before in BEFORE_CLAUSE or after in ("than", "like") or next_one in ("well", "many", "much", "soon"):
        return 0.9
    return 0.3 if next_one in PRONOUNS | ARTICLES else 0.45


def before_joining(next_one: str) -> float:
    """Before "and": a clause or a verb may follow, or only the second of two nouns."""
    if next_one in PRONOUNS | AUXILIARIES | RELATIVE | CLAUSE | PREPOSITIONS | {"that", "then", "not"}:
        return 0.25
    return 0.35 if next_one.endswith("ed") else 0.6


def before_preposition(earlier: str, before: str, after: str) -> float:
    """It is of a verb that has just begun ("he ran from it"), or adds a circumstance."""
    if earlier in PRONOUNS or earlier == "to" or before in PARTICLES or (after == "to" and before in TO_DO):
        return ANYWHERE
    return 0.75 if after == "to" or before.endswith("ed") else 0.6


def other_words(earlier: str, before: str, after: str) -> float:
    if after in AUXILIARIES and before not in PRONOUNS and earlier not in ARTICLES:
        return 0.7
    if after.endswith("ing") and len(after) > 5:
        return 0.7
    return NEVER if after == "of" or after in PARTICLES else ANYWHERE


def spoken_width(word: str) -> int:
    """About how many letters a word has when it is spoken: a digit is a word of its own."""
    return len(word) if word.isalpha() else sum(6 if c.isdigit() else 1 for c in word)
