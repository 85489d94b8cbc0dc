"""Dates, times and durations, by a language's table."""

from functools import partial

from omnitts_cli.text.spoken.european.figures import SPACES, cardinal, counted
from omnitts_cli.text.spoken.european.quantities import GAP, any_of, word_before
from omnitts_cli.text.spoken.european.table import LanguageTable, Noun, changed
from omnitts_cli.text.spoken.rules import Match, Rule, Said

DAY, MONTH, HOUR, MINUTE = r"(?:3[01]|[12]\d|0?[1-9])", r"(?:1[0-2]|0?[1-9])", r"(?:2[0-4]|[01]?\d)", r"[0-5]\d"
PIVOT = 50
"""A year of two digits below this is in the 2000s."""
HALF = rf"(?:{GAP}(?P<half>[ap]){GAP}\.?{GAP}m\b\.?)?"


def day_words(table: LanguageTable, day: int) -> str:
    return table.ordinals.first_of_month if day == 1 and table.ordinals.first_of_month else cardinal(table, day)


def date(table: LanguageTable, found: Match) -> str:
    """24/12/2025, 24.12.25, 2025-12-24."""
    calendar, year = table.calendar, int(found["year"])
    if len(found["year"]) == 2:
        year += 2000 if year < PIVOT else 1900
    month = calendar.months[int(found["month"]) - 1]
    day = day_words(table, int(found["day"]))
    return f"{day}{calendar.of_month}{month}{calendar.of_year}{cardinal(table, year)}"


def day_of_month(table: LanguageTable, found: Match) -> str:
    """1 de enero, 11 nov.; the year after it is read as any number is."""
    months, name = table.calendar.months, found["month"].lower().rstrip(".")
    if name not in months:
        name = months[table.calendar.short_months[name] - 1]
    return f"{day_words(table, int(found['day']))}{found['of']}{name}"


def day_and_month(table: LanguageTable, found: Match) -> str:
    """24/12."""
    calendar = table.calendar
    return f"{day_words(table, int(found['day']))}{calendar.of_month}{calendar.months[int(found['month']) - 1]}"


def number_of(table: LanguageTable, count: int, noun: Noun) -> str:
    """The number and its noun."""
    name = noun.one if count == 1 or count < table.counting.singular_below else noun.many
    return changed(f"{counted(table, count, name, noun.feminine)} {name}", table.elision)


def clock(table: LanguageTable, found: Match) -> Said:
    """14:30, 14h30; with the half of the day where it is written."""
    calendar = table.calendar
    text, dotted = found.string, found["sign"] in ".,"
    if dotted and word_before(text, found.start()).lower() not in calendar.clock_after:
        return None
    hour, minute = int(found["hour"]), int(found["minute"])
    said = {
        "hour": counted(table, hour, feminine=calendar.hour.feminine),
        "hours": number_of(table, hour, calendar.hour),
        "minute": cardinal(table, minute),
    }
    words = (calendar.clock if minute else calendar.full_hour).format(**said)
    if found["second"]:
        words += f"{calendar.duration_join}{number_of(table, int(found['second']), calendar.second)}"
    return words + half_of(table, found, hour)


def half_of(table: LanguageTable, found: Match, hour: int) -> str:
    """The words for a. m. and p. m.; a full stop that ends the text stays."""
    if not found["half"]:
        return ""
    morning, afternoon, evening = table.calendar.halves
    words = morning if found["half"] == "a" else afternoon if hour % 12 < 8 else evening
    return f" {words}{'.' * (found[0].endswith('.') and not found.string[found.end() :].strip())}"


def whole_hour(table: LanguageTable, found: Match) -> str:
    hour = int(found["hour"])
    return counted(table, hour, feminine=table.calendar.hour.feminine) + half_of(table, found, hour)


def duration(table: LanguageTable, found: Match) -> str:
    """2 h 30 min, 1 min 5 s."""
    calendar = table.calendar
    named = {"hours": calendar.hour, "minutes": calendar.minute, "seconds": calendar.second}
    return calendar.duration_join.join(
        number_of(table, int(found[part]), noun) for part, noun in named.items() if found[part]
    )


def rules(table: LanguageTable) -> tuple[Rule, ...]:
    """In this order."""
    names = f"(?:{any_of(table.calendar.months)}|(?:{any_of(table.calendar.short_months)})\\b\\.?)"
    mark = f"(?:{table.ordinals.masculine_mark}|°)?"
    read = partial
    return (
        Rule("0", rf"(?<![\w/.-])(?P<year>[12]\d{{3}})-(?P<month>0[1-9]|1[0-2])-(?P<day>{DAY})(?![\w/-])",
             read(date, table), "-"),
        Rule("0", rf"(?<![\w/.-])(?P<day>{DAY})(?P<sign>[/.-])(?P<month>{MONTH})(?P=sign)(?P<year>[12]\d{{3}}|\d\d)"
             r"(?![\w/-]|\.\d)", read(date, table), "/.-"),
        Rule("0", r"(?<![\w/.,-])(?P<day>3[01]|[12]\d|0[1-9])/(?P<month>1[0-2]|0[1-9])(?![\w/-]|\.\d)",
             read(day_and_month, table), "/"),
        Rule("0", rf"(?<![\w/.,-])(?P<day>{DAY}){mark}(?P<of>[{SPACES}](?:de )?)(?P<month>(?i:{names}))(?![^\W_])",
             read(day_of_month, table)),
        Rule("0", rf"(?<![\w.,:])(?P<hours>\d{{1,3}}){GAP}h{GAP}(?P<minutes>\d\d?){GAP}(?:min|mn|m)\b"
             rf"(?:{GAP}(?P<seconds>\d\d?){GAP}s\b)?", read(duration, table)),
        Rule("0", rf"(?<![\w.,:])(?P<hours>)(?P<minutes>\d{{1,3}}){GAP}min{GAP}(?P<seconds>\d\d?){GAP}s\b",
             read(duration, table)),
        Rule("0", rf"(?<![\w.,:/])(?P<hour>{HOUR})(?P<sign>:|{GAP}[hH]{GAP}|[.,])(?P<minute>{MINUTE})"
             rf"(?::(?P<second>{MINUTE}))?(?![\d:/]|[.,]\d)(?:{GAP}(?:h|hs|hrs)\b\.?)?{HALF}", read(clock, table)),
        Rule("0", rf"(?<![\w.,:/])(?P<hour>1[0-2]|0?[1-9]){GAP}(?P<half>[ap]){GAP}\.?{GAP}m\b\.?",
             read(whole_hour, table)),
    )  # fmt: skip
