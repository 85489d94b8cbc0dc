"""Languages: names, and a detector that rather says nothing than something wrong."""

import pytest
from languages import rows

from omnitts_cli.errors import UsageError
from omnitts_cli.text.language import CERTAIN, FLOOR, LANGUAGES, detect, language_code, likeliest

TEXTS = {
    "en": ["Hello, how are you today?", "The weather is nice.", "It was the best of times, it was the worst of times.",
           "I would like to have a cup of tea, please."],
    "de": ["Guten Morgen, wie geht es dir?", "Das Wetter ist heute schön.", "Es war einmal ein König.",
           "Ich möchte bitte eine Tasse Tee."],
    "fr": ["Bonjour, comment allez-vous ?", "Je ne sais pas.", "Il était une fois un roi qui avait une fille.",
           "Je voudrais une tasse de thé, s'il vous plaît."],
    "es": ["Hola, ¿cómo estás?", "El tiempo es bueno hoy.", "Había una vez un rey que tenía una hija muy hermosa.",
           "¿Me puede dar una taza de té, por favor?"],
    "pt": ["Olá, como você está?", "O tempo está bom hoje.", "Era uma vez um rei que tinha uma filha muito bonita.",
           "Eu gostaria de uma xícara de chá, por favor."],
    "it": ["Ciao, come stai?", "Il tempo è bello oggi.", "C'era una volta un re che aveva una figlia molto bella.",
           "Vorrei una tazza di tè, per favore."],
    "ru": ["Привет, как дела?", "Жил-был король, и была у него дочь."],
    "zh": ["你好，今天天气很好。", "我用 Python 写代码。", "從前有一個國王。"],
    "ja": ["こんにちは、元気ですか。", "昔々、ある所に王様がいました。", "カタカナ"],
    "ko": ["안녕하세요", "옛날 옛적에 왕이 살았습니다."],
}  # fmt: skip


@pytest.mark.parametrize(("language", "text"), [(code, text) for code, texts in TEXTS.items() for text in texts])
def test_plain_sentences(language: str, text: str) -> None:
    guess = detect(text)
    assert guess.language == language and guess.confidence >= FLOOR


@pytest.mark.parametrize(
    "text",
    ["", "123", "…", "radio check", "OK", "Error: connection refused", "Jeg hedder Anna og bor i København.",
     "Ala ma kota i psa, które lubi.", "Привіт, як справи? Я їду", "مرحبا", "שלום", "नमस्ते", "GPU memory"],
)  # fmt: skip
def test_what_is_in_doubt_or_foreign_is_no_answer(text: str) -> None:
    assert detect(text).language is None


def test_greetings_are_not_mistaken_and_long_texts_are_judged_by_their_beginning() -> None:
    """A well-known detector takes `Hello.` for Italian."""
    assert detect("Hello.").language in (None, "en")
    assert detect("Das ist ein Satz und noch einer. " * 100_000).language == "de"


@pytest.mark.parametrize(
    "text",
    ["A simple example", "Got a dictionary?", "A man without a woman is like a statue without pigeons.", "Ho ho ho!",
     "See also MS-DOS, IBM-DOS, DR-DOS.", "Yo baby yo baby yo.", "I am an honest man!", "Adults die young.", "Ha ha.",
     "Youth is a blunder, manhood a struggle, old age a regret.", "Los Angeles", "BREAKFAST.COM halted"],
)  # fmt: skip
def test_english_is_never_taken_for_something_else_with_certainty(text: str) -> None:
    guess = detect(text)
    assert guess.language in (None, "en") or guess.confidence < CERTAIN


@pytest.mark.parametrize(
    ("given", "code"), [("en", "en"), ("English", "en"), ("ZH-cn", "zh"), ("pt_BR", "pt"), ("auto", None)]
)
def test_names(given: str, code: str | None) -> None:
    assert language_code(given) == code


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(UsageError, match="unknown language 'klingon'") as caught:
        language_code("klingon")
    assert all(code in (caught.value.hint or "") for code in LANGUAGES)


CODES = ("en", "es", "fr", "it", "pt")


@pytest.mark.parametrize(("language", "least"), [("es", 0.93), ("fr", 0.92), ("it", 0.8), ("pt", 0.82)])
def test_a_single_sentence_of_few_languages_is_mostly_known(language: str, least: float) -> None:
    found = [likeliest(row[0], CODES, "en") for row in rows(language, "lines")]
    assert found.count(language) >= least * len(found)


def test_a_sentence_that_tells_nothing_stays_in_the_language_before() -> None:
    assert likeliest("OK.", CODES, "it") == "it" and likeliest("", CODES, "en") == "en"
    assert likeliest("The weather is nice.", CODES, "it") == "en"
    assert likeliest("Das Wetter ist heute schön.", ("en", "de"), "en") == "de"
    assert likeliest("Il tempo è bello oggi.", (), "en") == "en"
    for text in (*TEXTS["en"], "Hello.", "Yes, no, maybe.", "Come on!", "$5 per day.", "Plus one.", "No."):
        assert likeliest(text, CODES, "en") == "en", text
