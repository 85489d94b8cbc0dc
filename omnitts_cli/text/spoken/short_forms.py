"""Short forms of words, words of chat, and Roman numerals."""

from __future__ import annotations

import re

from omnitts_cli.text.numerals import cardinal, ordinal, roman
from omnitts_cli.text.spoken import english
from omnitts_cli.text.spoken.rules import Match, Rule, Said

SHORT = {
    "etc": "et cetera", "approx": "approximately", "e.g": "for example", "i.e": "that is", "Inc": "Incorporated",
    "Ltd": "Limited", "Corp": "Corporation", "Dept": "Department", "Bros": "Brothers", "Univ": "University",
    "Assn": "Association", "incl": "including", "est": "established", "cf": "compare", "viz": "namely",
    "vs": "versus", "et al": "et al", "a.k.a": "also known as", "Ph.D": "P H D", "M.D": "M D", "min": "minimum",
    "max": "maximum", "avg": "average", "misc": "miscellaneous", "Tel": "Telephone", "ext": "extension",
    "ca": "circa", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Acct": "Account", "Mtg": "Meeting",
    "Attn": "Attention", "temp": "temperature", "Co": "Company", "Gov't": "Government", "lat": "latitude",
    "lon": "longitude", "long": "longitude", "ft": "featuring", "feat": "featuring", "sat": "saturation",
    "vis": "visibility", "ed": "edited", "exp": "expires", "Intl": "International", "Natl": "National",
    "Mgmt": "Management", "Mgr": "Manager", "Asst": "Assistant", "Appt": "Appointment", "Rep": "Rep",
    "Bldg": "Building", "Elem": "Elementary", "resp": "respectively", "esp": "especially", "excl": "excluding",
    "qty": "quantity", "ref": "reference", "mfg": "manufacturing", "mgmt": "management", "govt": "government",
    "op cit": "op cit", "ea": "each", "No": "number", "Hosp": "Hospital", "Inst": "Institute", "Soc": "Society",
}  # fmt: skip
FORMS = {short.lower(): long for short, long in SHORT.items()}
ENDS = {
    "jr", "sr", "etc", "inc", "ltd", "corp", "bros", "ph.d", "m.d", "min", "max", "et al", "esq", "co", "dept", "ea",
    "temp", "approx", "qty", "univ", "assn",
}  # fmt: skip
GOES_ON = {
    "min", "max", "est", "ext", "ca", "lat", "lon", "long", "sat", "vis", "ed", "exp", "ref", "rep", "no", "ft",
    "temp", "esp", "resp", "co", "ea", "op cit", "soc", "inst", "hosp", "elem",
}  # fmt: skip
NAMES_ONLY = {
    "long", "sat", "ft", "no", "rep", "soc", "inst", "elem", "hosp",
}  # fmt: skip
NUMBERED = {
    "fig": "figure", "figs": "figures", "p": "page", "pp": "pages", "vol": "volume", "vols": "volumes",
    "ch": "chapter", "chap": "chapter", "sec": "section", "art": "article", "eq": "equation", "eqs": "equations",
    "no": "number", "nos": "numbers", "pt": "part", "app": "appendix", "tab": "table", "c": "circa", "ed": "edition",
    "rm": "room", "apt": "apartment", "ste": "suite", "para": "paragraph", "ex": "example", "op": "opus",
    "v": "verse", "vv": "verses", "bldg": "building", "rt": "route", "rte": "route", "hwy": "highway", "ps": "psalm",
    "prop": "proposition", "ep": "episode", "cat": "category", "cl": "clause", "ser": "series", "iss": "issue",
    "ln": "line", "thm": "theorem", "def": "definition", "lot": "lot", "fl": "floor", "exp": "expires",
    "ext": "extension", "div": "division", "sect": "section", "suppl": "supplement", "sched": "schedule",
    "q": "question", "wk": "week", "gr": "grade",
}  # fmt: skip
ALWAYS_SMALL = {
    "no": "number", "nos": "numbers", "c": "circa",
}  # fmt: skip
WITHOUT_STOP = "fig figs vol rm apt ste bldg rte hwy ext eq eqs pp".split()
"""Read before a number also without a full stop."""
NO_STOP = ("Mr", "Mrs", "Ms", "Mx", "Prof")
TITLE = "|".join(sorted(english.TITLES, key=len, reverse=True))
RULERS = frozenset(
    "Louis Henry George Edward William James Charles Elizabeth Mary Richard John Philip Peter Catherine Alexander "
    "Nicholas Frederick Ferdinand Friedrich Wilhelm Leopold Napoleon Francis Pius Paul Benedict Gregory Innocent "
    "Leo Clement Urban Ramesses Ramses Ptolemy Cleopatra Thutmose Amenhotep Constantine Justinian Otto Ivan "
    "Gustav Christian Haakon Harald Olav Margrethe Umberto Victor Emmanuel Albert Alfonso Isabella Juan Carlos "
    "Felipe Pedro Manuel Afonso Sixtus Boniface Celestine Rama Mehmed Murad Selim Osman Robert David Malcolm "
    "Kenneth Baldwin Bohemond Theodosius Xerxes Darius".split()
)
COUNTED = frozenset(
    "chapter part section act scene book volume vol war article appendix phase level type class grade title bowl "
    "episode table figure stage step division unit lesson schedule tier category corps fantasy rocky quest group "
    "round series mark psalm canto sonata symphony number no annex exhibit apollo saturn olympiad wars theft auto "
    "sector zone pages page".split()
)
AFTER_ONE = re.compile(
    r"(?:[.,:;!?)\"'-]|$| (?:of|and|was|is|or|to|in|ruled|reigned|died|began|ended|had|at|on|by|it|he|she|they|we)\b)"
)
PLAIN_ROMAN = re.compile(r"(?:II|III|VII|VIII|IX|XI{1,3}|XI?V|XVI{0,3}|XIX|XXI{0,3})")
SMALL = frozenset("the a an my his her this that with and or on in of to by for".split())


def before(found: Match) -> str:
    return found.string[max(0, found.start() - 40) : found.start()]


def like(word: str, written: str) -> str:
    """The word with a capital where the short form has one."""
    return word[0].upper() + word[1:] if written[0].isupper() else word


def shortened(found: Match) -> str | None:
    written = found["short"]
    key = written.lower()
    after = found.string[found.end() : found.end() + 3]
    if key in ("ed", "ea") and (said := after_number(found, key)):
        return said
    if key not in FORMS or key in NAMES_ONLY or (key in GOES_ON and not re.match(r"[,:]? [\w(]|,", after)):
        return None
    if key in GOES_ON and written[0].isupper() and written not in SHORT and not re.match(r" \d", after):
        return None  # Max. is a name
    if key == "ed" and not after.startswith(" by"):
        return None
    if key == "co" and not re.search(r"(?:&|[A-Z][a-z]+) \Z", before(found)):
        return None
    stop = "." if key in ENDS and not after.strip() else ""
    return like(FORMS[key], written) + stop


def after_number(found: Match, key: str) -> str | None:
    """2nd ed., $4 ea."""
    stop = "" if found.string[found.end() :].strip() else "."
    if key == "ed":
        return f"edition{stop}" if re.search(r"\d(?:st|nd|rd|th) \Z", before(found)) else None
    return f"each{stop}" if re.search(r"\d \Z", before(found)) else None


def title(found: Match) -> str | None:
    """Before a name: Cpl. Jones, Fr. Brown; Sr. after one is Senior."""
    name = found["title"]
    follows = re.match(r" [A-Z]", found.string[found.end() : found.end() + 2])
    if name in ("Sec", "Br", "Sr", "Treas", "Rep", "Col", "Maj", "Hon", "Det", "Fr", "Pres", "Gen") and not follows:
        return None
    if name == "Sr" and re.search(r"[A-Z][a-z]+,? \Z", before(found)):
        return None
    if name == "Gen" and re.match(r"\. \d+:\d", found.string[found.end() - 1 :][:8]):
        return None
    return english.TITLES[name]


def numbered(found: Match) -> str | None:
    """Fig. 3, Apt. #5, Bldg 4, Gen. 1:1."""
    word = found["word"]
    key = word.lower()
    if found["stop"] is None and key not in WITHOUT_STOP:
        return None
    lettered = re.match(r"[A-Z]\b", found.string[found.end() : found.end() + 2])
    if lettered and lettered[0] not in "IVX" and key not in ("apt", "bldg", "rm", "ste", "fig", "tab", "app", "sec"):
        return None
    if key in ("def", "lot", "cat", "ex", "app", "tab", "art", "v") and found["stop"] is None:
        return None
    if key == "c" and re.search(r"\d \Z", before(found)):
        return None
    if key == "pt" and re.search(r"\d ?\Z", before(found)):
        return None
    if word in ("C", "V", "Q", "FL", "Q"):
        return None
    long = ALWAYS_SMALL.get(key) or like(NUMBERED[key], word)
    return f"{long} "


def century(found: Match) -> str:
    """21st c."""
    return "century" + ("." if not found.string[found.end() :].strip() else "")


def genesis(found: Match) -> str:
    return "Genesis"


def chat(found: Match) -> str | None:
    """thx, btw, 2nite."""
    written = found[0]
    key = written.lower()
    said = english.CHAT.get(key)
    if said is None or (written.isupper() and key in ("def", "info", "bc", "ty")):
        return None
    if key in ("def", "prob", "thru", "tho", "info") and found.string[found.end() : found.end() + 1] == ".":
        return None
    return like(said, written)


def letters(found: Match) -> str | None:
    """idk, html: said letter by letter."""
    return found[0].upper() if found[0].islower() else None


def slashed(found: Match) -> str | None:
    return english.SHORT_WORDS.get(found[0]) or english.SHORT_WORDS.get(found[0].lower())


def numeral(found: Match) -> str | None:
    """World War II -> two; Louis XIV -> the fourteenth. What is not certainly a number stays."""
    text = found["roman"]
    name = re.search(r"([A-Za-z]+)\.? \Z", before(found))
    value = roman(text)
    if name is None or value is None:
        return text
    after = found.string[found.end() : found.end() + 9]
    if re.match(r" (?:century|centuries|c\.)", after) and (len(text) > 1 or text in "VXI"):
        return ordinal(value)
    if text in ("C", "D", "L", "M") or (text in ("I", "V", "X") and not AFTER_ONE.match(after)):
        return text
    if name[1] in RULERS:
        return None if text == "X" and name[1] == "Malcolm" else f"the {ordinal(value)}"
    known = name[1].lower() in COUNTED or (name[1].lower() in NUMBERED and name[1].lower() not in ("c", "v", "no", "q"))
    if known or (PLAIN_ROMAN.fullmatch(text) and name[1][0].isupper() and name[1].lower() not in SMALL):
        return cardinal(value)
    return text


def small_numeral(found: Match) -> Said:
    """Scene iii, page xii."""
    value = roman(found["roman"].upper())
    return f"{found['name']} {cardinal(value)}" if value else None


def era(found: Match) -> str:
    return "".join(re.findall("[A-Z]", found[0]))


ALL_FORMS = tuple({form.split(".")[0].split(" ")[0] for form in FORMS})
ENTRIES = "|".join(re.escape(form) for form in sorted(FORMS, key=len, reverse=True))

RULES: tuple[Rule, ...] = (
    Rule("a", r"\bGen\.(?= \d+:\d)", genesis, words=("gen",)),
    Rule("a", rf"\b(?P<title>{TITLE})\.(?=\s|$)", title, words=tuple(t.lower() for t in english.TITLES)),
    Rule("a", rf"\b(?P<title>{'|'.join(NO_STOP)})(?= [A-Z])", title, words=tuple(t.lower() for t in NO_STOP)),
    Rule("a", r"(?<=(?:st|nd|rd|th)[ -])c\.(?=[ ,;)]|$)", century, words=("c",)),
    Rule("a", r"(?<![\w-])(?P<word>[A-Za-z]{1,5})(?:(?P<stop>\.) ?|(?P<space> ))(?=#?\d|[IVXLC]+\b|[A-Z]\b"
         r"(?!\.)|\([0-9a-z]{1,3}\))",
         numbered,
         words=tuple(NUMBERED)),
    Rule("#№", r"#(?=\d+(?:[^\w#]|$|-))|№ ?(?=\d)", lambda found: "number "),
    Rule("a", r"\bop\. ?cit\b\.?", lambda found: "op cit", words=("op",)),
    Rule("a", r"\bNo\.(?= №)", lambda found: "", words=("no",)),
    Rule("§", r"§§? ?(?=\d)", lambda found: "section "),
    Rule("a", r"(?<![\w/])(?:[A-Za-z]{1,3}/(?:[A-Za-z]{1,3})?)(?![\w/])", slashed,
         words=tuple({short.split("/")[0].lower() for short in english.SHORT_WORDS})),
    Rule("a", rf"\b(?P<short>(?i:{ENTRIES}))\.", shortened, words=ALL_FORMS),
    Rule("a", r"\bgov't\b", lambda found: "government", words=("gov",)),
    Rule("a", r"\b[Ii]nt'l\b", lambda found: like("international", found[0]), words=("int",)),
    Rule("a", r"\b[Nn]at'l\b", lambda found: like("national", found[0]), words=("nat",)),
    Rule("a", r"\bGov't\b", lambda found: "Government", words=("gov",)),
    Rule("a", r"\b(?:A\.?D|B\.?C|B\.?C\.?E|C\.?E)\b\.?(?=[ ,;)]|$)", era, words=("ad", "bc", "bce", "ce", "a", "b",
         "c")),
    Rule("a0", r"(?<![\w'’-])[A-Za-z0-9]{2,8}(?![\w'’/@-]|\.\w)", chat,
         words=tuple(re.match("[a-z]*", short)[0] for short in english.CHAT)),  # type: ignore[index]
    Rule("a", r"(?<![\w.@/-])[a-z]{2,5}(?![\w@/'’]|\.\w)", letters, words=tuple(english.LETTERS)),
    Rule("a", r"\b(?P<name>[A-Za-z]+) (?P<roman>[ivxl]{2,7}|[vx](?=[.,;)]|$))\b", small_numeral,
         words=("scene", "page", "pages", "chapter", "act", "part", "book", "section", "canto", "appendix", "volume")),
    Rule("a", r"(?:(?<=[A-Za-z] )|(?<=[a-z]\. ))(?P<roman>[IVXLCDM]{1,9})\b(?!['’.]\w|[$#&+^])", numeral),
    Rule("a", r"\b[ap]\.m\b|\b(?:[a-z]\.){2}[a-z]\b\.?(?=[ ,]|$)", lambda found: found[0].replace(".",
         "").upper(), words=("e", "p", "c", "m")),
    Rule("a", r"\bDrs\.(?= [A-Z])", lambda found: "Doctors", words=("drs",)),
    Rule("a", r"\bMessrs\.(?= [A-Z])", lambda found: "Messrs", words=("messrs",)),
    Rule("a", r"(?<=degrees )[CF]\b(?!')", lambda found: "Celsius" if found[0] == "C" else "Fahrenheit", words=("c",
         "f")),
    Rule("a", r"\bf/(?=\d)", lambda found: "f ", words=("f",)),
    Rule("a", r"\bWWI{1,2}\b", lambda found: f"World War {'one' if found[0] == 'WWI' else 'two'}", words=("wwi",
         "wwii")),
    Rule("/", r"(?<=[a-z]s)/(?=(?:day|week|month|year|hour|minute|second|night|person)\b)", lambda found: " per "),
    Rule("a", r"\b(?:YoY|QoQ|MoM|WoW)\b", lambda found: found[0].upper(), words=("yoy", "qoq", "mom", "wow")),
    Rule("/", r"(?<=[A-Z]{2})/(?=[A-Z]{2})|(?<=\b[A-Z])/(?=[A-Z]\b)", lambda found: " "),
    Rule("/", r"(?<=[°º][CF])/(?=\d)", lambda found: ", "),
)  # fmt: skip

LAST = (
    Rule("a", r"(?:(?<=[\w,] )|\A)[A-Z][a-z]{0,3}\.(?= \d)", lambda found: found[0][:-1]),
)  # fmt: skip
"""A short form that no table has, before a number inside a sentence: Mi. 12."""
