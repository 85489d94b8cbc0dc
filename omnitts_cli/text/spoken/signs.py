"""Signs between words: operators of code and of mathematics, tags, hash and dollar signs, faces, arrows, flags."""

import re

from omnitts_cli.text.numerals import cardinal, digits, pairs
from omnitts_cli.text.spoken import around
from omnitts_cli.text.spoken.rules import Match, Rule
from omnitts_cli.text.spoken.units import unit_named

CODE = {
    "&&": "and", "||": "or", "!==": "is not equal to", "!=": "is not equal to", "===": "equals", "==": "equals",
    ">=": "at least", "<=": "at most", "->": "to", "=>": "to", "<-": "from", "<->": "to", "+=": "plus equals",
    "-=": "minus equals", "*=": "times equals", "/=": "divided by equals", ":=": "equals", "**": "to the power of",
    "|": "or",
}  # fmt: skip
CODE_SIGN = re.compile("|".join(re.escape(sign) for sign in sorted(CODE, key=len, reverse=True) if sign != "|"))
CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def operator(found: Match) -> str:
    return f" {CODE[found[0].strip()]} "


def twice(found: Match) -> str:
    """i++ and i--."""
    return " plus plus" if found[0] == "++" else " minus minus"


def bar(found: Match) -> str:
    """a | b in code is or; between parts of a line it is a pause."""
    text = found.string
    code = CODE_BEFORE.search(text[max(0, found.start() - 24) : found.start()]) and re.match(
        r"[a-z_*.$-]+(?:[ ()=-]|$)", text[found.end() :][:24]
    )
    typed = TYPE.search(text[max(0, found.start() - 10) : found.start()]) or TYPE_AFTER.match(text, found.end())
    return (
        " or "
        if typed or (code and not re.search(r"\d{3}|[A-Z][a-z]+:", text[max(0, found.start() - 60) : found.end() + 60]))
        else ", "
    )


TYPE = re.compile(r"\b(?:None|null|undefined|str|int|float|bool|bytes|string|number)\Z")
TYPE_AFTER = re.compile(r" (?:None|null|undefined|str|int|float|bool|bytes|string|number)\b")
CODE_BEFORE = re.compile(r"(?:^|[\s`(])[a-z_*.$/()\[\]-]+ ?\Z")


def route(found: Match) -> str | None:
    """LAX–SFO, JFK → NAP: the letters of airports."""
    if "-" in found[0] and ">" not in found[0]:
        return None  # TLS-PSK
    return f"{' '.join(found['one'])} to {' '.join(found['other'])}"


def chatty(found: Match) -> bool:
    """Whether the words around show that a text is chat."""
    return bool(CHATTY.search(found.string[max(0, found.start() - 90) : found.end() + 90]))


def to_or_for(found: Match) -> str | None:
    """Run 2 the bank, wait 4 me."""
    text = found.string
    earlier, later = around.word_before(text, found.start()), around.word_after(text, found.end())
    shouted = text[found.end() : found.end() + 4].isupper() and not text[: around.REACH].isupper()
    if not earlier or earlier in NUMBER_BEFORE or shouted:
        return None
    if later in AFTER_TO or (chatty(found) and not (later.endswith("s") or unit_named(later) or later in AFTER_NUMBER)):
        return "to" if found[0] == "2" else "for"
    return None


CHATTY = re.compile(
    r"\b(?:u|ur|pls|plz|txt|msg|luv|thx|wanna|gonna|tmr|tmrw|dat|lor|wat|dont|coz|bcoz)\b", re.IGNORECASE
)
"""Words by which a text shows that it is chat."""
AFTER_TO = frozenset(
    "the be do go get see my me u you ur your him her us it hear have order win eat come work say make lunch "
    "dinner brunch "
    "breakfast".split()
)
AFTER_NUMBER = frozenset(
    "or and more of to for people hours new other big men women kids percent hundred thousand million way day week min "
    "hr weeks x dozen pm am".split()
)


NUMBER_BEFORE = frozenset(
    "the a an these those top last first next of other at number no in and or is was are were exactly only all round "
    "step page chapter level class game grade year day week under over about with phase part group team".split()
)

MARKUP = frozenset("b i u em strong p span div a code li ul ol td tr h1 h2 h3 h4 sub sup small pre mark s".split())


def tag(found: Match) -> str:
    """<tag> and <bob>: the name alone."""
    name, text = found["name"], found.string
    markup = name in ("br", "hr") or (name in MARKUP and f"</{name}>" in text)
    return " " if markup else f" {name} "


def closed(found: Match) -> str | None:
    """The other end of <some words>."""
    opened = re.search(r"<[A-Za-z][^<>\n]{0,80}\Z", found.string[max(0, found.start() - 82) : found.start()])
    return " " if opened else None


def hashtag(found: Match) -> str:
    """#MeToo -> hashtag me too; #B7731 is a number."""
    if code := re.fullmatch(r"(?P<letters>[A-Z]{1,3})(?P<figure>\d{1,6})", found["name"]):
        figure = code["figure"]
        said = pairs(int(figure)) if figure[0] != "0" and len(figure) < 5 else digits(figure)
        return f"number {' '.join(code['letters'])} {said}"
    parts = [cardinal(int(part)) if part.isdecimal() else part for part in CAMEL.findall(found["name"])]
    return "hashtag " + " ".join(part if part.isupper() and len(part) > 1 else part.lower() for part in parts)


def keys(found: Match) -> str:
    """Ctrl+C, Cmd+Shift+4."""
    names = {"ctrl": "control", "cmd": "command", "opt": "option", "esc": "escape", "del": "delete", "win": "windows"}
    parts = re.split(r"[+-]", found[0])
    return " ".join(names.get(part.lower(), cardinal(int(part)) if part.isdecimal() else part) for part in parts)


def flag(found: Match) -> str:
    """--dry-run and -f."""
    name = found["name"].replace("-", " ")
    if found["dashes"] == "--":
        return f"dash dash {name}"
    spelled = len(name) < 3 or not re.search("[aeiouy]", name)
    return f"dash {' '.join(name) if spelled else name}"


def called(found: Match) -> str:
    """f(x): f of x."""
    prime = " prime" if found["prime"] else ""
    of = re.sub(r"([-−+])(\d)", lambda part: f" {'plus' if part[1] == '+' else 'minus'} {digits(part[2])}", found["of"])
    return f"{found['name']}{prime} of {of}"


def index_of(found: Match) -> str:
    """a[0]: a of zero."""
    index = found["index"]
    return f"{found['name'].upper()} of {cardinal(int(index)) if index.isdecimal() else index}"


def product(found: Match) -> str | None:
    """mc²: two letters that are multiplied; not a unit."""
    return None if unit_named(found["product"]) else found["product"].upper()


def star_code(found: Match) -> str:
    """*67 and #31#, as they are dialled."""
    names = {"*": "star", "#": "pound"}
    return " ".join(names.get(part) or digits(part) for part in re.findall(r"\d+|[*#]", found[0]))


def her_number(found: Match) -> str | None:
    """His # is 555-0147; not press #."""
    named = around.word_before(found.string, found.start())
    return (
        "number"
        if named in ("his", "her", "my", "your", "ur", "our", "their", "the", "phone", "cell", "what")
        else None
    )


def times_money(found: Match) -> str | None:
    """$75 x 3."""
    return " times " if re.search(r"[$€£][\d,.]+\Z", found.string[max(0, found.start() - 12) : found.start()]) else None


def minus(found: Match) -> str | None:
    """-5; not the number -0198 and not an item of a list."""
    if found[0] == "–" and not re.match(r"[$€£]?\.?\d+(?:[.…°%]|\b)", found.string[found.end() : found.end() + 12]):
        return None
    named = around.word_before(found.string, found.start()) in ("fax", "tel", "ext", "cell", "and", "or", "in")
    return "dash " if named and re.match(r"\d{4}\b", found.string[found.end() : found.end() + 5]) else "minus "


def stars(found: Match) -> str:
    return " star" if around.word_after(found.string, found.end()) else " stars"


def dollar(found: Match) -> str | None:
    """$PATH, $x^2$, and the prompt of a shell: nothing is said."""
    text, end = found.string, found.end()
    if re.match(r"[A-Za-z_{\\]", text[end : end + 1]):
        return None if re.search(r"[\w$]\Z", text[: found.start()][-1:]) else ""
    if text[: found.start()][-1:].strip() and OPENED.search(text[max(0, found.start() - 80) : found.start()]):
        return " "
    prompt = re.match(r" (?!and\b|or\b|is\b|sign\b)[a-z]", text[end : end + 6])
    return "" if not text[: found.start()].strip() and prompt else None


OPENED = re.compile(r"(?:^|[\s(])\$(?!\$)[^$]*\Z")


def chords(found: Match) -> str:
    """Am–F–C–G."""
    signs = {"#": " sharp", "b": " flat", "m": " minor"}
    return ", ".join("".join(signs.get(sign, sign) for sign in chord) for chord in re.findall("[A-G][#b]?m?", found[0]))


def nothing(found: Match) -> str:
    return ""


def faces(found: Match) -> str:
    return "heart" if found[0].startswith("<3") else ""


RULES: tuple[Rule, ...] = (
    Rule("<", r"(?<!\S)<3+(?=[\s.,!]|$)", faces),
    Rule(":;=", r"(?<!\S)[:;=]['-]?[()DPpOo|/\\*\[\]3](?=[\s.,!]|$)", faces),
    Rule("<", r"</?(?P<name>[A-Za-z][\w-]{0,30})(?: [\w:-]{1,30}=[^<>]{0,200})?/?>", tag),
    Rule("<", r"</?(?=[A-Za-z][^<>\n]{0,80}>)", lambda found: " "),
    Rule(">", r">", closed),
    Rule(">", r"(?:(?<=\n)|\A)(?:> )+", nothing),
    Rule("&|!=><-+*/:", rf" ?(?:{CODE_SIGN.pattern})(?=[\s\w($'\"]|$) ?", operator),
    Rule("a", r"\b(?P<one>[A-Z]{3})(?: ?[–-] ?| ?(?:→|->) ?)(?P<other>[A-Z]{3})\b(?![-–\w])", route),
    Rule(" ", r" \|(?= )", bar),
    Rule(" ", r" (?:&&|\|\||!==?|===?|>=|<=|<?->|=>|<-|[+*/:-]=)(?= )", operator),
    Rule("0", r"(?<=[A-Za-z] )[24](?= [A-Za-z]+\b)", to_or_for, " "),
    Rule("a", r"(?<=[a-z] )n(?= [a-z]+\b)", lambda found: "and" if chatty(found) else None, words=("n",)),
    Rule("#", r"(?<=[A-Za-z]{2})#(?= ?[A-Z\d])|(?<=[a-z] )#(?=:)|(?<=[A-Z]{2})#(?=:)", lambda found: " number"),
    Rule("a", r"\b(?P<note>[A-G])b(?= (?:major|minor|maj\b|min\b|clarinet|trumpet|sax|horn|scale|chord"
         r"|tuning|cornet|instr))",
         lambda found: f"{found['note']} flat", words=("ab", "bb", "cb", "db", "eb", "fb", "gb")),
    Rule("a", r"\b[A-G][#b]?m?(?:(?: ?[-–|] ?)[A-G][#b]?m?){2,8}\b", chords),
    Rule("+-", r"(?<=\b[a-z])(?:\+\+|--)(?!\w)", twice),
    Rule("!", r"(?<=[&|(=] )!(?=[a-z])", lambda found: "not "),
    Rule("#", r"(?<=[a-z] )#(?=[.,?!]|$| [a-z]+\b)", her_number),
    Rule("#", r"(?<=[a-z.] )# (?=[A-Z\d])", lambda found: "number "),
    Rule(" ", r"(?<=[a-z]) > (?=[A-Z][a-z])", lambda found: ", "),
    Rule("#", r"#{1,6} (?=of\b)", lambda found: "number "),
    Rule("#", r"(?:(?<=\n)|\A)#{2,6} ", nothing),
    Rule("#", r"(?<!\w)#(?P<name>\d*[A-Za-z][A-Za-z0-9_]{1,60})(?![\w#])", hashtag),
    Rule("#*", r"(?<![\w#*])(?:\*\d{2,6}#?|#\d{2,6}#)(?!\w)", star_code),
    Rule("a", r"\b(?:Ctrl|Cmd|Alt|Opt|Shift|Esc|Win|Super|Meta|Fn|Control|Command|Option)(?:[+-]"
         r"(?:[A-Za-z]{1,9}|\d))+\b",
         keys, words=("ctrl", "cmd", "alt", "opt", "shift", "win", "super", "meta", "fn", "control", "command",
                     "option")),
    Rule("-", r"(?<!\S)(?P<dashes>--)(?P<name>[A-Za-z][\w-]{0,40})", flag),
    Rule("-", r"(?:(?<=[a-z] )|(?<=[a-z]\d )|\A)(?P<dashes>-)(?P<name>[A-Za-z]{1,3})(?=[\s,.]|$)", flag),
    Rule("a", r"(?<!\w)(?P<name>[a-zA-Z])(?P<prime>['’′])?\((?P<of>[a-z](?:[-−+]\d)?)\)", called),
    Rule("*", r"(?<=SELECT )\*|(?<=COUNT\()\*", lambda found: "star"),
    Rule("a", r"(?<!\w)(?P<name>[a-zA-Z])(?P<prime>['’′])\((?P<of>[a-z])\)", called),
    Rule("♯♭♮", r"(?<=\b[A-Ga-g])[♯♭♮]", lambda found: {"♯": " sharp", "♭": " flat", "♮": " natural"}[found[0]]),
    Rule("★☆⭐*", r"(?<=\d)[★☆⭐]|(?<=\d)\*(?= [A-Za-z])", stars),
    Rule(" ", r"(?<=['\"″′] [HWDLhwdl]) [x×] (?=\d)|(?<=['\"″′]) [x×] (?=[HWDLhwdl] \d)|"
         r"(?<=['\"″′][HWDLhwdl]) [x×] (?=\d)", lambda found: " by "),
    Rule("a×", r"(?<=\d['’\"″′])[x×] ?(?=\d)", lambda found: " by ", words=("x",)),
    Rule(" ", r"(?<=\d) [x×] (?=\.\d)", lambda found: " times "),
    Rule(" ", r" [x×] (?=\d)", times_money),
    Rule(" ", r"(?<=\d) [x×] (?=\d{1,2}(?:[ -]\d{1,2})?/\d)", lambda found: " by "),
    Rule("#", r"(?<!\w)#(?=[A-Z]{1,3}-\d)", lambda found: "number "),
    Rule("*", r"(?<![\w*])\*{3,}[- ]?(?P<figure>\d{3,6})\b", lambda found: digits(found["figure"])),
    Rule("0", r"\A\d{1,2}/ (?=[A-Z])", lambda found: f"{cardinal(int(found[0][:-2]))}, ", "/"),
    Rule("#", r"(?<=\d)# (?=[a-z])", lambda found: " pound "),
    Rule(" ", r"(?:(?<=\bending in)|(?<=\bends in)) [-x*]{1,4}(?P<figure>\d{2,6})\b",
         lambda found: f" {digits(found['figure'])}"),
    Rule("/", r"(?<=\d)/[°º] ?(?P<kind>[CF])\b",
         lambda found: f" per degree {'Celsius' if found['kind'] == 'C' else 'Fahrenheit'}"),
    Rule("$", r"\$(?!\d|\.\d)", dollar),
    Rule("¶", r"¶¶? ?(?=\d)", lambda found: "paragraphs " if found[0][1:2] == "¶" else "paragraph "),
    Rule("a", r"(?<!\w)(?P<name>[a-z])\[(?P<index>\w{1,3})\]", index_of),
    Rule("a", r"(?<![\w'’.])a(?= ?(?:&&|\|\||[=!<>]=|[-=]>|[<>=+*|∪∩] |\[))", lambda found: "A",
         words=("a",)),
    Rule("a", r"\b[A-Z]{1,4}-(?P<figure>[1-9]\d\d)\b(?!-)",
         lambda found: f"{found[0][:-4]} {pairs(int(found['figure']))}"),
    Rule("a", r"(?<![\w'’])(?P<product>[a-z]{2})(?=[\^²³])", product),
    Rule("a", r"\b[A-D][-−](?= [a-z]|[.,;)]|$)", lambda found: f"{found[0][0]} minus"),
    Rule("a", r"\b(?P<one>[A-Z])–(?P<other>[A-Z])\b", lambda found: f"{found['one']} to {found['other']}"),
    Rule("a", r"\b[CFGAD]#(?!\w)", lambda found: f"{found[0][0]} sharp"),
    Rule("-−–", r"(?<![\w.)%°²³])[-−–](?=[$€£]?\.?\d)", minus),
    Rule("+", r"(?<![\w.)])\+(?=\d{1,3}(?: [a-z]|[,.!]|$))", lambda found: "plus "),
    Rule("~≈", r"(?<!\w)[~≈] ?(?=[$€£]?\.?\d)", lambda found: "about "),
    Rule(" *", r"(?<=\d) ?\* ?(?=\d)", lambda found: " times "),
    Rule("a", r"\b[A-Z]\.(?P<figure>\d{3})\b", lambda found: f"{found[0][0]} dot {pairs(int(found['figure']))}"),
    Rule(".", r"(?<=\d)\.\.\.?(?=v?\d)", lambda found: " to " if len(found[0]) == 2 else "... "),
)  # fmt: skip
