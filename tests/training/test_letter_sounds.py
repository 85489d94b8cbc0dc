"""Training letter to sound: the alignment, held-out families, and a network that learns and exports."""

from pathlib import Path

import numpy as np
import torch

from omnitts_cli.text.american.letters import ALPHABET, LetterSounds
from omnitts_cli.training.letter_sounds import LetterNetwork, batches, held_out, learn, right


def test_families_of_words_are_held_out_together() -> None:
    assert held_out("abandon") == held_out("abandoned") == held_out("abandonment")
    assert 0 < sum(held_out(f"{a}{b}cde") for a in ALPHABET for b in ALPHABET) < 80


def test_a_network_learns_and_speaks_the_same_in_numpy(tmp_path: Path) -> None:
    torch.manual_seed(0)
    aligned = [("cat", ["k", "ˈæ", "t"]), ("tab", ["t", "ˈæ", "b"]), ("bac", ["b", "ˈæ", "k"])] * 10
    names = sorted({part for _, parts in aligned for part in parts})
    chunks = {part: n for n, part in enumerate(names)}
    network = LetterNetwork(len(names))
    optimiser = torch.optim.AdamW(network.parameters(), 1e-3)
    losses = [learn(network, optimiser, aligned, chunks, epoch, 500) for epoch in range(60)]
    assert losses[-1] < losses[0] / 2
    path = tmp_path / "letters.npz"
    LetterSounds.write(path, {name: values.numpy() for name, values in network.state_dict().items()}, names)
    made = LetterSounds(path)
    assert right(made, aligned[:3]) == (1.0, 1.0)
    network.eval()
    letters = torch.tensor([[ALPHABET.index(letter) + 1 for letter in "cabt"]])
    assert np.allclose(made._read("cabt"), network.read(letters)[0].detach().numpy(), atol=0.05)


def test_batches_hold_every_word_once() -> None:
    aligned = [(word, list(word)) for word in ("ab", "abc", "b", "ca", "cab")]
    [(letters, before, earlier, stressed, target)] = batches(aligned, dict(zip("abc", range(3), strict=True)),
                                                             np.random.default_rng(0))  # fmt: skip
    assert letters.shape == before.shape == earlier.shape == stressed.shape == target.shape == (5, 3)
    assert (target >= 0).sum() == sum(len(word) for word, _ in aligned)
    assert (before[:, 1:][target[:, 1:] >= 0] == target[:, :-1][target[:, 1:] >= 0]).all()
