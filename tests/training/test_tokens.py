"""The tokenizer keeps template words whole and is read alike by every reader."""

from pathlib import Path

from omnitts_cli.training.tokens import SPECIALS, TokenLists


def test_template_words_are_one_token(tokens: TokenLists) -> None:
    found = tokens.encoder().encode("<|im_start|>assistant\nThe cat<|im_end|>\n<|im_start|>user\n").tokens
    assert found[:3] == ["<|im_start|>", "assistant", "Ċ"]
    assert found[-3:] == ["<|im_start|>", "user", "Ċ"]


def test_files_are_read_back_and_by_transformers(tokens: TokenLists, tmp_path: Path) -> None:
    from transformers import AutoTokenizer  # takes seconds, so not while tests are collected

    tokens.write(tmp_path)
    assert TokenLists.read(tmp_path) == tokens
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    text = "<|im_start|>assistant\nIt's 1999, naïve 你好!<|im_end|>\n"
    theirs = AutoTokenizer.from_pretrained(tmp_path)(text).input_ids
    assert theirs == tokens.encoder().encode(text).ids
    assert max(theirs) < tokens.size == len(tokens.vocabulary) + len(SPECIALS)
