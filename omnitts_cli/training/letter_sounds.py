"""Trains the letter-to-sound model of `text/american` on the dictionary, for words that are not in it.

    python -m omnitts_cli.training.letter_sounds --lexicon FOLDER --work DIR [--epochs 12]

FOLDER holds misaki's `lexicon_us_gold.json.gz` and `lexicon_us_silver.json.gz` (packaged in hibari-tts 0.2.1). First
each letter of each word is aligned with the 0 to 3 sounds that it stands for. Then a small network learns to name
them: convolutions read the whole word, and a head goes from letter to letter and knows its previous outputs. One word
family in 25 is held out: words that share their first five letters are on the same side. Training may be stopped and
continues where it ended; each call prints the share of held-out words that it gets right. The result, DIR/letters.npz,
belongs in `text/american`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnitts_cli.text.american.letters import ALPHABET, FILE, KERNEL, SPREADS, LetterSounds, units
from omnitts_cli.training.alignment import LetterAlignment
from omnitts_cli.training.dictionary import misaki

RARE = 12  # chunks seen less often are mistakes of the alignment, or of the dictionary
WIDTH, LETTER, SPOKEN, HIDDEN = 96, 48, 24, 144
BATCH, RATE, DROP, WARM = 256, 3e-3, 0.1, 300
Aligned = tuple[str, list[str]]  # a word; the sounds of each letter


def held_out(word: str) -> bool:
    return zlib.crc32(word[:5].encode()) % 25 == 0


class LetterNetwork(nn.Module):
    """Letters [B, L] and the chunks before each of them -> scores of chunks [B, L, C]."""

    def __init__(self, chunks: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(ALPHABET) + 1, LETTER)
        self.enter = nn.Linear(LETTER, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Conv1d(WIDTH, 2 * WIDTH, KERNEL, padding=spread, dilation=spread) for spread in SPREADS
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in SPREADS)
        self.spoken = nn.Embedding(chunks + 1, SPOKEN)  # the last row: nothing yet
        self.hidden = nn.Linear(WIDTH + 2 * SPOKEN + 1, HIDDEN)
        self.out = nn.Linear(HIDDEN, chunks)

    def read(self, letters: Tensor) -> Tensor:
        """[B, L] -> [B, L, W]; 0 is padding."""
        there = (letters > 0)[..., None].float()
        x = self.enter(self.letters(letters)) * there
        for block, norm in zip(self.blocks, self.norms, strict=True):
            y = F.glu(block(norm(x).mul(there).transpose(1, 2)), 1).transpose(1, 2)
            x = (x + F.dropout(y, DROP, self.training)) * there
        return x

    def forward(self, letters: Tensor, before: Tensor, earlier: Tensor, stressed: Tensor) -> Tensor:
        x = self.read(letters)
        said = torch.cat([x, self.spoken(before), self.spoken(earlier), stressed[..., None]], -1)
        return self.out(F.dropout(F.relu(self.hidden(said)), DROP, self.training))


def batches(pairs: Sequence[Aligned], chunks: dict[str, int], draw: np.random.Generator) -> Iterator[list[Tensor]]:
    """Shuffled batches of words of like length: letters, the last two chunks, whether stressed before, targets."""
    order = np.array([len(word) for word, _ in pairs]) + draw.uniform(0, 1.5, len(pairs))
    groups = np.array_split(np.argsort(order), max(1, len(pairs) // BATCH))
    for n in draw.permutation(len(groups)):
        chosen = [pairs[i] for i in groups[n]]
        longest = max(len(word) for word, _ in chosen)
        letters = np.zeros((len(chosen), longest), np.int64)
        said = np.full((len(chosen), longest + 2), len(chunks), np.int64)
        target = np.full((len(chosen), longest), -100, np.int64)
        stressed = np.zeros((len(chosen), longest), np.float32)
        for row, (word, parts) in enumerate(chosen):
            letters[row, : len(word)] = [ALPHABET.index(c) + 1 for c in word]
            ids = [chunks[part] for part in parts]
            said[row, 2 : 2 + len(ids)] = target[row, : len(ids)] = ids
            for at, part in enumerate(parts):
                if "ˈ" in part:
                    stressed[row, at + 1 :] = 1
        yield [torch.from_numpy(a) for a in (letters, said[:, 1:-1], said[:, :-2], stressed, target)]


def examples(lexicon: Path) -> list[Aligned]:
    """Every word of the dictionary with the sounds of its letters."""
    found = {
        word.lower(): spoken.replace("ɾ", "T").replace("ʔ", "t")
        for table in misaki(lexicon)[::-1]
        for word, readings in table.items()
        if (spoken := readings if isinstance(readings, str) else readings["DEFAULT"])
        and 1 < len(word) < 24
        and set(word.lower()) <= set(ALPHABET)
        and not (word.isupper() or "." in word)
    }
    pairs = sorted(found.items())
    alignment = LetterAlignment(units)
    alignment.learn(pairs[::6])
    aligned = [(word, parts) for word, spoken in pairs if (parts := alignment.align(word, spoken))]
    counts = Counter(part for _, parts in aligned for part in parts)
    return [(word, parts) for word, parts in aligned if all(counts[part] >= RARE for part in parts)]


def right(model: LetterSounds, pairs: Sequence[Aligned]) -> tuple[float, float]:
    """The share of words that come out right: wholly, and without regard to stress."""
    whole = bare = 0
    for word, parts in pairs:
        said, meant = model.spoken(word), "".join(parts)
        whole += said == meant
        bare += said.translate(STRESS) == meant.translate(STRESS)
    return whole / len(pairs), bare / len(pairs)


STRESS = str.maketrans("", "", "ˈˌ")


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lexicon", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--upto", type=int, help="stop before this epoch [the end]")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    pairs = kept_examples(given.lexicon, given.work / "letter_sounds_examples.txt")
    names = sorted({part for _, parts in pairs for part in parts})
    learned = [pair for pair in pairs if not held_out(pair[0])]
    unseen = [pair for pair in pairs if held_out(pair[0])][::4]
    tell(f"{len(learned)} words to learn, {len(unseen)} held out, {len(names)} chunks")
    torch.manual_seed(0)
    network = LetterNetwork(len(names))
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.01)
    state, begin = given.work / "letter_sounds.pt", 0
    if state.exists():
        saved = torch.load(state)
        network.load_state_dict(saved["network"])
        optimiser.load_state_dict(saved["optimiser"])
        begin = saved["epoch"]
    for epoch in range(begin, given.upto or given.epochs):
        began = time.monotonic()
        loss = learn(network, optimiser, learned, {part: n for n, part in enumerate(names)}, epoch, given.epochs)
        saved = {"network": network.state_dict(), "optimiser": optimiser.state_dict(), "epoch": epoch + 1}
        torch.save(saved, state)
        LetterSounds.write(given.work / FILE, {k: v.numpy() for k, v in network.state_dict().items()}, names)
        whole, bare = right(LetterSounds(given.work / FILE), unseen)
        tell(
            f"epoch {epoch + 1}: loss {loss:.3f}, held-out words right {whole:.3f}, stress apart {bare:.3f}, "
            f"{time.monotonic() - began:.0f} s"
        )


def kept_examples(lexicon: Path, kept: Path) -> list[Aligned]:
    """The examples, aligned once."""
    if not kept.exists():
        made = "".join(f"{word}\t{'|'.join(parts)}\n" for word, parts in examples(lexicon))
        kept.write_text(made, encoding="utf-8")
    lines = (line.split("\t") for line in kept.read_text(encoding="utf-8").splitlines())
    return [(word, parts.split("|")) for word, parts in lines]


def learn(
    network: LetterNetwork,
    optimiser: torch.optim.Optimizer,
    pairs: Sequence[Aligned],
    chunks: dict[str, int],
    epoch: int,
    epochs: int,
) -> float:
    """One epoch; the mean loss."""
    network.train()
    losses = []
    steps = max(1, len(pairs) // BATCH)
    for step, batch in enumerate(batches(pairs, chunks, np.random.default_rng(epoch))):
        done = epoch * steps + step
        for group in optimiser.param_groups:
            slope = 0.5 + 0.5 * math.cos(math.pi * min(1.0, done / (epochs * steps)))
            group["lr"] = RATE * min(1.0, (done + 1) / WARM) * slope
        scores, target = network(*batch[:-1]), batch[-1]
        loss = F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=-100)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
    return float(np.mean(losses))


if __name__ == "__main__":
    main()
