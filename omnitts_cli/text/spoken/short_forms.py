"""Short forms of words, words of chat, and Roman numerals."""

import re

from omnitts_cli.text.abbreviations import rules_for
from omnitts_cli.text.boundary import starts_sentence
from omnitts_cli.text.numerals import cardinal, ordinal, pairs, roman
from omnitts_cli.text.short_english import ALSO_WORDS, SHORT_ENGLISH
from omnitts_cli.text.spoken import english
from omnitts_cli.text.spoken.rules import Match, Rule, Said, compiled
from omnitts_cli.text.spoken.units import PER, plural

SHORT = {
    "etc": "et cetera", "e.g": "for example", "i.e": "that is", "Inc": "Incorporated", "Ltd": "Limited",
    "Corp": "Corporation", "Dept": "Department", "Bros": "Brothers", "Univ": "University", "Assn": "Association",
    "incl": "including", "est": "established", "cf": "compare", "viz": "namely", "vs": "versus", "et al": "et al",
    "a.k.a": "also known as", "Ph.D": "P H D", "M.D": "M D", "min": "minimum", "max": "maximum",
    "misc": "miscellaneous", "Tel": "Telephone", "ext": "extension", "ca": "circa", "Jr": "Junior", "Sr": "Senior",
    "Esq": "Esquire", "temp": "temperature", "Co": "Company", "lat": "latitude",
    "lon": "longitude", "long": "longitude", "ft": "featuring", "feat": "featuring", "sat": "saturation",
    "vis": "visibility", "ed": "edited", "exp": "expires", "Intl": "International", "Natl": "National",
    "Asst": "Assistant", "Rep": "Rep", "Bldg": "Building",  "resp": "respectively",
    "esp": "especially", "excl": "excluding", "ref": "reference", "alt": "altitude",
    "arr": "arrives", "dep": "departs", "eff": "effective", "plat": "platform", "pop": "population",
    "dist": "distance", "bal": "balance", "nr": "near", "rev": "revenue",
    "suppl": "supplementary", "reg": "regular", "lit": "literature", "op cit": "op cit", "No": "number",
    "trans": "translated", "def": "defendant", "sig": "signature", "div": "division", "disp": "dispense",
    "blt": "built",
    "Inst": "Institute", "Soc": "Society",
}  # fmt: skip
FORMS = SHORT_ENGLISH | {short.lower(): long for short, long in SHORT.items()}
ENDS = {
    "jr", "sr", "etc", "inc", "ltd", "corp", "bros", "ph.d", "m.d", "min", "max", "et al", "esq", "co", "dept", "ea",
    "temp", "approx", "univ", "assn", "incl", "excl", *(key for key in SHORT_ENGLISH if key not in ALSO_WORDS),
}  # fmt: skip
GOES_ON = {
    "min", "max", "est", "ext", "ca", "lat", "lon", "long", "sat", "vis", "ed", "exp", "ref", "rep", "no", "ft",
    "temp", "esp", "resp", "co", "ea", "op cit", "soc", "inst", "alt", "arr", "nr", "rev", "dep", "eff",
    "plat",
    "pop", "dist", "bal", "reg", "lit", "trans", "disp", "blt", *(key for key in SHORT_ENGLISH if key in ALSO_WORDS),
}  # fmt: skip
WITHOUT_STOPS = english.words(
    "bdrm bdrms bldgs bkfst cthse dlvry dlvy flr flt fncd frwy hr hrs hrg mfr mgmt mgr mktg mtg mth mths mvmt mvt pkg "
    "grp mkt pkgs pmt pymt sz prkg qtr qtrly rcpt rcpts rxn shpg shpt svc svcs svgs tkt tkts twp txn txns wk wkly "
    "wks yld "
    "yr yrly "
    "yrs"
)
WITHOUT_VOWELS = {key: SHORT_ENGLISH[key] for key in WITHOUT_STOPS}
"""Read also without a full stop."""
NAMES_ONLY = {
    "long", "sat", "ft", "no", "rep", "soc", "inst", "mo", "rev", "def", "div", "sig",
}  # fmt: skip
CAPITALS = {"arr", "disp", "blt", "dep", "eff", "temp", "est", *SHORT_ENGLISH} - english.words(
    "fam opt org ret num prov mo reg"
)
"""Read also with a capital before a word, as nobody is called so: Eff. Jan. 1."""
LABELS = {
    "wt": "weight",
    "ht": "height",
    "amt": "amount",
    "bal": "balance",
    "freq": "frequency",
    "tot": "total",
    "subj": "subject",
}
"""Read without a full stop before a colon."""
NUMBERED = {
    "fig": "figure", "figs": "figures", "p": "page", "pp": "pages", "vol": "volume", "vols": "volumes",
    "ch": "chapter", "chap": "chapter", "sec": "section", "art": "article", "eq": "equation", "eqs": "equations",
    "no": "number", "nos": "numbers", "pt": "part", "app": "appendix", "tab": "table", "c": "circa", "ed": "edition",
    "rm": "room", "apt": "apartment", "ste": "suite", "para": "paragraph", "ex": "example", "op": "opus",
    "v": "verse", "vv": "verses", "bldg": "building", "rt": "route", "rte": "route", "hwy": "highway", "ps": "psalm",
    "prop": "proposition", "ep": "episode", "cat": "category", "cl": "clause", "ser": "series", "iss": "issue",
    "ln": "line", "thm": "theorem", "def": "definition", "lot": "lot", "fl": "floor", "exp": "expires",
    "ext": "extension", "div": "division", "sect": "section", "suppl": "supplement", "sched": "schedule",
    "q": "question", "wk": "week", "gr": "grade", "exh": "exhibit", "jct": "junction", "plat": "platform",
    "ref": "reference", "refs": "references", "platf": "platform", "col": "column", "cols": "columns",
    "sc": "scene", "rwy": "runway", "ll": "lines", "appx": "appendix", "per": "period", "sch": "schedule",
    "cts": "counts",
    "mvt": "movement", "mvmt": "movement", "pg": "page",
    "pgs": "pages", "ck": "check", "chk": "check", "err": "error",
    "chs": "chapters", "secs": "sections", "arts": "articles", "paras": "paragraphs",
}  # fmt: skip
LETTERED = "appx sched sch col cols apt bldg rm ste fig figs tab app sec ex exh".split()
"""Read before a letter too: Exh. A."""
ALWAYS_SMALL = {
    "no": "number", "nos": "numbers", "c": "circa",
}  # fmt: skip
WITHOUT_STOP = "fig figs vol rwy ch exp pg pgs chk rm apt ste bldg rte hwy ext eq eqs pp jct exh".split()
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
    if written[1:] != key[1:] and written not in SHORT and not written.isupper():
        return None  # HRs.
    if written == "EST":
        return None
    said = by_neighbours(found, key) or (FORMS[key] if in_full(found, key) else None)
    if said is None:
        return None
    return like(said, written) + ("." if (key in ENDS or said != FORMS[key]) and closes(found) else "")


def by_neighbours(found: Match, key: str) -> str | None:
    """What a short form stands for beside the words of BESIDE only: 2nd ed., $4 ea., asst. colors, C min."""
    after, earlier = found.string[found.end() : found.end() + 16], before(found)
    for said, left, right in BESIDE.get(key, ()):
        if compiled(rf"(?:{left})\Z").search(earlier) and compiled(right).match(after):
            return said
    return None


PERIOD = r"\b(?:every|each|per|a|last|next|this) "
BESIDE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "alt": (("alternate", "", r"(?! [\d:])"),),
    "asst": (("assorted", "", r" [a-z]+s\b"),),
    "co": (("County", r"(?<!&)(?<!\band) ", r", (?:[A-Z]\.[A-Z]\.|[A-Z]{2}\b)"),
           ("County", r"\b(?:in|for|of|near|from) [A-Z][a-z]+ ", r"[,;]|\s*\Z")),
    "exp": (("expenses", "", r" [$€£]"),),
    "bal": (("balance", "", " (?:fwd|due|as|is|of)"),),
    "inc": (("including", r"\d ", " (?:[a-z]|VAT|GST|P&P)"),),
    "conf": (("confirmation", "", r" #?[A-Z]{0,3}\d"),),
    "dist": (("district", "", " (?:Ct|Court|Atty|Mgr|Judge)"),),
    "sig": (("signature", "", r" (?:req|needed|on file)"),),
    "def": (("defendant", r"\b(?:for|of|against|the) ", r"\s*\Z|[,;]"), ("defeated", r"[A-Z][a-z]+ ", " [A-Z]"),),
    "dep": (("deposit", r"\b(?:sec\.|security|[Dd]irect|refundable) ", ""),),
    "ea": (("each", r"\d [^\d,;]{0,12}|\d\.?\d* ", ""),),
    "ed": (("edition", r"\d(?:st|nd|rd|th) ", ""),),
    "div": (("dividend",
    "", r" (?:yld|yield|payment|paid|per)"), ("dividend", r"\b(?:annual|quarterly|[Ff]wd|forward) ", "")),
    "est": (("estimate", r"\b(?:EPS|revenue|rev\.|analyst|consensus|beat|vs\.?) ", ""), ("estimated",
    "", r"(?! (?:in |1[5-9]|20)\d?)"),),
    "illus": (("illustrations", r"\d (?:[a-z/]+ )?", ""),),
    "incl": (("included", "", r" ?$|[,;)]"),),
    "med": (("medical", "", " (?:Ctr|Center|Sch|Dir|Bldg|Assn|Group|Supply|Plaza)"),),
    "min": (("minor", r"\b[A-G](?:#|b|♯|♭| sharp| flat)? ", ""),),
    "mo": (("month", PERIOD, ""),),
    "opt": (("option", "", r" #?\d"),),
    "rev": (
        ("revised", r"\bed\.?, ", ""),
        ("revised", "", r" (?:&|and) |,? ed\b"),
        ("revenue", r"\b(?:[Gg]ross|[Tt]otal|[Nn]et|[Aa]nnual|[Ss]ales) ", ""),
    ),
    "wk": (("week", PERIOD, ""),),
    "yr": (
        ("year", PERIOD, ""),
        (
            "your",
            r"[a-z](?<!\bper)(?<!\bthe)(?<!\bof)(?<!\bin)(?<!\bold)(?<!fiscal)(?<!school)(?<!calendar)(?<!\btax)(?<!\bnew)"
            r"(?<!\bone) ",
            r" (?!of\b|old\b|round\b|end\b|to\b|ago\b|from\b)[a-z]{2}",
        ),
    ),
}  # fmt: skip
"""For some short forms: what it stands for, what ends the text before it, what begins the text after it."""


NEEDS = {
    "ed": " by",
    "reg": r" [$€£]",
    "lit": r" \d",
    "trans": " (?:by|[A-Z])",
    "disp": r" #?\d",
    "blt": r" (?:in )?\d{4}",
}
"""What must follow some short forms, which are words too."""


def in_full(found: Match, key: str) -> bool:
    """Whether a short form is read in full where it stands."""
    written, after = found["short"], found.string[found.end() : found.end() + 8]
    if key in NAMES_ONLY or (key in GOES_ON and not re.match(r"[,:]? [\w(=#$€£'\"]|,", after)):
        return False
    if key in GOES_ON - CAPITALS and written[0].isupper() and written not in SHORT and not re.match(r" [\d$€£]", after):
        return False  # Max. is a name
    if key == "co" and not re.search(r"(?:&|[A-Z][a-z]+\.?|\b[Tt]he) \Z", before(found)):
        return False
    return key not in NEEDS or bool(re.match(NEEDS[key], after))


def closes(found: Match) -> bool:
    """Whether the full stop of a short form also ends a sentence."""
    after = found.string[found.end() : found.end() + 24]
    return not after.strip() or (after[0] == " " and starts_sentence(after[1:], rules_for("en")))


def title(found: Match) -> str | None:
    """Before a name: Cpl. Jones, Fr. Brown; Sr. after one is Senior."""
    name = found["title"]
    follows = re.match(r" (?:[A-Z]|& M)", found.string[found.end() : found.end() + 4])
    if name in ("Pres", "Gov", "Sen") and re.match(r" [a-z]", found.string[found.end() : found.end() + 2]):
        return english.TITLES[name]
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
    lettered = re.match(r"[A-Z](?![\w])", found.string[found.end() : found.end() + 2])
    if lettered and lettered[0] not in "IVX" and key not in LETTERED:
        return None
    if key == "col" and not lettered and not re.match(r"\d", found.string[found.end() :][:1]):
        return None
    if key == "ex" and (lettered or before(found).endswith("'s ")):
        return like("exhibit ", word)
    if key in ("def", "lot", "cat", "ex", "app", "tab", "art", "v") and found["stop"] is None:
        return None
    if key == "c" and re.search(r"\d \Z", before(found)):
        return None
    if key == "pt" and re.search(r"\d ?\Z", before(found)):
        return None
    if word in ("C", "V", "Q", "FL", "EQ"):
        return None
    long = ALWAYS_SMALL.get(key) or like(NUMBERED[key], word)
    return f"{long} "


def number_of(found: Match) -> str | None:
    """Model no. XR-250."""
    named = re.search(r"\b(?i:model|serial|part|item|order|ref|lot|job|case|catalog|product) \Z", before(found))
    return "number" if named else None


def per_thing(found: Match) -> str | None:
    """10 cells/well; not 3 apples/oranges."""
    counted = re.search(r"(?:\d|[⁰¹²³⁴⁵⁶⁷⁸⁹]) [a-z]{3,}s\Z", before(found))
    several = re.match(r"[a-z]+s\b", found.string[found.end() :][:24])
    return " per " if counted and not several else None


MEDICAL = {"hx": "history", "dx": "diagnosis", "tx": "treatment", "sx": "symptoms"}


def for_days(found: Match) -> str:
    """x3 days, x 7 d: how long something is taken, or lasts."""
    unit = PER.get(found["unit"].rstrip("s"), "day")
    return f"for {cardinal(int(found['count']))} {plural(unit, found['count'])}"


def per_time(found: Match) -> str | None:
    """1 winner/day; 2L of water/day."""
    return (
        " per "
        if re.search(r"\d (?:[a-z]+|[A-Za-z]{1,9} of [a-z]+)\Z|\d[A-Za-z]{1,3} of [a-z]+\Z", before(found))
        else None
    )


def aged(found: Match) -> str:
    """38 y/o: a year old before a noun, else years old."""
    after = found.string[found.end() : found.end() + 6]
    return "year old" if re.match(r" (?!and\b|with\b|who\b|but\b|or\b|is\b|when\b)[A-Za-z]", after) else "years old"


def sex(found: Match) -> str:
    """67 y/o M."""
    return "male" if found[0] == "M" else "female"


def every_hours(found: Match) -> str:
    """q6h, q 4-6 hrs: how often something is taken."""
    until = f" to {cardinal(int(found['until']))}" if found["until"] else ""
    unit = {"h": "hour", "d": "day", "w": "week", "m": "minute"}[found["unit"][0]]
    return f"every {cardinal(int(found['from']))}{until} {plural(unit, found['until'] or found['from'])}"


TRADING = {
    "d/b/a": "doing business as", "a/k/a": "also known as", "f/k/a": "formerly known as", "n/k/a": "now known as",
}  # fmt: skip


def rule_of_court(found: Match) -> str:
    kind = {"Civ": "Civil Procedure", "Crim": "Criminal Procedure", "App": "Appellate Procedure", "Evid": "Evidence"}
    return f"Federal Rule of {kind[re.findall('[A-Z][a-z]+', found[0])[-1]]}"


def departure(found: Match) -> str:
    """dep CVG 6:05a, arr. 7:40."""
    return like({"d": "departs", "a": "arrives", "l": "leaves"}[found["short"][0].lower()], found["short"])


def one_unit(found: Match) -> str:
    """$3 a gal.; the full stop that ends a text is kept."""
    stop = "." if found[0].endswith(".") and not found.string[found.end() :].strip() else ""
    return f"{PER.get(found['unit'] or found['unit2'], 'dozen')}{stop}"


def public_law(found: Match) -> str:
    """Pub. L. 117-58."""
    number = "number " if found["number"] else ""
    return f"Public Law {number}{pairs(int(found['congress']))} dash {pairs(int(found['law']))}"


def dotted_letters(found: Match) -> str:
    """a.m alone, b.i.d."""
    letters = re.findall("[a-z]", found[0])
    return (" " if letters in (["b", "i", "d"], ["t", "i", "d"]) else "").join(letters).upper()


def per_person(found: Match) -> str | None:
    """€45 p.p."""
    return "per person" if re.search(r"[$€£]\d[\d.,]* \Z", before(found)) else None


def subsections(found: Match) -> str:
    """4(b)(ii): four B two."""
    said, level = [], 0
    for part in re.findall(r"\w+", found[0]):
        value = roman(part.upper()) if part.islower() and (len(part) > 1 or level) else None
        said.append(cardinal(int(part)) if part.isdecimal() else cardinal(value) if value else part.upper())
        level += 1
    return f" {' '.join(said)} "


def century(found: Match) -> str:
    """21st c."""
    return "century" + ("." if not found.string[found.end() :].strip() else "")


def scripture(found: Match) -> str | None:
    """Rom. 8:28, 1 Cor. 13; not Tim 3:30."""
    book, verse = found["book"], found["verse"]
    if not found["nth"] and book in NAMED_LIKE_BOOKS and (not found["stop"] or not verse):
        return None
    if not verse and not found["nth"] and (not found["stop"] or book not in english.BIBLE):
        return None
    nth = {"1": "First ", "2": "Second ", "3": "Third "}.get(found["nth"] or "", "")
    until = f" to {cardinal(int(found['until']))}" if found["until"] else ""
    after = f" {cardinal(int(verse))}{until}" if verse else ""
    return f"{nth}{english.BIBLE.get(book, book)} {cardinal(int(found['chapter']))}{after}"


NAMED_LIKE_BOOKS = english.words("Sam Tim Dan Phil Mal Matt Pet Col Rev Gen Mt Num Jas Job Mark Luke John James")


def chat(found: Match) -> Said:
    """thx, btw, 2nite."""
    written = found[0]
    key = written.lower()
    said = english.CHAT.get(key) or WITHOUT_VOWELS.get(key)
    if key == "wk" and re.search(
        r"\b(?:at|to|from|off|after) \Z", found.string[max(0, found.start() - 8) : found.start()]
    ):
        return "work"
    if (
        key == "yr"
        and found.string.islower() is False
        and YOUR.search(found.string[max(0, found.start() - 12) : found.start()])
        and (re.match(r" [a-z]{3,}", found.string[found.end() : found.end() + 4]))
    ):
        return like("your", written)
    if key == "btw" and re.match(r" \d+ and \d", found.string[found.end() : found.end() + 10]):
        return like("between", written)
    if key in english.SMALL_ONLY and written != key:
        return None  # Smth St
    if said is None or (
        written[1:].lower() != written[1:]
        and (not written.isupper() or key in english.NOT_IN_CAPITALS or key in WITHOUT_VOWELS)
    ):
        return None
    if key in ("def", "prob", "thru", "tho", "info") and found.string[found.end() : found.end() + 1] == ".":
        return None
    if key in ("hr", "hrs", "mins", "secs", "wk", "wks", "sth") and found.string[: found.start()][-1:] == "/":
        return None
    follows = r"\. \w" if key in ("pls", "plz") else r"\. (?:[a-z]|\d)"
    if re.match(follows, found.string[found.end() : found.end() + 3]) and not found.string.islower():
        return like(said, written), found.end() + 1
    return like(said, written)


YOUR = re.compile(
    r"\b(?:bring|got|get|is|was|send|with|in|on|for|at|and|of|is|need|use|give|take|have|see|love|like|w/) \Z"
)
"""Before "yr" they show that it is your."""


def with_apostrophe(found: Match) -> str | None:
    """Req'd, int'l, b'fast."""
    said = english.APOSTROPHES.get(f"{found['start']}'{found['end']}".lower())
    return like(said, found[0]) if said else None


def letters(found: Match) -> str | None:
    """idk, html: said letter by letter."""
    said = found[0].upper() if found[0].islower() else None
    return " ".join(said) if said in english.SPELLED else said


def slashed(found: Match) -> str | None:
    if len(found[0]) == 3 and re.search(r"= ?\Z", before(found)):
        return f"{found[0][0]} over {found[0][2]}"
    if found[0] == "a/c" and re.match(r" (?:no\b|#|\d{5})", found.string[found.end() : found.end() + 7]):
        return "account"
    if found[0] == "c/o" and (re.match(r" (?:by|at|is|time|\d)", found.string[found.end() : found.end() + 5])):
        return "checkout"
    if found[0] == "b/w" and re.match(
        r" (?:photo|illus|film|image|print|tv|copy|laser|pic|movie)", found.string[found.end() :][:10]
    ):
        return "black and white"
    if found[0] == "c/o" and re.search(r"(?:\b[Pp](?:t\.?|atient)|y/?\.?o\.?(?: [MF])?) \Z", before(found)):
        return "complains of"
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
    Rule("a0", rf"(?<![\w.])(?:(?P<nth>[1-3]) )?(?P<book>{'|'.join((*english.BIBLE, *english.SCRIPTURE))})"
         r"(?P<stop>\.)? (?P<chapter>\d{1,3})(?::(?P<verse>\d{1,3})(?:[-–](?P<until>\d{1,3})(?![\d:]))?)?"
         r"(?![\d:]| ?[ap]\.?m\b)",
         scripture, " ", words=tuple(book.lower() for book in (*english.BIBLE, *english.SCRIPTURE))),
    Rule("a", rf"\b(?P<title>{TITLE})\.(?=\s|/[A-Z]|$)", title, words=tuple(t.lower() for t in english.TITLES)),
    Rule("a", rf"\b(?P<title>{'|'.join(NO_STOP)})(?= [A-Z])", title, words=tuple(t.lower() for t in NO_STOP)),
    Rule("a", r"(?<=(?:st|nd|rd|th)[ -])c\.(?=[ ,;)]|$)", century, words=("c",)),
    Rule("a", r"(?<![\w-])(?P<word>[A-Za-z]{1,5})(?:(?P<stop>\.) ?|(?P<space> ))(?=#?\d|[IVXLC]+\b|[A-Z]\b"
         r"(?!\. ?\S)|[A-Z]{1,3}-?\d|\([0-9a-z]{1,3}\))",
         numbered,
         words=tuple(NUMBERED)),
    Rule("#№", r"#(?=\d+[A-Z]?(?:[^\w#]|$|-))|№ ?(?=\d)", lambda found: "number "),
    Rule("a", r"\bop\. ?cit\b\.?", lambda found: "op cit", words=("op",)),
    Rule("a", r"\bNo\.(?= №)", lambda found: "", words=("no",)),
    Rule("§", r"§§? ?(?=\d)", lambda found: "sections " if found[0][1:2] == "§" else "section "),
    Rule("a", r"\b[dafn]/[bk]/a\b", lambda found: TRADING[found[0]], words=("d", "a", "f", "n")),
    Rule("a", r"\bFed\. R\. (?:Civ|Crim|App)\. P\.(?= \d|$)|\bFed\. R\. Evid\.(?= \d|$)",
         rule_of_court, words=("fed",)),
    Rule("a", r"\b[Ii]d\.(?= (?:at|¶|§)|,)", lambda found: found[0][:-1], words=("id",)),
    Rule("a", r"\bnn?\. ?(?=\d)", lambda found: "note ", words=("n", "nn")),
    Rule("a", r"\b[bdm]\. ?(?=(?:c\. ?|ca\. ?|in |[A-Z][a-z]+,? )?(?:1\d|20)\d\d\b)",
         lambda found: {"b": "born ", "d": "died ", "m": "married "}[found[0][0]], words=("b", "d", "m")),
    Rule("a", r"\brev\.?(?= (?:[$€£+-]?\d|FY|up\b|down\b|growth\b))", lambda found: "revenue", words=("rev",)),
    Rule("a", r"(?<=\d )p\.?p\.?(?!\w)", per_person, words=("p", "pp")),
    Rule("a", r"\b[A-Z][a-zäöü]+str\.(?= ?\d)", lambda found: f"{found[0][:-4]}strasse"),
    Rule("a", r"(?<![\w/])(?:[A-Za-z]{1,3}/(?:[A-Za-z]{1,3})?)(?![\w/])", slashed,
         words=tuple({short.split("/")[0].lower() for short in english.SHORT_WORDS})),
    Rule("a", r"\b[Mm]ed\.?-(?=low|high|rare|large|well|size)",
         lambda found: like("medium ", found[0]), words=("med",)),
    Rule("a", r"\bHep\.? (?=[ABC]\b)", lambda found: "Hepatitis ", words=("hep",)),
    Rule("a", r"(?<=(?:st|nd|rd|th)[ -])[Gg]en\b\.?", lambda found: "generation", words=("gen",)),
    Rule("a", r"\b[Bb]ot\.? (?=(?:of )?(?:the )?\d(?:st|nd|rd|th)\b)", lambda found: "bottom ", words=("bot",)),
    Rule("a", r"(?<![\d]) ?\b[Mm]m?\. ?(?=\d{1,3}[-–]\d)", lambda found: "measures ", words=("m", "mm")),
    Rule("a", r"\bs\. ?(?=\d{1,4}(?:\(| of\b|[A-Z]?,? [A-Z]))", lambda found: "section ", words=("s",)),
    Rule("a", r"\bNo\.?(?=:)", lambda found: "Number", words=("no",)),
    Rule("a", r"(?:(?<=\bmy )|(?<=\bnew )|(?<=\bold )|(?<=\bphone )|(?<=\bcell )|(?<=\bher )|(?<=\bhis )"
         r"|(?<=\bthe ))no\.(?= (?:is|was|on|for)\b)", lambda found: "number", words=("no",)),
    Rule("a", r"(?<![\w-])[Yy]r(?=-(?:end|old|round|long)\b)", lambda found: like("year", found[0]), words=("yr",)),
    Rule("a", r"\b[Ff]t\.(?= [A-Z][a-z]+ \()|(?<![\d ])(?<!\d )\bft\.(?= [A-Z])",
         lambda found: "featuring", words=("ft",)),
    Rule("a", r"(?<=[Ss]ec\. )dep\b|\bsec\.(?= dep\b)", lambda found: "security" if found[0][0] == "s" else "deposit",
         words=("dep", "sec")),
    Rule("a", r"\b[Rr]ts\. res\b", lambda found: "rights reserved", words=("rts",)),
    Rule("a", r"(?<![\w.@/-])(?:B[Cc]{2}|C[Cc]|b?cc)(?=:(?: |$))",
         lambda found: " ".join(found[0].upper()), words=("cc", "bcc")),
    Rule("a", r"\bPl\.(?=['’]s)|\bDef\.(?=['’]s)", lambda found: "Plaintiff" if found[0][0] == "P" else "Defendant",
         words=("pl", "def")),
    Rule("a", r"\b(?:q\.d|h\.s|a\.c|p\.c|p\.o|b\.d|o\.c)\.(?=[ ,;)]|$)",
         lambda found: found[0].replace(".", " ").upper().strip(),
         words=("q", "h", "a", "p", "b", "o")),
    Rule("a", r"\bInd\. (?:Est|Pk)\b\.?",
         lambda found: f"Industrial {'Estate' if 'Est' in found[0] else 'Park'}", words=("ind",)),
    Rule("a", r"\bCo\.? (?P<road>Rd|Hwy|Rte)\b\.?",
         lambda found: f"County {english.STREETS.get(found['road'], 'Route')}", words=("co",)),
    Rule("a", r"\bSoc\. Sec\b\.?", lambda found: "Social Security", words=("soc",)),
    Rule("a", r"\bSer\.? (?=[Nn]o\b)", lambda found: "Serial ", words=("ser",)),
    Rule("a", r"(?<=\b[A-G] )maj\b\.?|(?<=\b[A-G][#b] )maj\b\.?", lambda found: "major", words=("maj",)),
    Rule("a", r"\b(?P<short>[Dd]ep|[Aa]rr|[Ll]v)\.?(?= [A-Z]{3}\b| \d{1,2}:?\d\d| \d{1,2} ?[ap]m?\b)",
         departure, words=("dep", "arr", "lv")),
    Rule("a", r"(?:(?<=, )|(?<=: ))blk\b(?!\.? \d)", lambda found: "black", words=("blk",)),
    Rule("a", r"(?:(?<=\ba )|(?<=\ban )|(?<=\bper )|(?<=\beach )|(?<=\bevery )|(?<=\bby the ))"
         r"(?P<unit>gal|lb|oz|doz|qt|yd|mi|hr|min|sec|wk|mo|yr)\.(?=[ ,;)]|$)|(?<=\ba )(?P<unit2>doz)\b", one_unit,
         words=("gal", "lb", "oz", "doz", "qt", "yd", "mi", "hr", "min", "sec", "wk", "mo", "yr")),
    Rule("a", rf"\b(?:{'|'.join(english.SPELLED)})\b", lambda found: " ".join(found[0]),
         words=tuple(word.lower() for word in english.SPELLED)),
    Rule("a", r"(?<=(?:rd|th|st|nd) )gr\b\.?", lambda found: "grade", words=("gr",)),
    Rule("a", r"\bTL;? ?DR\b", lambda found: "T L D R", words=("tl",)),
    Rule("a", r"\bCt\. App\.", lambda found: "Court of Appeals", words=("ct",)),
    Rule("a", r"\bF\.(?: ?Supp\.)? ?(?P<nth>[234])d\b",
         lambda found: f"F {'Supplement ' if 'Supp' in found[0] else ''}{ordinal(int(found['nth']))}", words=("f",)),
    Rule("0", r"(?<=\()[23]d(?=\))|(?<![\w.])[23]d(?= (?:Cir|Dist|ed|Fl|Dept|Floor|Circuit)\b)",
         lambda found: ordinal(int(found[0][0])), "a"),
    Rule("a", r"(?<=\b[A-Za-z] = )[a-z]{2}\b(?=\s*(?:[,;)]|\.?$))", lambda found: " ".join(found[0].upper())),
    Rule("a", r"\b[Uu]/(?=\d{1,2}\b)", lambda found: "under ", words=("u",)),
    Rule("a", r"\bAm\. (?=Compl)", lambda found: "Amended ", words=("am",)),
    Rule("a", r"(?:(?<=Dist\. )|(?<=Sup\. )|(?<=App\. )|(?<=Super\. )|(?<=Cir\. )|(?<=Fam\. ))Ct\b\.?(?! App)",
         lambda found: "Court" + ("." if not found.string[found.end() :].strip() else ""), words=("ct",)),
    Rule("a", r"\bsec\.? (?=\d{3}\b,? (?:row|seat))", lambda found: "section ", words=("sec",)),
    Rule("a", r"(?<=[1-8](?:st|nd|rd|th) )rd\b\.?(?=,? (?:pick|draft|game|match|bout|pts|\d+th pick))",
         lambda found: "round",
         words=("rd",)),
    Rule("a", r"(?:(?<=[Bb]oiling )|(?<=[Mm]elting )|(?<=[Ff]reezing ))pt\b\.?", lambda found: "point", words=("pt",)),
    Rule("a", r"\bCt\. (?=Rm|Clerk|Rptr|adj|Reporter)", lambda found: "Court ", words=("ct",)),
    Rule("a", r"\bcr\. (?=hrs?\b)", lambda found: "credit ", words=("cr",)),
    Rule("a", r"(?:\A|(?<=\bya )|(?<=, ))[Nn]p(?=[!,.]|\Z| !)",
         lambda found: like("no problem", found[0]), words=("np",)),
    Rule("a", r"(?<=[a-z:] )pwd\b(?=[.,:;]|$)", lambda found: "password", words=("pwd",)),
    Rule("a", r"\bsq\.(?= [a-z]{3})", lambda found: "square", words=("sq",)),
    Rule("a", rf"\b(?P<short>(?i:{ENTRIES}))\.(?!\w)", shortened, words=ALL_FORMS),
    Rule("a", r"\b[Hh]x(?= of\b)|\b[HDTS]x(?=:)",
         lambda found: MEDICAL[found[0].lower()], words=("hx", "dx", "tx", "sx")),
    Rule("a", r"(?<=\d )o/w\b", lambda found: "one way", words=("o",)),
    Rule("a", r"\b[Nn]o\.(?= [A-Z]{2})", number_of, words=("no",)),
    Rule("a", r"\bM[Kk]\.? ?(?=\d)", lambda found: "mark ", words=("mk",)),
    Rule("a", r"\bp(?:Ka|Kb|KA|I)\b", lambda found: " ".join(found[0].upper()), words=("pka", "pkb", "pi")),
    Rule("a", r"(?<=\d )pppn\b|(?<=\d)pppn\b", lambda found: "per person per night", words=("pppn",)),
    Rule("a", r"(?<=\bby )COB\b|(?<=\bat )COB\b|\bPO(?= (?:Box\b|#|[Nn]o\b|\d))|\bPO(?= box\b)",
         lambda found: " ".join(found[0]),
         words=("cob", "po")),
    Rule("a", r"\b(?:XX?S|S|M|X{0,2}L)[-–](?:M|X{1,3}L|L)\b",
         lambda found: re.sub("[-–]", " to ", found[0]),
         words=("xs", "xxs", "s", "m", "l", "xl", "xxl")),
    Rule("a", r"\bbus\.(?= (?:days?|hours?|hrs)\b)", lambda found: "business", words=("bus",)),
    Rule("a", r"\b(?:Wt|Ht|Amt|Bal|Freq|Tot)(?=:| \d)|\bSubj(?=:)",
         lambda found: like(LABELS[found[0].lower()], found[0]),
         words=tuple(LABELS)),
    Rule("a", r"\bPub\. ?L\. (?P<number>No\. ?)?(?P<congress>\d{2,3})[-–](?P<law>\d{1,4})\b",
         public_law, words=("pub",)),
    Rule("a", r"\bPub\. ?L\.(?= No| \d)", lambda found: "Public Law", words=("pub",)),
    Rule("a", r"(?<=[A-Za-z.] )vs?\.(?= [A-Z])|(?<=\w )vs(?= \w)", lambda found: "versus", words=("v", "vs")),
    Rule("a", r"\b[Ll]ong?\.?(?= [-−]?\d{1,3}(?:\.\d+)?°)|(?<=[NS], )[Ll]ong?\.(?= [-−]?\d)",
         lambda found: like("longitude", found[0]), words=("lon", "long")),
    Rule("'’", r"(?:(?<=\bQ[1-4])|(?<=\b[1-4]Q)|(?<=\bH[12])|(?<=\b[12]H)|(?<=\bFY))['’](?=\d\d\b)", lambda found: " "),
    Rule("a", rf"\bPt\.?(?= (?:{'|'.join(map(re.escape, english.PATIENTS))})(?!\w))", lambda found: "Patient",
         words=("pt",)),
    Rule("a", r"\b(?P<start>[A-Za-z]{1,6})['’](?P<end>[a-z]{1,5})\b", with_apostrophe,
         words=tuple({short.split("'")[0] for short in english.APOSTROPHES})),
    Rule("a", r"(?<=\d )y/?o\b|(?<=\d)y/?o\b|(?<=\d )y\.o\.", aged, words=("y", "yo")),
    Rule("a", r"(?<![\w.])(?!I\.)[A-Z]\.(?= [a-z])", lambda found: found[0][:-1]),
    Rule("a", r"(?:(?<=\dyo )|(?<=y/o )|(?<=y\.o\. ))[MF]\b", sex, words=("m", "f")),
    Rule("a", r"\b[Qq] ?(?P<from>\d{1,2})(?: ?[-–] ?(?P<until>\d{1,2}))?"
         r" ?(?P<unit>h(?:rs?|ours?)?|days?|d|wks?|mins?)\b", every_hours, words=("q",)),
    Rule("(", r"(?<=\d)(?:\((?:[a-zA-Z]|\d{1,2}|[ivx]{2,5})\)){1,5}", subsections),
    Rule("a", r"(?:(?<=tab )|(?<=tabs )|(?<=mg )|(?<=mL )|(?<=ml )|(?<=caps )|(?<=PO )|(?<=IV ))(?:PO|BID|TID"
         r"|QID|PRN|QHS)\b",
         lambda found: " ".join(found[0]), words=("po", "bid", "tid", "qid", "prn", "qhs")),
    Rule("a", r"\b(?:A\.?D|B\.?C|B\.?C\.?E|C\.?E)\b\.?(?=[ ,;)]|$)", era, words=("ad", "bc", "bce", "ce", "a", "b",
         "c")),
    Rule("a0", r"(?<![\w'’-])(?<!\w\.)[A-Za-z0-9]{2,8}(?![\w/@-]|['’]\w|\.\w)", chat,
         words=tuple(re.match("[a-z]*", short)[0] for short in (*english.CHAT, *WITHOUT_VOWELS))),  # type: ignore[index]
    Rule("a", r"(?<![\w.@/-])[a-z]{2,5}(?![\w@/'’]|\.\w)", letters, words=tuple(english.LETTERS)),
    Rule("a", r"\b(?P<name>[A-Za-z]+) (?P<roman>[ivxl]{2,7}|[vx](?=[.,;)]|$))\b", small_numeral,
         words=("scene", "page", "pages", "chapter", "act", "part", "book", "section", "canto", "appendix", "volume")),
    Rule("a", r"(?:(?<=[A-Za-z] )|(?<=[a-z]\. ))(?P<roman>[IVXLCDM]{1,9})\b(?!['’.]\w|[$#&+^])", numeral),
    Rule("a", r"\b[ap]\.m\b|\b(?:[a-z]\.){2}[a-z]\b\.?(?=[ ,]|$)",
         dotted_letters, words=("a", "e", "p", "c", "m", "b", "t", "q")),
    Rule("a", r"\bDrs\.(?= [A-Z])", lambda found: "Doctors", words=("drs",)),
    Rule("a", r"\bMessrs\.(?= [A-Z])", lambda found: "Messrs", words=("messrs",)),
    Rule("a", r"(?:(?<=[°º])|(?<=[°º] )|(?<=degrees ))[NSEW]\b(?!['’.]\w)",
         lambda found: english.COMPASS[found[0]].lower(), words=("n", "s", "e", "w")),
    Rule("a", r"(?<=degrees )[CF]\b(?!')", lambda found: "Celsius" if found[0] == "C" else "Fahrenheit", words=("c",
         "f")),
    Rule("a", r"\bf/(?=\d)", lambda found: "f ", words=("f",)),
    Rule("a", r"\bWWI{1,2}\b", lambda found: f"World War {'one' if found[0] == 'WWI' else 'two'}", words=("wwi",
         "wwii")),
    Rule("/", r"(?<=[a-z]s)/(?P<per>day|week|month|year|hour|minute|second|night|person|mL|ml|L|km|kg|hr|min|wk"
         r"|mo|yr|sec)\b",
         lambda found: f" per {PER[found['per']]}"),
    Rule("a", r"(?<=[A-Za-z] )x ?(?P<count>\d{1,3}) ?(?P<unit>days?|weeks?|months?|years?|hours?|d(?=[.,;)]|$)"
         r"|wks?|yrs?"
         r"|mos?|hrs?)\b",
         for_days, words=("x",)),
    Rule("/", r"(?<=\dp)/(?P<per>min|hr|wk|mo|day|text|txt|call|msg|mile|kg|unit)\b",
         lambda found: f" per {PER.get(found['per']) or english.CHAT.get(found['per'], found['per'])}"),
    Rule("/", r"(?<=[a-z]s)/(?=[a-z]{3,}\b)", per_thing),
    Rule("/", r"(?<=[a-z])/(?=(?:day|week|month|year|hour|night)\b)", per_time),
    Rule("0", r"(?<![\w.])(?P<count>\d{1,3})x/(?P<per>day|week|month|year|wk|mo|yr|hr|d)\b",
         lambda found: f"{cardinal(int(found['count']))} times per {PER[found['per']]}", "a"),
    Rule("a", r"\b(?:YoY|QoQ|MoM|WoW)\b", lambda found: found[0].upper(), words=("yoy", "qoq", "mom", "wow")),
    Rule("/", r"(?<=[A-Z]{2})/(?=[A-Z]{2})|(?<=\b[A-Z])/(?=[A-Z]\b)",
         lambda found: " over " if found.string[: found.start() - 1].rstrip().endswith("=") else " "),
    Rule("/", r"(?<=[°º][CF])/(?=\d)", lambda found: ", "),
)  # fmt: skip

LAST = (
    Rule("a", r"(?:(?<=[\w,] )|\A)[A-Z][a-z]{0,3}\.(?= \d)", lambda found: found[0][:-1]),
)  # fmt: skip
"""A short form that no table has, before a number inside a sentence: Mi. 12."""
