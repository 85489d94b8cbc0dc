"""Whether a stop ends a sentence, decided for one place from the text before it and the word after it."""

import re

from omnitts_cli.text.abbreviations import GERMAN_BEFORE, GERMAN_DATE, ShortFormRules
from omnitts_cli.text.pattern import WidePattern

STOPS = ".!?…。！？｡．‼⁇⁈⁉"
FULL_STOPS = "。！？｡‼⁇⁈⁉"  # need no space after them
CLOSERS = "\"'”’»›)]}」』）】》〉］｝"
GERMAN_CLOSERS = "“‘"  # they close in German and open elsewhere
OPENERS = "\"'“‘«‹„‚([{「『（【《〈［｛¿¡-–—―*_#"

WIDE = (
    "\u1100-\u11ff\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f300-\U0001faff\U00020000-\U0003fffd"
)
CJK = WidePattern(
    "[\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003fffd]"
)
HIRAGANA = WidePattern("[\u3041-\u309f]")
WORD_BEFORE = re.compile(r"(?:[^\W\d_]{1,4}\.[ -]?){0,4}[\w№º°ª'’-]*$")
OPENING_TIME = re.compile(
    r"\W*(?:At|By|Around|About|Before|After|Until|From|Since|Between)(?: \S+){1,3} [ap]\.? ?m", re.IGNORECASE
)
LIST_NUMBER = re.compile(r"\s*[(\[]?(?:\d{1,3}|[ivxlcIVXLC]{1,5}|[a-zA-Z])$")
ROMAN = re.compile(r"[IVXLCDM]+(?=\W)")
LAST_LETTERS = re.compile(r"[^\W\d_]+\Z")
SIGNS = frozenset("@&+=<>/%#$€£")
"""After a full stop they begin no sentence: it belongs to a short form."""
INITIAL_OR_NUMBER = re.compile(r"[^\W\d_][.,;)]|No\.? ?#?\d")
NUMBER_BEFORE = re.compile(r"^\d+-")  # a 12-pk. of beer
COUNTED = re.compile(r"\d ?[a-z]+\Z")
AFTER_FIGURE = re.compile(r"\d[ -]?(?:in|c|t|T|g|l|L|m|h|d)\Z")
NO_VOWEL = re.compile("[b-df-hj-np-tv-xz]{2,5}")
EXCLAIMED = frozenset("hmm mm shh psst brr thx pls brb ttyl tbh smh rn btw tmrw".split())
"""Words without a vowel that are not short for another."""
LOOK_BACK = 40


def ends_sentence(before: str, stops: str, closers: str, adjacent: bool, after: str, rules: ShortFormRules) -> bool:
    """`before` is the sentence up to the stop, `after` the beginning of what follows (a word, or less)."""
    following = after[:1]
    if stops[-1] in FULL_STOPS:
        # 「はい。」と言った: the quotation goes on in the same sentence.
        return not (adjacent and closers and HIRAGANA.match(following))
    if adjacent:
        return bool(CJK.match(following)) and bool(CJK.search(before[-2:]))
    if following and following in ",;:&、，；：":
        return False
    if following.islower():
        return ends_before_small_letter(before, stops, closers, rules)
    if stops != "." or closers:
        return True
    return not abbreviated(before, after, rules)


def ends_before_small_letter(before: str, stops: str, closers: str, rules: ShortFormRules) -> bool:
    """Rare: only in text without capitals, after a word that is not an abbreviation."""
    if closers or len(stops) > 1 or stops == "…":
        return False
    first = next((c for c in before if c.isalpha()), "")
    return first.islower() and (stops in "!?" or not (abbreviated(before, "", rules) or shortened(before, rules)))


def shortened(before: str, rules: ShortFormRules) -> bool:
    """Whether a sentence may go on with a small letter or a digit: it ends with a short form, as `3 lg. eggs`."""
    word = LAST_LETTERS.search(before[-LOOK_BACK:])
    written = word[0].lower() if word else ""
    if AFTER_FIGURE.search(before[-LOOK_BACK:]):
        return True  # 1/2-in. pieces
    return written in rules.short or (bool(NO_VOWEL.fullmatch(written)) and written not in EXCLAIMED)


def abbreviated(before: str, after: str, rules: ShortFormRules) -> bool:
    """Whether the word before a single full stop is an abbreviation, an initial or a number that goes on."""
    if LIST_NUMBER.fullmatch(before):
        return True  # `1. The first point`
    tail = before[-LOOK_BACK:]
    earlier, space, alone = tail.rpartition(" ")
    if alone.endswith("str") and after[:1].isdigit():
        return True  # Friedrichstr. 43
    if space and len(alone) > 1 and alone.isalpha() and earlier[-1:] != "." and alone.lower() not in rules.known:
        return False  # as most words
    word = WORD_BEFORE.search(tail)
    written = word[0] if word else ""
    joined = written.replace(" ", "").lower()
    last = re.split(r"[. ]", written)[-1]
    if last.isdigit():
        return len(last) <= 3 and ordinal(tail, after, rules)
    # the m of p.m. is not the French M.
    chunk = NUMBER_BEFORE.sub("", written.split(" ")[-1].lower())
    if joined in rules.closing and OPENING_TIME.fullmatch(before):
        return True  # `At 5 a.m. Mr. Smith left`
    return of_known_word({joined, chunk}, tail, after, rules) or (
        ("." in joined or (len(last) == 1 and last.isalpha() and not CJK.match(last)))
        and not (starts_sentence(after, rules) or joined in rules.closing)
    )


def of_known_word(candidates: set[str], tail: str, after: str, rules: ShortFormRules) -> bool:
    """Whether the word before a full stop is an abbreviation of the language, and its sentence goes on."""
    if candidates & rules.closing:
        return not capital(after) or first_word(after).lower() in rules.zones
    if candidates & rules.suffixes and behind_a_name(tail):
        return not (starts_sentence(after, rules) or first_word(after).lower() in rules.orders)
    if candidates & rules.titles:
        return True
    if candidates & rules.short and goes_on(tail, after, rules):
        return True
    if candidates & rules.numbered and (after.lstrip("([#")[:1].isdigit() or ROMAN.match(after)):
        return True
    return bool(candidates & rules.common) and not starts_sentence(after, rules)


def goes_on(tail: str, after: str, rules: ShortFormRules) -> bool:
    """Whether a sentence goes on behind a short form: Wt. 12 oz, 3 bks. @ 25¢, Med. Ctr. Drive, mtg. Tuesday."""
    if after.lstrip("([")[:1].isdigit() or after[:1] in SIGNS:
        return True
    word = LAST_LETTERS.search(tail)
    written = word[0] if word else ""
    if written in rules.also_words or (written.isupper() and len(written) > 2) or COUNTED.search(tail):
        return False  # his exec. Bob, the DEPT. Bob, 10 lbs. Bob came
    return not starts_sentence(after, rules)


def ordinal(tail: str, after: str, rules: ShortFormRules) -> bool:
    """Whether a number with a full stop is an ordinal, as in German: `am 5. Juni`."""
    if rules.ordinals:
        return not starts_sentence(after, rules)
    return bool(GERMAN_DATE.match(after)) or (capital(after) and bool(GERMAN_BEFORE.search(tail)))


def behind_a_name(tail: str) -> bool:
    """Whether a capital letter begins the word before the last one, which is not the first of its sentence."""
    words = tail.split()
    return len(words) > 2 and words[-2][:1].isupper() and words[-3][-1:] not in STOPS


def capital(after: str) -> bool:
    return first_word(after)[:1].isupper()


def first_word(after: str) -> str:
    word = re.match(r"[^\W\d_]+", after.lstrip(OPENERS))
    return word[0] if word else ""


def starts_sentence(after: str, rules: ShortFormRules) -> bool:
    """Whether the next word is one that often begins a sentence."""
    if not capital(after):
        return False
    word = first_word(after)
    initial = bool(INITIAL_OR_NUMBER.match(after.lstrip(OPENERS)))
    return word.lower() in rules.starters and not initial
