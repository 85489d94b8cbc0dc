"""The text tokenizer of the model: byte pairs learned from the training texts, in the Qwen2 file format."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Split

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIALS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)
TEMPLATE_WORDS = ("assistant", "user")  # each must be one token, because prompts are cut by position


@dataclass(frozen=True)
class TokenLists:
    """A tokenizer as its two lists. The specials follow the vocabulary, unless they are in it (`more_tokens.py`)."""

    vocabulary: dict[str, int]
    merges: list[tuple[str, str]]

    @staticmethod
    def learn(texts: Iterable[str], merges: int) -> TokenLists:
        tokenizer = _tokenizer({}, [])
        alphabet = sorted(ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(
            vocab_size=len(alphabet) + merges, initial_alphabet=alphabet, show_progress=False, special_tokens=[]
        )
        tokenizer.train_from_iterator(texts, trainer)
        stored = json.loads(tokenizer.to_str())["model"]
        found = (m.split(" ") if isinstance(m, str) else m for m in stored["merges"])
        pairs: list[tuple[str, str]] = [(first, second) for first, second in found]
        vocabulary = dict(sorted(stored["vocab"].items(), key=lambda item: item[1]))
        for word in TEMPLATE_WORDS:
            pieces = _tokenizer(vocabulary, pairs).encode(word).tokens
            while len(pieces) > 1:  # last in rank, so that other words are split as before
                pairs.append((pieces[0], pieces[1]))
                pieces = [pieces[0] + pieces[1], *pieces[2:]]
                vocabulary.setdefault(pieces[0], len(vocabulary))
        return TokenLists(vocabulary, pairs)

    @property
    def size(self) -> int:
        return len(self.vocabulary.keys() | SPECIALS)

    def special(self, token: str) -> int:
        return self.vocabulary.get(token, len(self.vocabulary) + SPECIALS.index(token))

    def word(self, word: str) -> int:
        return self.vocabulary[word]

    @property
    def newline(self) -> int:
        return self.vocabulary["Ċ"]

    def encoder(self) -> Tokenizer:
        return _tokenizer(self.vocabulary, self.merges)

    def words(self, text: str) -> list[str]:
        """The parts of a text that are split into tokens one by one."""
        return [word for word, _ in _pre_tokenizer().pre_tokenize_str(text)]

    @cached_property
    def _merging(self) -> models.BPE:
        return models.BPE(vocab=self.vocabulary, merges=self.merges)

    def split(self, word: str) -> list[str]:
        """The tokens of one of `words`."""
        return [token.value for token in self._merging.tokenize(word)]

    def write(self, folder: Path) -> None:
        """vocab.json, merges.txt and tokenizer_config.json."""
        (folder / "vocab.json").write_text(json.dumps(self.vocabulary, ensure_ascii=False, separators=(",", ":")))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in self.merges))
        added = {
            str(self.special(token)): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for token in SPECIALS
        }
        config = {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": added,
            "additional_special_tokens": list(SPECIALS[1:]),
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 131072,
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        }
        (folder / "tokenizer_config.json").write_text(json.dumps(config, separators=(",", ":")) + "\n")

    @staticmethod
    def read(folder: Path) -> TokenLists:
        merges = (folder / "merges.txt").read_text().splitlines()[1:]
        pairs = [(a, b) for a, b in (line.split(" ") for line in merges)]
        return TokenLists(json.loads((folder / "vocab.json").read_text()), pairs)


def _tokenizer(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = _pre_tokenizer()
    if vocabulary:
        tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    return tokenizer


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [Split(Regex(PATTERN), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
