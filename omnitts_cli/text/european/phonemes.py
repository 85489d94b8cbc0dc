"""Text -> the string of phonemes that a model of `"text_input": "phonemes-2"` was taught; whole or as it arrives.

The string is that of `sentence`, with a letter for nasal vowels, so that a word stays one run of letters. "?" is where
the voice rises: a question that begins with a word that asks ends in a full stop, as the English ones do.
"""

import re
import unicodedata

from omnitts_cli.text.european import sentence

NASAL = "ⁿ"
FORM = str.maketrans({"\u0303": NASAL, "\u032a": None})
"""The tilde over a vowel; and a mark under a consonant, which says nothing."""
ASKING = {
    "es": "qué quién quiénes cuál cuáles cómo cuándo cuánto cuánta cuántos cuántas dónde adónde",
    "fr": "qui que qu quoi quel quelle quels quelles comment quand combien où pourquoi",
    "it": "chi che cosa quale quali qual come quando quanto quanta quanti quante dove dov perché cos com quant",
    "pt": "quem que quê qual quais como quando quanto quanta quantos quantas onde aonde cadê",
}
OPENING = {
    "es": "y o pero a con de en para por desde hasta entonces sobre",
    "fr": "et ou mais à avec de d en pour par depuis alors sur dans chez",
    "it": "e o ma a con di d in per da allora su",
    "pt": "e ou mas a com de em para por desde então sobre o do no",
}
"""Words that may stand before the word that asks."""
BEFORE = 2  # words before it, at most
WORD = re.compile(r"[^\W\d_]+")
QUESTION = re.compile(r"[^.!?…]*\?")
CLAUSE_END = re.compile(r"[,.;:!?…](?=\s)")


def phonemes(text: str, language: str) -> str:
    """The string for a text of that language, whose numbers and signs must have become words before."""
    said = sentence.phonemes(QUESTION.sub(lambda found: marked(found[0], language), text), language)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", said).translate(FORM))


def marked(question: str, language: str) -> str:
    """A question with a full stop in the place of its mark where the voice falls."""
    asking, opening = ASKING[language].split(), OPENING[language].split()
    words = [found[0].lower() for found in WORD.finditer(question)][: BEFORE + 1]
    while len(words) > 1 and words[0] in opening and words[0] not in asking:
        del words[0]
    return f"{question[:-1]}." if words and words[0] in asking else question


class ArrivingClauses:
    """Text that is still arriving: a clause is read when it is complete, as every word of it can change another."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._held = ""
        self._begun = False

    def write(self, text: str) -> str:
        """More text -> what is certain by now."""
        self._held += text
        end = max((found.end() for found in CLAUSE_END.finditer(self._held)), default=0)
        clause, self._held = self._held[:end], self._held[end:]
        return self._read(clause)

    def close(self) -> str:
        """The rest."""
        rest, self._held = self._held, ""
        return self._read(rest)

    def _read(self, clause: str) -> str:
        said = phonemes(clause, self._language) if clause.strip() else ""
        if said and self._begun and said[0] not in ",.!?":
            said = f" {said}"
        self._begun = self._begun or bool(said)
        return said
