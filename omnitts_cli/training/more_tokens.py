"""More tokens for a text tokenizer that a model has learned with: for the phonemes of other languages.

The old ids and merges stay, and the new merges come after them. A merge is taken only if it joins hardly anything in
the texts that the model knows, so that those are split as before. The control tokens keep their ids too: they stand in
the vocabulary itself, and the new tokens follow them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from omnitts_cli.training.tokens import SPECIALS, TokenLists

RARELY = 0.002
"""Times that a pair may stand in a known text, for each time that it stands in a new one."""
Pair = tuple[str, str]


class SplitWords:
    """Different words with how often they occur, each as tokens, and the words in which each pair of tokens stands."""

    def __init__(self, tokens: TokenLists, texts: Iterable[str]) -> None:
        counts = Counter(word for text in texts for word in tokens.words(text))
        self._times = list(counts.values())
        self._words = [tokens.split(word) for word in counts]
        self.pairs: Counter[Pair] = Counter()
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)
        for number in range(len(self._words)):
            self._count(number, 1)

    def join(self, pair: Pair) -> None:
        for number in list(self._where[pair]):
            self._count(number, -1)
            self._words[number] = joined(self._words[number], pair)
            self._count(number, 1)

    def _count(self, number: int, sign: int) -> None:
        for pair in pairwise(self._words[number]):
            self.pairs[pair] += sign * self._times[number]
            (self._where[pair].add if sign > 0 else self._where[pair].discard)(number)


def joined(word: Sequence[str], pair: Pair) -> list[str]:
    """The tokens of a word, where `pair` has become one token."""
    found: list[str] = []
    at = 0
    while at < len(word):
        whole = tuple(word[at : at + 2]) == pair
        found.append("".join(pair) if whole else word[at])
        at += 2 if whole else 1
    return found


def with_more(tokens: TokenLists, known: Iterable[str], new: Iterable[str], merges: int) -> TokenLists:
    """The lists with `merges` more tokens, learned from the texts `new`; those in `known` stay nearly as they are.
    Lists that have been widened before stay."""
    if tokens.vocabulary.keys() >= set(SPECIALS):
        return tokens
    vocabulary = tokens.vocabulary | {token: tokens.special(token) for token in SPECIALS}
    pairs = list(tokens.merges)
    before, after = SplitWords(tokens, known), SplitWords(tokens, new)
    for _ in range(merges):
        allowed = (
            (times, pair)
            for pair, times in after.pairs.items()
            if "".join(pair) not in vocabulary and before.pairs[pair] <= RARELY * times
        )
        times, pair = max(allowed, default=(0, ("", "")))
        if times < 2:
            break
        for words in (before, after):
            words.join(pair)
        pairs.append(pair)
        vocabulary["".join(pair)] = max(vocabulary.values()) + 1
    return TokenLists(vocabulary, pairs)
