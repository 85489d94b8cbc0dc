"""Short forms of words and Roman numerals."""

from __future__ import annotations

import re

from omnitts_cli.text.numerals import cardinal, ordinal, roman
from omnitts_cli.text.spoken.rules import Match, Rule

SHORT = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor", "Jr": "Junior",
    "Sr": "Senior", "vs": "versus", "etc": "et cetera", "approx": "approximately", "e.g": "for example",
    "i.e": "that is", "Gen": "General", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant", "Gov": "Governor",
    "Rev": "Reverend", "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Dept": "Department",
    "dept": "department", "Col": "Colonel", "Maj": "Major", "Cmdr": "Commander", "Sen": "Senator",
    "Rep": "Representative", "Pres": "President", "Hon": "Honorable", "Bros": "Brothers", "Blvd": "Boulevard",
    "Ave": "Avenue", "Rd": "Road", "Hwy": "Highway", "Pkwy": "Parkway", "Mt": "Mount", "Univ": "University",
    "Assn": "Association", "incl": "including", "est": "established", "cf": "compare", "viz": "namely",
    "et al": "et al", "a.k.a": "also known as", "Ph.D": "P H D", "M.D": "M D", "min": "minimum", "max": "maximum",
    "avg": "average", "misc": "miscellaneous", "Tel": "Telephone", "tel": "telephone", "ext": "extension",
    "Ext": "Extension", "ca": "circa",
}  # fmt: skip
ENDS = {"Jr", "Sr", "etc", "Inc", "Ltd", "Corp", "Bros", "Ave", "Blvd", "Rd", "Hwy", "Ph.D", "M.D", "min", "max",
        "et al"}  # whose stop may also end the sentence  # fmt: skip
WORD_WITH_STOP = {"min", "max", "est", "ext", "ca", "Rep", "Hon", "Col", "Maj"}  # read only where more follows
NUMBERED = {
    "Fig": "Figure", "Figs": "Figures", "fig": "figure", "figs": "figures", "p": "page", "pp": "pages", "P": "Page",
    "Vol": "Volume", "vol": "volume", "Ch": "Chapter", "ch": "chapter", "Sec": "Section", "sec": "section",
    "Art": "Article", "Eq": "Equation", "eq": "equation", "No": "number", "Nos": "numbers", "no": "number",
    "nos": "numbers", "Pt": "Part", "pt": "part", "App": "Appendix", "Tab": "Table", "c": "circa", "ed": "edition",
    "Rm": "Room", "Apt": "Apartment", "Ste": "Suite", "para": "paragraph", "Ex": "Example", "Op": "Opus", "v": "verse",
}  # fmt: skip
SLASHED = {"and/or": "and or", "he/she": "he or she", "his/her": "his or her", "him/her": "him or her",
           "w/o": "without", "n/a": "not applicable", "N/A": "not applicable", "w/": "with",
           "c/o": "care of"}  # fmt: skip
NO_STOP = {"Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor"}

RULERS = frozenset(
    "Louis Henry George Edward William James Charles Elizabeth Mary Richard John Philip Peter Catherine Alexander "
    "Nicholas Frederick Ferdinand Friedrich Wilhelm Leopold Napoleon Francis Pius Paul Benedict Gregory Innocent "
    "Leo Clement Urban Ramesses Ramses Ptolemy Cleopatra Thutmose Amenhotep Constantine Justinian Otto Ivan "
    "Gustav Christian Haakon Harald Olav Margrethe Umberto Victor Emmanuel Albert Alfonso Isabella Juan Carlos "
    "Felipe Pedro Manuel Afonso Sixtus Boniface Celestine Rama Mehmed Murad Selim Osman Robert David Malcolm "
    "Kenneth Baldwin Bohemond Theodosius Xerxes Darius".split()
)
COUNTED = frozenset(
    "Chapter Part Section Act Scene Book Volume Vol War Article Appendix Phase Level Type Class Grade Title Bowl "
    "Episode Table Figure Stage Step Division Unit Lesson Schedule Tier Category Corps Fantasy Rocky Quest Group "
    "Round Series Mark Psalm Canto Sonata Symphony Number No Annex Exhibit Apollo Saturn Olympiad Wars Theft Auto "
    "Sector Zone chapter part section act scene book volume article appendix phase level type class stage tier "
    "category".split()
)
AFTER_ONE = re.compile(
    r"(?:[.,:;!?)\"'-]|$| (?:of|and|was|is|or|to|in|ruled|reigned|died|began|ended|had|at|on|by|it|he|she|they|we)\b)"
)
PLAIN_ROMAN = re.compile(r"(?:II|III|VII|VIII|IX|XI{1,3}|XI?V|XVI{0,3}|XIX|XXI{0,3})")
STREET_BEFORE = re.compile(r"(?:[A-Z][a-z]+|\d(?:st|nd|rd|th)) \Z")
HOUSE_BEFORE = re.compile(r"\b\d{1,5}[A-D]? (?:[A-Z][\w.]* ){1,3}\Z")


def shortened(found: Match) -> str:
    word = found["short"]
    after = found.string[found.end() : found.end() + 2]
    if word in WORD_WITH_STOP and not re.match(r" [\w(]", after):
        return found[0]
    if word == "Dr" and HOUSE_BEFORE.search(before(found)) and not re.match(r" [A-Z][a-z]", after + "  "):
        return "Drive" + ("." if not after.strip() else "")
    stop = "." if word in ENDS and not after.strip() else ""
    return SHORT[word] + stop


def before(found: Match) -> str:
    return found.string[max(0, found.start() - 40) : found.start()]


def saint_or_street(found: Match) -> str:
    """St. before a name is a saint, after one a street: 12 Main St. in St. Louis."""
    after = found.string[found.end() : found.end() + 3]
    name_follows = bool(re.match(r" [A-Z]", after))
    street = bool(STREET_BEFORE.search(before(found)))
    if name_follows and not HOUSE_BEFORE.search(before(found)):
        return "Saint"
    if street:
        return "Street" + ("." if found["stop"] and not after.strip() else "")
    return "Saint" if name_follows else found[0]


def numeral(found: Match) -> str:
    """World War II -> two; Louis XIV -> the fourteenth. What is not certainly a number stays."""
    text = found["roman"]
    name = re.search(r"([A-Za-z]+)\.? \Z", before(found))
    value = roman(text)
    if name is None or value is None:
        return text
    after = found.string[found.end() : found.end() + 9]
    if text in ("I", "V", "X", "C", "D", "L", "M") and not AFTER_ONE.match(after):
        return text
    if name[1] in RULERS:
        return f"the {ordinal(value)}"
    if (
        name[1] in COUNTED
        or name[1] in NUMBERED
        or (PLAIN_ROMAN.fullmatch(text) and name[1][0].isupper() and name[1].lower() not in SMALL)
    ):
        return cardinal(value)
    return text


SMALL = frozenset("the a an my his her this that with and or on in of to by for".split())

RULES = (
    Rule("a", rf"\b(?P<word>{'|'.join(NUMBERED)})\. ?(?=\d|[IVXLC]+\b)", lambda found: f"{NUMBERED[found['word']]} "),
    Rule("#№", r"#(?=\d)|№ ?(?=\d)", lambda found: "number "),
    Rule("§", r"§§? ?(?=\d)", lambda found: "section "),
    Rule("a", rf"(?<![\w/])(?P<word>{'|'.join(SLASHED)})(?![\w/])", lambda found: SLASHED[found["word"]]),
    Rule("a", r"\bSt\b(?P<stop>\.?)(?=[\s,.!?;]|$)", saint_or_street),
    Rule("a", rf"(?P<short>\b(?:{'|'.join(re.escape(word) for word in SHORT)}))\.", shortened),
    Rule("a", rf"\b(?P<short>{'|'.join(NO_STOP)})(?= [A-Z])", lambda found: NO_STOP[found["short"]]),
    Rule("a", r"(?:(?<=[a-z] )|(?<=[a-z]\. ))(?P<roman>[IVXLCDM]{1,9})\b(?!['’.]\w|[$#&+^])", numeral),
    Rule("a", r"\b[CF]#(?!\w)", lambda found: f"{found[0][0]} sharp"),
    Rule("-−", r"(?<![\w.)%°²³])[-−](?=[$€£]?\.?\d)", lambda found: "minus "),
    Rule("~≈", r"(?<!\w)[~≈] ?(?=[$€£]?\.?\d)", lambda found: "about "),
    Rule(" *", r"(?<=\d) ?\* ?(?=\d)", lambda found: " times "),
    Rule(".", r"(?<=[A-Za-z])\.(?=\d)", lambda found: "dot"),
    Rule(".", r"(?<=[a-z0-9]{2})\.(?=[a-z]{2})", lambda found: "dot"),
)  # fmt: skip
