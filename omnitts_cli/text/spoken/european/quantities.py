"""Money, units, percentages, fractions, telephone numbers and numbers on their own, by a language's table."""

import re
from collections.abc import Iterable
from functools import partial

from omnitts_cli.text.spoken.european.figures import (
    FIGURE,
    SPACES,
    amount,
    cardinal,
    counted,
    parted,
    several,
    telephone,
)
from omnitts_cli.text.spoken.european.table import Coin, LanguageTable, Noun, changed
from omnitts_cli.text.spoken.rules import Match, Rule, Said

GAP = f"[{SPACES}]?"
WORD = r"[^\W\d_]+"
NEXT_WORD = re.compile(rf"[{SPACES}]({WORD})")
LAST_WORD = re.compile(rf"({WORD})[.:]?[{SPACES}(]+\Z")
VULGAR = str.maketrans({"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"})


def word_before(text: str, start: int) -> str:
    """The word right before a place, as it is written; empty where there is none."""
    found = LAST_WORD.search(text[max(0, start - 26) : start])
    return found[1] if found else ""


def word_after(text: str, end: int) -> str:
    found = NEXT_WORD.match(text[end : end + 26])
    return found[1] if found else ""


def noun_after(table: LanguageTable, text: str, end: int) -> str:
    """The next word in small letters; empty where it is nothing that a number counts."""
    found = NEXT_WORD.match(text[end : end + 26])
    word = found[1].lower() if found and found[1].islower() else ""
    if table.things.large.get(word) == 1000 and (counted := noun_after(table, text, end + len(word) + 1)):
        return counted  # two thousand women
    return "" if word in table.no_noun else word


def any_of(choices: Iterable[str]) -> str:
    """A pattern: the longest choice that fits."""
    return "|".join(re.escape(choice) for choice in sorted(choices, key=len, reverse=True))


# ---- money


def money(table: LanguageTable, found: Match) -> Said:
    coin = table.things.coins.get(found["coin"])
    if coin is None:
        return None
    large = table.things.large.get((found["large"] or "").strip(SPACES), 0)
    whole, _, rest = parted(found["amount"])
    if not large and len(whole) <= 15 and len(rest) in (1, 2):
        return coins(table, int(whole), int(rest.ljust(2, "0")), coin)
    return changed(much(table, found["amount"], large, coin.whole), table.elision)


def much(table: LanguageTable, figure: str, large: int, noun: Noun) -> str:
    """An amount without its hundredths, perhaps in thousands or millions."""
    whole, _, rest = parted(figure)
    if large and rest:
        scale = next((scale for size, scale in table.counting.scales if size == large), None)
        name = f"{scale.many}{table.counting.of_millions}" if scale else table.counting.thousands.strip()
        return f"{amount(table, figure)} {name} {noun.many}"
    if large and len(whole) <= 6:
        return f"{counted(table, int(whole) * large, noun.many, noun.feminine)} {noun.many}"
    name = noun.many if several(table, figure) else noun.one
    return f"{amount(table, figure, name, noun.feminine)} {name}"


def coins(table: LanguageTable, whole: int, part: int, coin: Coin) -> str:
    """1 and 20 -> one euro and twenty cents; nothing is said of the part that is zero."""
    said = []
    for count, noun in ((whole, coin.whole), (part, coin.part)):
        name = noun.one if count == 1 else noun.many
        if count or (noun is coin.whole and not part):
            said.append(f"{counted(table, count, name, noun.feminine)} {name}")
    return changed(table.things.coin_join.join(said), table.elision)


# ---- units


def measure(table: LanguageTable, found: Match) -> Said:
    noun = table.things.units.get(found["unit"])
    figure, power, per = found["amount"], found["power"], found["per"]
    if noun is None or (per and per not in table.things.per_units):
        return None
    many = several(table, figure)
    words = f"{amount(table, figure, noun.one, noun.feminine)} {noun.many if many else noun.one}"
    if power:
        words += f" {(table.things.square if power in '²2' else table.things.cubic)[many]}"
    if per:
        words += f" {table.things.per} {table.things.per_units[per]}"
    return changed(words, table.elision)


def percent(table: LanguageTable, found: Match) -> str:
    return f"{amount(table, found['amount'])} {table.things.percent}"


def fraction(table: LanguageTable, found: Match) -> Said:
    above, below = int(found["above"]), int(found["below"])
    noun = noun_after(table, found.string, found.end())
    if below >= 1900:
        return f"{cardinal(table, above)} {table.things.slash} {cardinal(table, below)}"
    if (above, below) == (1, 2):
        return table.things.half[table.is_feminine(noun)]
    part = table.things.parts.get(below)
    if part is None or above >= below:
        return f"{cardinal(table, above)} {table.things.over} {cardinal(table, below)}"
    name = part.many if above > 1 else part.one
    return f"{counted(table, above, name, part.feminine)} {name}"


# ---- telephones, ranges, and numbers by themselves


def phone(table: LanguageTable, found: Match) -> Said:
    """By its form, or by the words before it where three groups of three could be a number."""
    grouped = re.fullmatch(rf"[1-9]\d{{0,2}}(?:[{SPACES}.]\d{{3}})+", found[0])
    near = re.findall(WORD, found.string[max(0, found.start() - 30) : found.start()].lower())
    if grouped and not table.things.called & set(near):
        return None
    plus = f"{table.things.signs['+']} " if found[0].startswith("+") else ""
    return plus + telephone(table, found[0])


def span(table: LanguageTable, found: Match) -> str:
    """A hyphen between two numbers is a range or a score; more than one of them joins a code."""
    text, start, end = found.string, found.start(), found.end()
    joined = re.search(r"[-–]\d+\Z", text[max(0, start - 12) : start]) or re.match(r"\d+[-–]\d", text[end : end + 12])
    return ", " if joined else f" {table.things.to} "


def negative(table: LanguageTable, found: Match) -> str:
    return f"{table.counting.minus} "


def plain_number(table: LanguageTable, found: Match) -> Said:
    """By itself, or as many as the noun after it says."""
    noun = noun_after(table, found.string, found.end())
    words = amount(table, found[0], noun)
    if words.endswith(("'", "’")):
        return words, found.end() + 1
    return words.removesuffix(table.counting.of_millions) if word_after(found.string, found.end()) != noun else words


def version(table: LanguageTable, found: Match) -> Said:
    """2.0.1, 192.168.0.1; not 1.000.000."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+", found[0]):
        return None
    return f" {table.counting.point} ".join(cardinal(table, int(part)) for part in found[0].split("."))


def telephones(table: LanguageTable) -> tuple[Rule, ...]:
    """Before anything else, as they hold what look like other numbers."""
    end = rf"(?![\w/-]|\.\d|[{SPACES}]\d)"
    return tuple(Rule("0+(", rf"(?<![\w.,+]){form}{end}", partial(phone, table)) for form in table.things.phones)


def rules(table: LanguageTable) -> tuple[Rule, ...]:
    """In this order."""
    things = table.things
    signs = "".join(coin[0] for coin in things.coins)
    large = f"(?P<large>{GAP}(?:{any_of(things.large)}))?(?![^\\W\\d_])"
    either = f"(?P<coin>{any_of(things.coins)})"
    start = r"(?<![\w.,/])"
    read = partial
    return (
        Rule("0", r"(?<![\w.,])\d{1,3}(?:\.\d{1,3}){2,}(?![\w,])", read(version, table), "."),
        Rule("a" + signs, rf"(?<!\w){either}{GAP}(?P<amount>{FIGURE}){large}", read(money, table)),
        Rule("0", rf"{start}(?P<amount>{FIGURE})(?P<large>{GAP}(?:{any_of(things.large)}))?(?: (?:de|di) |{GAP})"
             rf"{either}(?!\w)", read(money, table)),
        Rule("0", rf"{start}(?P<amount>{FIGURE}){GAP}%", read(percent, table)),
        Rule("0", rf"{start}(?P<amount>{FIGURE}){GAP}(?P<unit>{any_of(things.units)})(?P<power>[²³23])?"
             rf"(?:/(?P<per>{any_of(things.per_units)}))?(?![\w/²³])", read(measure, table)),
        Rule("0", rf"{start}(?P<above>\d{{1,3}})[/⁄](?P<below>[1-9]\d{{0,3}})(?![\d/])", read(fraction, table), "/⁄"),
        Rule("'’", r"(?<!\w)['’](?=\d\d\d?(?!\d))", lambda found: ""),
        Rule("-−–", r"(?<![\w.,)%])[-−–](?=\d)", read(negative, table)),
        Rule(" -–", r"(?<=\d) ?[-–] ?(?=\d)", read(span, table)),
        Rule("0", FIGURE, read(plain_number, table)),
    )  # fmt: skip
