"""The tagger of `text/american/context.py`, trained on the training texts.

    python -m omnitts_cli.training.parts_of_speech --texts WORK/texts.tsv --work DIR

hibari-tts (Apache-2.0) tags the texts. Made-up sentences are left out, as their words have no order, and one text in
ten is held out. Only words with more than one usual part of speech are learned. The result, DIR/context.bin, belongs in
`text/american`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from omnitts_cli.errors import OmniError
from omnitts_cli.text.american.context import FILE, TAGS, Tagger, features, write_tagger

EPOCHS = 6
PROSE = 0.35  # share of word pairs that other texts have too
RARE = 5  # a word seen less often has no class of its own
SHARE = 0.08  # of a word's uses, for a tag to be usual
NOUN_OR_VERB = re.compile("NB?P?J?(?<=[BPJ])")
WORD = re.compile(r"[A-Za-z']+")
Tagged = list[tuple[str, str]]
COARSE = {
    "NN": "N", "NNS": "N", "NNP": "N", "NNPS": "N", "VB": "B", "VBP": "P", "VBD": "D", "VBN": "M", "VBZ": "Z",
    "VBG": "G", "JJ": "J", "JJR": "J", "JJS": "J", "RB": "R", "RBR": "R", "RBS": "R", "DT": "T",
}  # fmt: skip


def held_out(text: str) -> bool:
    return zlib.crc32(text.encode()) % 10 == 0


def tagged(texts: Iterable[str]) -> Iterator[Tagged]:
    """Words and marks with their tags."""
    try:
        from hibari.g2p import G2P
        from hibari.g2p.normalize import normalize
    except ImportError:
        raise OmniError("the training texts need tags", hint="pip install hibari-tts") from None
    tagger = G2P(oov=False, unk="")
    for text in texts:
        tokens = tagger.tokenize(normalize(text))
        yield joined([(token.text, token.tag, bool(token.whitespace)) for token in tokens])


def joined(tokens: Sequence[tuple[str, str, bool]]) -> Tagged:
    """Parts of a word, such as `does` and `n't`, as one word with the first part's tag."""
    found: Tagged = []
    apart = True
    for text, tag, space in tokens:
        if not apart and found and WORD.fullmatch(text) and WORD.fullmatch(found[-1][0]):
            found[-1] = (found[-1][0] + text, found[-1][1])
        else:
            found.append((text, COARSE.get(tag, "X")))
        apart = space
    return found


def prose(lines: Sequence[Tagged]) -> list[Tagged]:
    pairs = Counter(pair for line in lines for pair in pairwise(word.lower() for word, _ in line))
    return [
        line
        for line in lines
        if len(line) > 3
        and sum(pairs[pair] > 2 for pair in pairwise(word.lower() for word, _ in line)) > PROSE * (len(line) - 1)
    ]


def word_classes(lines: Iterable[Tagged]) -> dict[str, str]:
    """The usual tags of each common word, in the order of TAGS."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        for word, tag in line:
            if WORD.fullmatch(word):
                counts[word.lower()][tag] += 1
    found = {
        word: "".join(tag for tag in TAGS if tags[tag] > SHARE * tags.total())
        for word, tags in sorted(counts.items())
        if tags.total() >= RARE
    }
    # a base form and a present tense differ only in the words before them
    return {word: "NBPJ".replace("J", "J" * ("J" in tags)) if NOUN_OR_VERB.fullmatch(tags) else tags
            for word, tags in found.items()}  # fmt: skip


def perceptron(lines: Sequence[Tagged], classes: dict[str, str]) -> dict[str, dict[str, float]]:
    """Averaged weights of the features."""
    samples = [
        (features([word for word, _ in line], at, classes.get, kind), tag, kind)
        for line in lines
        for at, (word, tag) in enumerate(line)
        if len(kind := classes.get(word.lower(), "")) > 1 and tag in kind
    ]
    counts = Counter(feature for found, *_ in samples for feature in found)
    samples = [([f for f in found if counts[f] > 2], tag, kind) for found, tag, kind in samples]
    weights: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    totals: defaultdict[tuple[str, str], float] = defaultdict(float)  # of the averages
    step = 0
    draw = random.Random(0)
    for _ in range(EPOCHS):
        draw.shuffle(samples)
        for found, tag, kind in samples:
            step += 1
            scores: defaultdict[str, float] = defaultdict(float)
            for feature in found:
                for other, weight in weights[feature].items():
                    scores[other] += weight
            guess = max(kind, key=scores.__getitem__)
            if guess != tag:
                for feature in found:
                    for which, change in ((tag, 1.0), (guess, -1.0)):
                        weights[feature][which] += change
                        totals[feature, which] += step * change
    kept: dict[str, dict[str, float]] = {}
    for feature, row in weights.items():
        means = {tag: round(weight - totals[feature, tag] / step, 1) for tag, weight in row.items()}
        if means := {tag: mean for tag, mean in means.items() if abs(mean) >= 0.3}:
            kept[feature] = means
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    texts = [line.split("\t")[0] for line in given.texts.read_text(encoding="utf-8").splitlines()]
    kept = given.work / "tagged.json"
    if not kept.exists():
        kept.write_text(json.dumps(list(tagged(texts))))
    lines: list[Tagged] = [[(word, tag) for word, tag in line] for line in json.loads(kept.read_text())]
    learned = prose([line for text, line in zip(texts, lines, strict=True) if not held_out(text)])
    classes = word_classes(learned)
    weights = perceptron(learned, classes)
    path = given.work / FILE
    write_tagger(path, classes, weights)
    unseen = prose([line for text, line in zip(texts, lines, strict=True) if held_out(text)])
    sys.stdout.write(
        f"{len(learned)} texts, {len(classes)} words, {len(weights)} features, {path.stat().st_size} bytes\n"
    )
    tagger = Tagger(path)
    right = total = 0
    for line in unseen:
        words = [word for word, _ in line]
        for at, (word, tag) in enumerate(line):
            if len(kind := classes.get(word.lower(), "")) > 1 and tag in kind:
                right, total = right + (tagger.tag(words, at, kind) == tag), total + 1
    sys.stdout.write(f"ambiguous words of held-out texts: {right / total:.4f} of {total} as hibari-tts tags them\n")


if __name__ == "__main__":
    main()
