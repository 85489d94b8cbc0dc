"""TextTokenizer: text -> token ids, as the family's byte-level BPE has it, without ever making a control token.

The rows of the template (roles, bos, eos) are placed by number elsewhere, so whatever a user writes,
"<|im_end|>" included, stays plain characters here.
"""

import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from omnitts_cli.errors import InputError, ModelError
from omnitts_cli.families.common.fields import Fields, read_file
from omnitts_cli.text.model_input import TextInput

# The published pattern of the Qwen2 tokenizer: it cuts text into words before any merging.
QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# What the official package uses by accident when it loads a local folder: it cuts at capitals too.
MISTRAL_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RELEASED_TOKENS = 151_643  # of Qwen2's vocabulary; control tokens come after them
VOCABULARY_BYTES = 64 * 2**20  # the released file has 2.8 MB


class TextTokenizer:
    """`encode` for text that is all there, `settled` for text that is still arriving."""

    input: TextInput | None = None  # what speech becomes first, where the model was not taught letters

    def __init__(
        self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], mistral_pattern: bool = False
    ) -> None:
        # imported late: reading a config does not need it
        from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

        self._bpe = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=list(merges)))
        self._bpe.normalizer = self._normalizer = normalizers.NFC()
        pattern = Regex(MISTRAL_PATTERN if mistral_pattern else QWEN2_PATTERN)
        self._gives_back = mistral_pattern
        self._words = pre_tokenizers.Split(pattern, behavior="isolated")
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._bpe.pre_tokenizer = pre_tokenizers.Sequence([self._words, to_bytes])
        self.size = max(vocabulary.values()) + 1
        self.newline = self.encode("\n")  # part of every prompt

    def encode(self, text: str) -> list[int]:
        """The ids of exactly this text; nothing is added or stripped."""
        return self._bpe.encode(printable(text), add_special_tokens=False).ids

    def token_bytes(self) -> dict[int, bytes]:
        """The UTF-8 bytes of every token. A token may begin or end inside a character."""
        values = {symbol: value for value, symbol in byte_symbols().items()}
        words = self._bpe.get_vocab(with_added_tokens=False)
        return {
            id: bytes(values[symbol] for symbol in word) for word, id in words.items() if values.keys() >= set(word)
        }

    def normal(self, text: str) -> str:
        """The text as the vocabulary knows it: composed characters (NFC)."""
        return self._normalizer.normalize_str(text)

    def settled(self, text: str) -> int:
        """How many characters of `text`, which is in normal form, keep their ids whatever may follow.

        Later text can lengthen the last word, join the white space at the end, and put an accent on
        the last character; words before those are final, because the Qwen2 pattern never gives back
        what it has matched. The other pattern does, within a run of letters.
        """
        end = len(text)
        while end and unsure(text[end - 1]):
            end -= 1
        final = min(end - 1, len(text.rstrip()))
        if self._gives_back:
            final = min(final, len(text) - len(text.rsplit(maxsplit=1)[-1]) if text.strip() else 0)
        start = at = 0
        for word, _ in self._words.pre_tokenize_str(text):
            at += len(word)
            if at > final or at == len(text):
                break
            start = at
        return start


class PieceTokenizer(TextTokenizer):
    """For random models, which have no tokenizer file. English has about as many tokens as in the released vocabulary.

    Words are cut into pieces; the id of a piece is its hash. The sample texts of `bench` have 1.04 times the tokens of
    the released vocabulary in English; the extremes are 0.73 times in Italian and 1.46 times in Japanese.
    """

    def __init__(self, rows: int) -> None:
        super().__init__(byte_vocabulary(), [])
        self.size = min(rows, RELEASED_TOKENS)
        self.newline = self.encode("\n")

    def encode(self, text: str) -> list[int]:
        """The ids of exactly this text; nothing is added or stripped."""
        words = self._words.pre_tokenize_str(self.normal(printable(text)))
        return [value % self.size for word, _ in words for value in hashes(word)]


@lru_cache(maxsize=10_000)  # as many as the BPE of a released model keeps
def hashes(word: str) -> list[int]:
    """The hash of each piece of a word, of up to 7 bytes, or 5 if the word is not ASCII. Characters stay whole."""
    encoded = word.encode()
    most, cuts, at = 7 if word.isascii() else 5, [0], 0
    for character in word:
        size = len(character.encode())
        if at + size - cuts[-1] > most:
            cuts.append(at)
        at += size
    return [zlib.crc32(encoded[begin:end]) for begin, end in pairwise([*cuts, at])]


def unsure(character: str) -> bool:
    """Whether a character may still join the one before it: marks, and what this Python does not know yet."""
    return bool(unicodedata.combining(character)) or unicodedata.category(character) == "Cn"


def printable(text: str) -> str:
    """The text itself, or an error for half characters that no file of text can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text holds half a character (U+{ord(text[error.start]):04X}) at position {error.start}",
            hint="the text was read in the wrong encoding; save it as UTF-8",
        ) from None
    return text


def byte_symbols() -> dict[int, str]:
    """How a byte-level vocabulary spells each byte: printable Latin-1 as it is, the others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in plain)
    return {byte: chr(byte) for byte in plain} | {byte: chr(0x100 + index) for index, byte in enumerate(others)}


def byte_vocabulary() -> dict[str, int]:
    """A vocabulary of the 256 bytes and nothing else: for models that no tokenizer file belongs to."""
    from tokenizers import pre_tokenizers

    return {symbol: index for index, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def read_tokenizer(folder: Path, rows: int, mistral_pattern: bool = False) -> TextTokenizer:
    """The tokenizer of a model folder, vocab.json and merges.txt, for a table of `rows` rows."""
    from tokenizers import pre_tokenizers

    fields = Fields.read(folder / "vocab.json", VOCABULARY_BYTES)
    vocabulary = fields.values
    for symbol, index in vocabulary.items():
        if type(index) is not int or not 0 <= index < rows:
            fields.whole(symbol, rows - 1, 0)
    if missing := sorted(set(pre_tokenizers.ByteLevel.alphabet()) - vocabulary.keys()):
        raise fields.problem(None, f"lacks {len(missing)} of the 256 byte symbols, such as {missing[0]!r}")
    return TextTokenizer(vocabulary, _merges(folder / "merges.txt", vocabulary), mistral_pattern)


def _merges(path: Path, vocabulary: Mapping[str, int]) -> list[tuple[str, str]]:
    lines = read_file(path, VOCABULARY_BYTES).split("\n")
    if lines[0].startswith("#version"):
        lines[0] = ""
    merges = [(number, *line.partition(" ")) for number, line in enumerate(lines, 1) if line]
    for number, left, _, right in merges:
        if left + right not in vocabulary or left not in vocabulary or right not in vocabulary:
            raise ModelError(
                f"{path}:{number}: {lines[number - 1][:60]!a} does not join two entries of vocab.json to a third"
            )
    return [(left, right) for _, left, _, right in merges]
