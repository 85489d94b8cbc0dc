"""Whether speech has its words, without a speech recogniser: the model listens, as it was before it was tuned.

The model finds the codes of a sentence likelier with the words that were said than with others; code 0 of each frame is
enough to tell. So each word of the text is exchanged for others of about its length, one at a time: it was heard if no
exchange makes the codes likelier. Where nothing is left of the words, one word in EXCHANGES + 1 is heard by chance.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]{3,}")  # a character where words have no spaces
EXCHANGES = 4  # of each word: then the share that is not heard is about that of a recogniser's word errors
MOST_WORDS = 8  # of a text

Losses = Callable[[Sequence[str], np.ndarray], Sequence[float]]
"""How unlikely codes [T, G] are with each of several texts."""


def heard(text: str, codes: np.ndarray, losses: Losses, others: Sequence[str]) -> float | None:
    """The share of the words of a text that are in its speech; None if it has no words. `others`: words to exchange
    them for."""
    exchanged = exchanges(text, others)
    if not exchanged:
        return None
    right, *wrong = losses([text, *(one for some in exchanged for one in some)], codes)
    each = np.asarray(wrong).reshape(len(exchanged), -1)
    return float((each.min(1) > right).mean())


def exchanges(text: str, others: Sequence[str]) -> list[list[str]]:
    """For some words of a text, the text with other words in their place."""
    chance, found = random.Random(text), []
    words = [*WORD.finditer(text)]
    for word in chance.sample(words, min(MOST_WORDS, len(words))):
        old = word[0]
        unlike = [one for one in others if one != old.casefold()]
        fitting = [one for one in unlike if abs(len(one) - len(old)) <= 1] or unlike
        if len(fitting) >= EXCHANGES:
            chosen = chance.sample(fitting, EXCHANGES)
            new = [one.capitalize() if old[0].isupper() else one for one in chosen]
            found.append([text[: word.start()] + one + text[word.end() :] for one in new])
    return found


def vocabulary(texts: Iterable[str]) -> list[str]:
    """The words of some texts."""
    return sorted({word.casefold() for text in texts for word in WORD.findall(text)})
