"""The sentences that evaluation speaks, and how their words are compared."""

from omnitts_cli.bench.evaluate import hard_words, sentences, unseen, words


def test_words_are_compared_without_case_or_marks() -> None:
    assert words("The soft cushion broke the Man's fall.") == "the soft cushion broke the man's fall".split()


def test_evaluation_speaks_sentences_of_three_kinds() -> None:
    assert len(set(sentences())) == 50 and len(hard_words()) == 300
    assert len({" ".join(words(sentence)) for sentence in unseen()}) == len(unseen()) == 410


def test_hard_words_stand_in_their_sentences() -> None:
    for hard in hard_words():
        assert hard.word.lower() in hard.sentence.lower() and hard.phonemes.strip() == hard.phonemes != ""
