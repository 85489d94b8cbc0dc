"""Dates, times of day, durations and decades."""

import re

from omnitts_cli.text.numerals import cardinal, decade, digits, number, ordinal, year
from omnitts_cli.text.spoken import around, english
from omnitts_cli.text.spoken.rules import Match, Rule, Said
from omnitts_cli.text.spoken.units import plural

MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTH_NAME = (
    r"(?i:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
SHORT_MONTH = r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
SHORT_DAY = r"(?:Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat|Sun)"
MONTH_WORDS = tuple("jan feb mar apr may jun jul aug sep sept oct nov dec january february march april june july "
                    "august september october november december".split())  # fmt: skip
DAY_WORDS = tuple("mon tue tues wed weds thu thur thurs fri sat sun".split())
DAY = r"(?:[12]\d|3[01]|0?[1-9])"
YEAR = r"[12]\d{3}"
HOUR = r"(?:[01]?\d|2[0-4])"
HALF = r"(?: ?(?P<half>[AaPp]\.?[Mm]\b\.?))"

ROUND = {2: "tens", 3: "hundreds", 4: "thousands"}
PIVOT = 50
"""A year of two digits below this is in the 2000s."""

AGES = re.compile(r"\b(?:the|his|her|their|my|your|our|its|early|mid|late|low|high|upper|lower)[ -]\Z", re.IGNORECASE)
"""Words before `30s` that make it a decade or an age; without them it is thirty seconds."""


def month(written: str) -> str:
    return next(name for name in MONTHS if name.startswith(written[:3].capitalize()))


def weekday(written: str) -> str:
    return next(name for name in DAYS if name.startswith(written[:3]))


def full_year(written: str) -> int:
    if len(written) > 2:
        return int(written)
    return int(written) + (2000 if int(written) < PIVOT else 1900)


def date_words(day: int, month: int, its_year: str | None) -> str:
    """March fourth, twenty twenty five."""
    end = f", {year(full_year(its_year))}" if its_year else ""
    return f"{MONTHS[month - 1]} {ordinal(day)}{end}"


def iso_date(found: Match) -> str:
    words = date_words(int(found["day"] or found["d"]), int(found["month"] or found["m"]), found["year"])
    if found["hour"] is None:
        return words
    seconds = found["second"] or "00"
    time = time_words(int(found["hour"]), int(found["minute"]), int(seconds))
    return f"{words}, {time}{' U T C' if found['zone'] else ''}"


def slash_date(found: Match) -> str:
    """3/4/2025: the month comes first, as in the United States, unless it cannot be one. Neither: left alone."""
    first, second = int(found["first"]), int(found["second"])
    if PLAYED.search(found.string[max(0, found.start() - 20) : found.start()]):
        return f"{cardinal(first)}, {cardinal(second)}, {cardinal(int(found['year']))}"
    if first <= 12 and second <= 31:
        return date_words(second, first, found["year"])
    if second <= 12 and first <= 31:
        return f"{the(found)}{ordinal(first)} of {MONTHS[second - 1]}, {year(full_year(found['year']))}"
    return found[0]


PLAYED = re.compile(r"\b(?:had|averaged|avg['’]d|averaging|posted|dropped) \Z")
"""Before 31/8/11 they show that it is points, rebounds and assists."""


def dotted_date(found: Match) -> str:
    """25.12.2025: the day comes first wherever dots are used."""
    return f"{the(found)}{ordinal(int(found['day']))} of {MONTHS[int(found['month']) - 1]}, {year(int(found['year']))}"


def month_first(found: Match) -> str | None:
    following = found.string[found.end() : found.end() + 3]
    if found["month"] == "may" and not found["year"] and re.match(r" [a-z]", following):
        return None  # the verb
    until = f" to {ordinal(int(found['until']))}" if found["until"] else ""
    end = f", {year(int(found['year']))}" if found["year"] else ""
    return f"{month(found['month'])} {ordinal(int(found['day']))}{until}{end}"


def day_first(found: Match) -> str:
    begin = f"{ordinal(int(found['from']))} to the " if found["from"] else ""
    end = f", {year(int(found['year']))}" if found["year"] else ""
    article = "" if re.match(r"\d+(?:st|nd|rd|th) of ", found[0]) else the(found)
    return f"{article}{begin}{ordinal(int(found['day']))} of {month(found['month'])}{end}"


def the(found: Match) -> str:
    """The article of a date, unless it is written already."""
    return "" if found.string[max(0, found.start() - 4) : found.start()].lower() == "the " else "the "


def month_and_year(found: Match) -> str:
    return f"{month(found['month'])} {year(int(found['year']))}"


def short_range(found: Match) -> str:
    name = weekday if re.fullmatch(SHORT_DAY, found["from"]) else month
    return f"{name(found['from'])} {'and' if found['sign'] == '/' else 'to'} {name(found['until'])}"


def time_words(hour: int, minute: int, second: int = 0, half: str = "") -> str:
    if not minute and not second and not half and hour in (0, 24):
        return "midnight"
    if not minute:
        words = cardinal(hour) + (half or (" o'clock" if hour <= 12 else " hundred"))
    else:
        words = f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}{half}"
    if second:
        words += f" and {cardinal(second)} {plural('second', str(second))}"
    return words


def clock(found: Match) -> Said:
    text, end = found.string, found.end()
    if around.word_after(text, end) in ("dilution", "ratio", "scale", "odds", "mix", "slope", "mixture", "model"):
        return None
    if RATIO_BEFORE & set(around.before(text, found.start(), 3)):
        return None
    if found["second"] and lasted(found):
        parts = {"hour": found["hour"], "minute": found["minute"], "second": found["second"]}
        words = [f"{cardinal(int(count))} {plural(name, str(int(count)))}" for name, count in parts.items()]
        return f"{words[0]} {words[1]} and {words[2]}"
    return time_words(int(found["hour"]), int(found["minute"]), int(found["second"] or 0), half_of(found))


RATIO_BEFORE = frozenset("ratio scale odds dilute diluted mixed slope gradient pitch proportion".split())


def lasted(found: Match) -> bool:
    """1:02:33: hours, minutes and seconds, unless it is the time of a day."""
    return int(found["hour"]) < 5 and not found["half"] and around.word_before(found.string, found.start()) != "at"


def half_of(found: Match) -> str:
    """AM or PM; its full stop is kept where it also ends the sentence."""
    if not found["half"]:
        return ""
    stop = "." if found["half"].endswith(".") and not found.string[found.end() :].strip() else ""
    return f" {found['half'][0].upper()}M{stop}"


def dotted_clock(found: Match) -> str:
    return time_words(int(found["hour"]), int(found["minute"]), 0, half_of(found))


def hour_of_half(found: Match) -> str | None:
    """7a-7p, doors 7p, Fri 7a; not page 4a."""
    text = found.string
    if found["hour2"]:
        return f"{cardinal(int(found['hour2']))} {found['half2'].upper()}M"
    earlier, word = text[max(0, found.start() - 7) : found.start()], around.word_before(text, found.start())
    joined = HOUR_JOINED.match(text, found.end()) or JOINED_TO_HOUR.search(earlier)
    if not joined and word not in HOUR_BEFORE and word not in DAY_WORDS and word.capitalize() not in DAYS:
        return None
    return f"{cardinal(int(found['hour']))} {found['half'].upper()}M"


HOUR_JOINED = re.compile(r"(?: ?[-–&] ?| to | and | or )(?:1[0-2]|[1-9])(?::[0-5]\d)?[ap]\b")
JOINED_TO_HOUR = re.compile(r"\d[ap] (?:&|and|or) \Z|@ ?\Z")
HOUR_BEFORE = frozenset(
    "at by til till until from to in out around after before since doors door set open opens close closes closed start "
    "starts ends end pickup dropoff tip kickoff today tomorrow tonight tmrw show ready home off".split()
)


def dotted_hour(found: Match) -> str | None:
    """At 8.30, as the British write; not 8.30 of something."""
    counted = re.match(r" [a-z]+s\b| ?[-–%°]", found.string[found.end() : found.end() + 20])
    listed = around.word_before(found.string, found.start()) == "or" and not re.search(
        r"\d\.[0-5][05] or \Z", found.string[max(0, found.start() - 9) : found.start()]
    )
    return None if counted or listed else time_words(int(found["hour"]), int(found["minute"]))


def month_of_year(found: Match) -> str | None:
    """Due 8/2027; alone it is a fraction."""
    if not around.before(found.string, found.start()) and not around.after(found.string, found.end()):
        return None
    return f"{MONTHS[int(found['month'] or found['month2']) - 1]} {year(int(found['year'] or found['year2']))}"


def seconds_left(found: Match) -> str:
    """0:42 left, :14 to go."""
    return f"{cardinal(int(found['second']))} {plural('second', str(int(found['second'])))}"


def noon(found: Match) -> str:
    return f"{cardinal(int(found['hour']))}{half_of(found)}"


def duration(found: Match) -> str:
    """1h 30m 5s -> one hour thirty minutes five seconds."""
    named = {"days": "day", "hours": "hour", "minutes": "minute", "seconds": "second"}
    return " ".join(
        f"{cardinal(int(found[part]))} {plural(name, found[part])}" for part, name in named.items() if found[part]
    )


def decade_or_seconds(found: Match) -> str | None:
    """1990s and the 30s are decades, 30s alone are seconds."""
    if re.search(r"(?:over|under)-\Z", found.string[max(0, found.start() - 6) : found.start()]):
        return None
    figure, before = found["figure"], found.string[max(0, found.start() - 10) : found.start()]
    if (
        len(figure) == 4
        or found["mark"]
        or decade_after(found)
        or AGES.search(before)
        or re.search(r"\d['’]?s[-–]\Z", before)
    ):
        return decade(int(figure))
    return f"{cardinal(int(figure))} {plural('second', figure)}"


def decade_after(found: Match) -> bool:
    return around.word_after(found.string, found.end()) in OF_A_DECADE


OF_A_DECADE = frozenset(
    "music fashion movie movies style hits rock pop kid kids vibe vibes aesthetic nostalgia cartoon cartoons band "
    "bands sitcom sitcoms look hair jeans playlist toys dance night theme girl boy trend trends classic classics "
    "era show shows party disco song songs".split()
)


def lap(found: Match) -> str:
    """1:23.456 -> one minute twenty three point four five six."""
    minutes = cardinal(int(found["minute"]))
    seconds = f"{cardinal(int(found['second']))} point {digits(found['part'])} seconds"
    return f"{minutes} {plural('minute', found['minute'])} {seconds}"


HOURS_BEFORE = re.compile(
    r"(?<!\d)\d{1,2}(?::\d\d)?(?: ?[AaPp]\.?[Mm]\.?|[ap])? ?[-–] ?\d{1,2}(?::\d\d)?(?: ?[AaPp]\.?[Mm]\.?|[ap])? \Z"
)


def weekday_alone(found: Match) -> str | None:
    """Tue, Jan 7; Wed 5pm; EOD Fri; 11-6 Sun."""
    text, name = found.string, found["day"]
    after = text[found.end() :][:14]
    dated = re.match(
        rf",? (?:\d|{MONTH_NAME}\b|(?:at|@) ?\d|[ap]\.m|(?:the )?\d|morning|night|afternoon|evening|noon)", after
    )
    before = around.word_before(text, found.start())
    hours = HOURS_BEFORE.search(text[max(0, found.start() - 20) : found.start()])
    sure = name.startswith(("Tue", "Thu", "Fri", "Weds")) or before in DAY_BEFORE or hours
    if not (dated or (sure and not re.match(r" [A-Z]", after))):
        return None
    stop = "." if found[0].endswith(".") and not text[found.end() :].strip() else ""
    return weekday(name) + stop


def month_alone(found: Match) -> str | None:
    """In Oct; since Jan."""
    known = around.word_before(found.string, found.start()) in MONTH_BEFORE
    listed = MONTHS_BEFORE.search(found.string[max(0, found.start() - 16) : found.start()])
    stop = "." if found[0].endswith(".") else ""
    return month(found["month"]) + stop if known or listed else None


MONTHS_BEFORE = re.compile(rf"\b{SHORT_MONTH}[a-z]{{0,6}}\.?,? (?:&|and|or) \Z")


MONTH_BEFORE = frozenset("of due in since by until till from last next this early late mid every through".split())


def day_of_chat(found: Match) -> str | None:
    """Til fri."""
    name = found["day"].capitalize()
    sure = len(name) > 3 or around.word_before(found.string, found.start()) in CHAT_DAY_BEFORE
    return weekday(name) if sure else None


CHAT_DAY_BEFORE = frozenset("on by til till until next this since every from see".split())


def military(found: Match) -> str:
    """0900: oh nine hundred."""
    hour, minute = int(found["hour"]), int(found["minute"])
    return f"{'oh ' if hour < 10 else ''}{cardinal(hour)} {cardinal(minute) if minute else 'hundred'}"


def letters_of_days(found: Match) -> str | None:
    """M-Th, MWF, TTh."""
    names = [english.WEEK_LETTERS[day] for day in re.findall("T[hu]|S[au]|[MTWRF]", found[0])]
    return " to ".join(names) if re.search("[-–]", found[0]) else " ".join(names)


DAY_BEFORE = frozenset(
    "clsd on by until till next this last from every since before after eod closed open through and".split()
)


def quarter(found: Match) -> str:
    """2Q22."""
    part = "quarter" if found["part"] == "Q" else "half"
    return f"{ordinal(int(found['quarter']))} {part} {year(full_year(found['year']))}"


def shoulder(found: Match) -> str:
    """45°30'15"N: degrees, minutes and seconds."""
    words = [f"{number(found['degrees'])} {plural('degree', found['degrees'])}"]
    words.append(f"{cardinal(int(found['minutes']))} {plural('minute', found['minutes'])}")
    if found["seconds"]:
        words.append(f"{number(found['seconds'])} {plural('second', found['seconds'])}")
    if found["point"]:
        words.append(english.COMPASS[found["point"]].lower())
    return " ".join(words)


def added_time(found: Match) -> str:
    """45+2'."""
    return f"{cardinal(int(found['minute']))} plus {cardinal(int(found['added']))}"


def days_of_month(found: Match) -> str | None:
    """3/24–28."""
    if int(found["until"]) <= int(found["day"]) or not around.before(found.string, found.start()):
        return None
    return f"{date_words(int(found['day']), int(found['month']), None)} to {ordinal(int(found['until']))}"


def pace(found: Match) -> str:
    """8'42"/mi."""
    per = "kilometer" if found["per"] == "km" else "mile"
    return f"{cardinal(int(found['minute']))} minutes {cardinal(int(found['second']))} seconds per {per}"


def between_dates(found: Match) -> str | None:
    """Jan. 3 - Feb. 14."""
    return " to " if A_DAY.search(found.string[max(0, found.start() - 16) : found.start()]) else None


A_DAY = re.compile(rf"\b{SHORT_MONTH}[a-z]{{0,6}}\.? \d{{1,2}}\Z")


def between_times(found: Match) -> str:
    """Sat 23:00–Sun 3:00."""
    return f" to {weekday(found['day'])}"


RULES: tuple[Rule, ...] = (
    Rule("0", r"(?<![\w.])(?P<minute>\d{1,2})['’′](?P<second>[0-5]\d)[\"”″](?:/| per )(?P<per>mi|mile|km)\b",
         pace, "'’′"),
    Rule("0", r"(?<![\w.])(?P<degrees>\d{1,3}(?:\.\d+)?)° ?(?P<minutes>\d{1,2})['’′](?: ?(?P<seconds>\d{1,2}(?:\.\d+)?)"
         r"[\"”″](?: ?(?P<point>[NSEW])\b)?)?", shoulder, "°."),
    Rule("-–—", rf"(?:(?<=\d)|(?<=\d[ap])|(?<=[ap]m)|(?<=[AP]M))[-–—](?P<day>{SHORT_DAY})\b(?= \d)", between_times),
    Rule("0", r"(?<![\d/.-])(?P<month>1[0-2]|[1-9])/(?P<day>[12]\d|3[01]|[1-9])[-–]"
         r"(?P<until>[12]\d|3[01]|[1-9])(?![\d/.:%]|-\d)",
         days_of_month, "/"),
    Rule(" -–—", rf"(?<=\d) ?[-–—] ?(?={SHORT_MONTH}[a-z]{{0,6}}\.? \d)", between_dates),
    Rule("-–—", rf"(?<=[a-z.])[-–—](?=\d{{1,2}} (?:{SHORT_MONTH})[a-z]{{0,6}}\b)", lambda found: " to "),
    Rule("a", r"\b(?:M|T|Tu|W|Th|F|Sa|Su)(?:/(?:M|T|Tu|W|Th|F|Sa|Su)){1,4}(?=[,;.]|$| \d)", letters_of_days,
         words=("m", "t", "tu", "w", "th", "f", "sa", "su")),
    Rule("a", r"(?:\A|(?<=[;,(] ))(?P<day>[MWF])(?= \d{1,2}(?::\d\d)?[ap]?m?[-–]\d)",
         lambda found: english.WEEK_LETTERS[found["day"]],
         words=("m", "w", "f")),
    Rule("0", r"(?<![\w.])(?P<minute>\d{1,3})\+(?P<added>\d{1,2})['’′]", added_time, "+"),
    Rule("0", r"(?<![\w:.])(?P<minute>\d{1,2}):(?P<second>[0-5]\d)\.(?P<part>\d{1,3})(?![\w:])", lap, ":"),
    Rule("0", r"(?<![\d/.])(?P<month>1[0-2]|0?[1-9])/(?P<year>(?:19|20)\d\d)(?![\d/])"
         r"|(?<![\d/.] )(?<![\d/.])(?P<month2>0[1-9]) (?P<year2>20\d\d)(?! ?\d)",
         month_of_year, "/ "),
    Rule("0", r"(?:(?<=\bat )|(?<=\bby )|(?<=\bor )|(?<=\btil )|(?<=\btill )|(?<=\buntil )|(?<=\bfine ))"
         r"(?P<hour>1[0-2]|[1-9])\.(?P<minute>[0-5][05])(?P<half>)(?=[,;!?)]|\.?$|\.? (?!percent|"
         r"million|billion|per\b|for\b|point|[a-z]{1,2}\b(?!am|pm|in|on|at|if|or|so|to|is|we|i\b)))", dotted_hour, "."),
    Rule("0", r"(?<![\w.])(?P<quarter>[1-4])(?P<part>[QH])(?P<year>(?:20)?\d\d)\b", quarter, "a"),
    Rule("0", rf"\b(?P<year>{YEAR})(?:[-/](?P<month>0[1-9]|1[0-2])[-/](?P<day>0[1-9]|[12]\d|3[01])|/"
         rf"(?P<m>1[0-2]|[1-9])/(?P<d>[12]\d|3[01]|[1-9]))"
         rf"(?:[T ](?P<hour>{HOUR}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d{{1,9}})?)?(?P<zone>Z)?)?"
         r"(?![\d-])",
         iso_date, "-/"),
    Rule("0", rf"(?<![\d/.-])(?P<first>{DAY})/(?P<second>{DAY})/(?P<year>{YEAR}|\d\d)(?![\d/-])", slash_date, "/"),
    Rule("0", rf"(?<![\d/.-])(?P<first>{DAY})-(?P<second>{DAY})-(?P<year>{YEAR})(?![\d/-])", slash_date, "-"),
    Rule("0", rf"(?<![\d.])(?P<day>{DAY})\.(?P<month>1[0-2]|0?[1-9])\.(?P<year>{YEAR})(?![\d.]*\d)", dotted_date, "."),
    Rule("0", rf"\b(?:(?P<from>{DAY})(?:st|nd|rd|th)? ?[-–] ?)?(?P<day>{DAY})(?:st|nd|rd|th)? (?:of )?"
         rf"(?P<month>{MONTH_NAME})(?!\w)\.?(?:,? (?P<year>{YEAR})\b)?", day_first, " a-–"),
    Rule("a", rf"\b(?P<month>{MONTH_NAME})(?:\.? |-)(?P<day>{DAY})(?:st|nd|rd|th)?"
         rf"(?: ?[-–] ?(?P<until>{DAY})(?:st|nd|rd|th)?)?"
         rf"(?:(?:,? |-)(?P<year>{YEAR}))?(?![\w,.:%]*\d|[%:])", month_first,
         words=MONTH_WORDS),
    Rule("a", rf"\b(?P<month>{SHORT_MONTH})\.?,? (?P<year>{YEAR})\b", month_and_year, words=MONTH_WORDS),
    Rule("a", rf"\b(?P<month>{SHORT_MONTH})\.(?=[ ,])", lambda found: month(found["month"]), words=MONTH_WORDS),
    Rule("a", r"\b(?P<month>Jan|Feb|Apr|Aug|Sept|Oct|Nov|Dec)(?:(?=[ ,;!?)]|$)|\.$)(?! \d)",
         month_alone, words=MONTH_WORDS),
    Rule("a", r"\b(?:M|T|Tu|W|Th|F)[-–](?:Th|F|Sat?|Su|W)\b(?![-/])|\b(?:MWF|TTh|MTWThF)\b|(?<!\d )\b(?:MW|WF"
         r"|TR)\b(?= \d)", letters_of_days,
         words=("m", "t", "tu", "w", "th", "f", "mwf", "tth", "mtwthf", "mw", "wf", "tr")),
    Rule("0", r"(?<![\w.:$-])(?P<hour>[01]\d|2[0-3])(?P<minute>00|15|30|45)(?= ?(?:hours|hrs|h)\b)", military),
    Rule("0", r"(?:(?<=\bat )|(?<=\bfrom )|(?<=\bby )|(?<=\d{4}, ))(?P<hour>0\d)(?P<minute>00|15|30|45)\b", military),
    Rule("a", r"\b(?P<day>mon|tues?|weds?|thurs?|thu|fri)\b(?![.'’-]?\w)", day_of_chat, words=DAY_WORDS),
    Rule("a", r"\b(?P<day>Su|Mo|Tu|We|Th|Fr|Sa)(?= \d{1,2}(?::\d\d|[ap]\b|[ap]m|[-–]\d|/\d))",
         lambda found: weekday(found["day"]),
         words=("su", "mo", "tu", "we", "th", "fr", "sa")),
    Rule("a", rf"\b(?P<from>{SHORT_DAY}|{SHORT_MONTH})\.?(?P<sign>[-–/])(?P<until>{SHORT_DAY}|{SHORT_MONTH})\b\.?",
         short_range, words=MONTH_WORDS + DAY_WORDS),
    Rule("a", r"\b(?P<day>Mon|Tues?|Weds?|Thu(?:rs?)?|Fri|Sat)\.(?=[ ,])", lambda found: weekday(found["day"]),
         words=DAY_WORDS),
    Rule("a", rf"\b(?P<day>{SHORT_DAY})\b\.?(?!['’-])", weekday_alone, words=DAY_WORDS),
    Rule("0", r"(?<![\d:.])(?P<hour>1[0-2]|0?[1-9]):(?P<minute>[0-5]\d)(?P<half>[ap])(?![\w.])", dotted_clock, ":"),
    Rule("0", rf"(?<![\d:.])(?P<hour>{HOUR}):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
         rf"(?![\d:]|\.\d)(?:{HALF}| ?h(?:rs)?\b)?", clock, ":"),
    Rule("0", rf"(?<![\d:.])(?P<hour>1[0-2]|[1-9])\.(?P<minute>[0-5]\d){HALF}", dotted_clock, "."),
    Rule("0", r"(?<![\w:.$€£#–-])(?P<hour>1[0-2]|[1-9])(?P<half>[ap])(?![\w'’]|\.\w)|(?<=\d[ap][-–])(?P<hour2>1[0-2]"
         r"|[1-9])(?P<half2>[ap])(?!\w)", hour_of_half, "a"),
    Rule(":", r"(?<![\d:]):(?P<second>[0-5]\d)(?= (?:left|remaining|to go|to play|on the clock)\b)", seconds_left),
    Rule("0", r"(?<![\d:.])0{1,2}:(?P<second>[0-5]\d)(?= (?:left|remaining|to go|to play|on the clock)\b)",
         seconds_left,
         ":"),
    Rule("0", rf"(?<![\d.:])(?<!\d,)(?P<hour>1[0-2]|[1-9]){HALF}", noon, " a"),
    Rule("0", r"\b(?P<hour>1\d|2[0-3]|\d)h(?P<minute>[0-5]\d)\b",
         lambda found: time_words(int(found["hour"]), int(found["minute"])), "a"),
    Rule("0", r"\b(?:(?P<days>\d{1,4})d ?)?(?P<hours>\d{1,4}) ?(?:hrs?|h) ?(?P<minutes>\d{1,2}) ?(?:mins?|m)\b"
         r"(?: ?(?P<seconds>\d{1,2}) ?s\b)?", duration, " a"),
    Rule("0", r"\b(?P<days>)(?P<hours>)(?P<minutes>\d{1,4}) ?(?:mins?|m) ?(?P<seconds>\d{1,2}) ?(?:secs?|s)\b",
         duration,
         " a"),
    Rule("0", r"\b(?P<days>\d{1,4})d (?P<hours>\d{1,2})h\b(?P<minutes>)(?P<seconds>)", duration, "a"),
    Rule("0", r"(?<!\w)(?P<figure>10{1,3})s(?= of\b)", lambda found: ROUND[len(found["figure"])], "a"),
    Rule("0'’", r"(?<!\w)(?P<mark>['’]?)(?P<figure>(?:1[1-9]|20)?\d0)['’]?s\b", decade_or_seconds, "a'’"),
    Rule("0", r"(?:(?<=\b(?:the|The|ate) )|(?<=\b(?:rly|mid|Mid)[ -])|\A)(?P<figure>(?:1[89]|20)\d0) s\b",
         lambda found: decade(int(found["figure"])), " "),
)  # fmt: skip
