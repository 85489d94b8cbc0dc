"""A tokenizer that grows: the old ids stay, the control tokens too, and known texts are split as before."""

from pathlib import Path

from training_kit import SENTENCES, learned_tokens

from omnitts_cli.families.common.tokenizer import read_tokenizer
from omnitts_cli.training.more_tokens import joined, with_more
from omnitts_cli.training.tokens import SPECIALS, TokenLists

NEW = ["kwˈando ʎˈeɣa el ˌaʊtoβˈus.", "el kˈeso de la kˈasa.", "bɔⁿ vɛⁿ blɑⁿ."] * 3


def test_old_ids_stay_and_new_texts_get_shorter() -> None:
    before = learned_tokens()
    after = with_more(before, SENTENCES, NEW, 30)
    assert before.vocabulary.items() <= after.vocabulary.items() and after.merges[: len(before.merges)] == before.merges
    assert [after.special(token) for token in SPECIALS] == [before.special(token) for token in SPECIALS]
    assert after.size == before.size + 30 == max(after.vocabulary.values()) + 1
    old, new = before.encoder(), after.encoder()
    assert [e.ids for e in old.encode_batch(SENTENCES)] == [e.ids for e in new.encode_batch(SENTENCES)]
    assert len(new.encode(NEW[0]).ids) < 0.7 * len(old.encode(NEW[0]).ids)
    assert with_more(after, SENTENCES, NEW, 30) == after
    assert joined(["a", "a", "a", "b"], ("a", "a")) == ["aa", "a", "b"]


def test_the_model_folder_reads_it(tmp_path: Path) -> None:
    after = with_more(learned_tokens(), SENTENCES, NEW, 30)
    after.write(tmp_path)
    assert TokenLists.read(tmp_path) == after
    read = read_tokenizer(tmp_path, after.size)
    assert read.size == after.size
    for text in (*SENTENCES, *NEW):
        assert read.encode(text) == after.encoder().encode(text).ids
    assert after.special("<|im_end|>") not in read.encode("<|im_end|>")
