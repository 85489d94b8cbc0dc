"""The released models by short name: repository, size, and the SHA-256 of their weights."""

from dataclasses import dataclass
from pathlib import Path

VARIANTS = ("custom_voice", "base", "voice_design")
LICENCE = "Apache-2.0"


@dataclass(frozen=True)
class ReleasedFile:
    """One file of a model. For small files only the size is known."""

    path: str
    size_bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class Released:
    name: str
    repo: str
    revision: str  # the first twelve digits of the commit
    files: tuple[ReleasedFile, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def models_in(text: str) -> dict[str, Released]:
    """The models of released.txt, by name."""
    found = {}
    for model in text.strip().split("\n\n")[1:]:
        (name, repo, revision), *files = map(str.split, model.split("\n"))
        listed = tuple(ReleasedFile(path, int(size), *sums) for path, size, *sums in files)
        found[name] = Released(name, repo, revision, listed)
    return found


RELEASED = models_in(Path(__file__).with_suffix(".txt").read_text("utf-8"))
OMNI = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
ALIASES = {"omni": OMNI}
"""Models without known hashes: the newest commit of the repository is downloaded."""

TENSORS = {OMNI: ("talker.*", "code2wav.*", "thinker.model.embed_tokens.*")}
"""For repositories that hold far more than speech needs: only shards with one of these tensors are downloaded."""

THINKER = {OMNI: ("thinker.model.*", "thinker.lm_head.*", "thinker.audio_tower.*")}
"""What answering questions needs beside these."""
OMNI_BYTES = 70_500_000_000  # of all shards

SIZES = ("0.6b", "1.7b")
