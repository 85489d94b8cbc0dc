"""Counting contexts, with readings that are made up here."""

from omnitts_cli.text.european.contexts import BY_ACCENT, Tables, stress_of
from omnitts_cli.training.letter_contexts import ContextCounts, count_stress, in_company, learn, right, units


def test_a_context_is_kept_where_it_says_something_else() -> None:
    counts = ContextCounts()
    for keys, said in ((".c .ca", "k"), (".c .co", "k"), (".c .ce", "s"), (".c .ci .cia", "s"), (".c .ci .cio", "s")):
        counts.add(iter(keys.split()), said)
    table = counts.table()
    assert table[".c"] == "s" and table[".ca"] == table[".co"] == "k"
    assert ".ce" not in table and ".cia" not in table


def test_units_keep_their_marks() -> None:
    assert units("ʃɑ̃tˈɔ̃tʃːa") == ["ʃ", "ɑ̃", "t", "ˈɔ̃", "t", "ʃː", "a"]


def test_every_word_is_read_once_a_turn() -> None:
    words = [f"w{n}" for n in range(20)]
    read = " ".join(in_company(words, 2)).split()
    assert sorted(read) == sorted(words * 2) and read != words * 2


def test_what_was_taught_is_read() -> None:
    lexicon = {"casa": "kˈasa", "cosa": "kˈosa", "cena": "θˈena", "la": "la", "canción": "kanθjˈon", "mesa": "mˈesa"}
    clauses = [
        (list(pair), [lexicon[word] for word in pair]) for pair in zip(lexicon, [*[*lexicon][1:], "la"], strict=True)
    ]
    told: list[str] = []
    tables = learn(clauses * 3, told.append)
    assert right(tables, clauses)[0] == 1.0 and len(told) == 1


def test_accents_that_show_the_stress_are_a_rule() -> None:
    lexicon = {
        "cómica": "kˈomika",
        "médico": "mˈediko",
        "canción": "kanθjˈon",
        "comida": "komˈida",
        "médica": "mˈedika",
    }
    clauses = [([word], [said]) for word, said in lexicon.items()]
    tables = learn(clauses * 3, lambda line: None)
    assert tables.stress[BY_ACCENT] == "1.00"
    assert stress_of(tables, "cámida", "|") == {1: "ˈ"}  # as in comida, if the accent did not count
    silent = learn([([word], [said.replace("ˈ", "")]) for word, said in lexicon.items()], lambda line: None)
    assert BY_ACCENT not in silent.stress


def test_a_weak_stress_is_kept_where_a_consonant_stands_for_the_vowel() -> None:
    stress, second = ContextCounts(), ContextCounts()
    count_stress("avant", "|", {3: "ˌ"}, stress, second)
    tables = Tables(stress.table(), second.table(), {})
    assert stress_of(tables, "avant", "|") == {3: "ˌ"}
