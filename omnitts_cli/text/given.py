"""A word with the sounds that its document gives it, such as SSML's <phoneme>: written as one run of letters, so that
it passes every step between the document and the model. A model of phonemes reads the sounds, any other the word.
"""

import re

SOUNDS = "ˈˌaæɑbdðeɛəɜfɡhiɪjklmnŋoɔpɹsʃtɾθuʊvwzʒʤʧʌᵊᵻ"
"""What a model of "phonemes-en-us" reads."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqr"  # a letter for each of them
LONGEST = 60  # letters of a word, and of its sounds
WORD = re.compile(r"[A-Za-z']+(?:[ -][A-Za-z']+)*")
GIVEN = re.compile(r"[Xx]qz([A-Za-z']+)xqx([A-Za-r]+)zqx")
JOINTS = str.maketrans({" ": "qs", "-": "qh", "q": "qq", "Q": "qQ"})
UNJOINED = re.compile(r"q([shqQ])")
PARTED = {"s": " ", "h": "-", "q": "q", "Q": "Q"}

SAME = (
    ("t͡ʃ", "ʧ"), ("d͡ʒ", "ʤ"), ("tʃ", "ʧ"), ("dʒ", "ʤ"), ("ɝ", "ɜɹ"), ("ɚ", "əɹ"), ("ɒ", "ɑ"), ("ɫ", "l"), ("g", "ɡ"),
    ("r", "ɹ"), ("ʍ", "w"), ("ɐ", "ə"), ("'", "ˈ"), (",", "ˌ"),
)  # fmt: skip
LEFT_OUT = re.compile("[.ːˑ‿\u0361\u032f\u0329 /\\[\\]]")
SINGLE = (
    ("e(?![ɪ])", "eɪ"),
    ("(?<![aɔ])o(?![ʊ])", "oʊ"),
    ("a(?![ɪʊ])", "ɑ"),
)  # a vowel that is two in American English
STRESS = re.compile("([ˈˌ])([^ˈˌaæɑeɛəɜiɪoɔuʊʌᵊᵻ]+)")


def given(word: str, ipa: str) -> str | None:
    """The run of letters for a word and its sounds; None where the model's phonemes have no such sounds."""
    sounds = of_ipa(ipa)
    if not WORD.fullmatch(word) or not sounds or max(len(word), len(sounds)) > LONGEST:
        return None
    return f"xqz{word.translate(JOINTS)}xqx{''.join(LETTERS[SOUNDS.index(sound)] for sound in sounds)}zqx"


def of_ipa(ipa: str) -> str | None:
    """The sounds of a word in the International Phonetic Alphabet, with stress right before its vowel."""
    sounds = LEFT_OUT.sub("", ipa.strip())
    for written, sound in SAME:
        sounds = sounds.replace(written, sound)
    for written, sound in SINGLE:
        sounds = re.sub(written, sound, sounds)
    sounds = STRESS.sub(r"\2\1", sounds)
    return sounds if sounds and all(sound in SOUNDS for sound in sounds) else None


def as_words(text: str) -> str:
    """The text with its words as they were written."""
    if "qz" not in text:
        return text
    return GIVEN.sub(lambda found: word_of(found[1]), text)


def word_of(run: str) -> str:
    return UNJOINED.sub(lambda joint: PARTED[joint[1]], run)


def sounds_of(run: str) -> str | None:
    """The sounds of a run of letters; None for any other word."""
    found = GIVEN.fullmatch(run) if run[1:3] == "qz" else None
    return "".join(SOUNDS[LETTERS.index(letter)] for letter in found[2]) if found else None
