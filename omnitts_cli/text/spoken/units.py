"""Units of measurement and money: how they are written, and their names for one and for several."""

import re

UNITS = {
    # length, area, volume
    "km": "kilometer", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "μm": "micrometer",
    "nm": "nanometer", "m": "meter", "mi": "mile", "ft": "foot", "yd": "yard", "yds": "yard", "ha": "hectare",
    "l": "liter", "L": "liter", "dL": "deciliter", "dl": "deciliter", "cl": "centiliter", "ml": "milliliter",
    "mL": "milliliter", "gal": "gallon", "qt": "quart", "cc": "cubic centimeter", "tbsp": "tablespoon",
    "tsp": "teaspoon", "tsps": "teaspoon", "tbsps": "tablespoon", "Tbsp": "tablespoon", "tbs": "tablespoon",
    "pt": "pint", "pts": "point", "qts": "quart", "gals": "gallon", "fl oz": "fluid ounce", "sq ft": "square foot",
    "sq m": "square meter", "sq km": "square kilometer", "sq mi": "square mile", "sq in": "square inch",
    "sq yd": "square yard", "cu ft": "cubic foot", "cu in": "cubic inch", "cu m": "cubic meter",
    "cu yd": "cubic yard",
    "cups": "cup", "pm": "picometer", "dm": "decimeter", "hl": "hectoliter", "µl": "microliter",
    "μl": "microliter", "µL": "microliter", "μL": "microliter", "sqft": "square foot", "nmi": "nautical mile",
    "ly": "light year",
    # weight
    "kg": "kilogram", "mg": "milligram", "µg": "microgram", "μg": "microgram", "mcg": "microgram", "g": "gram",
    "lbs": "pound", "lb": "pound", "oz": "ounce", "ozs": "ounce", "kgs": "kilogram", "ng": "nanogram",
    "kt": "knot",
    "Mt": "megaton", "Da": "dalton", "kDa": "kilodalton",
    # things that are counted
    "doz": "dozen", "wkts": "wicket", "wkt": "wicket", "sts": "stitch", "dz": "dozen", "pc": "piece",
    "pcs": "piece", "pkg": "package", "pkgs": "package",
    "pr": "pair", "ct": "count",
    "pk": "pack", "pks": "pack", "pkt": "packet", "pkts": "packet", "bbl": "barrel", "bbls": "barrel",
    "req": "request", "reqs": "request", "reb": "rebound", "ast": "assist", "stl": "steal", "bps": "basis point",
    "bp": "basis point", "ppl": "person", "pg": "page", "pp": "page", "pgs": "page",
    # time
    "ms": "millisecond", "µs": "microsecond", "μs": "microsecond", "ns": "nanosecond", "hrs": "hour", "hr": "hour",
    "h": "hour", "mins": "minute", "min": "minute", "secs": "second", "sec": "second", "s": "second",
    "yrs": "year", "yr": "year", "wks": "week", "wk": "week", "mos": "month", "mo": "month", "Ga": "billion year",
    "Ma": "million year",
    # speed and frequency
    "mph": "mile per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour", "rpm": "revolution per minute",
    "bpm": "beat per minute", "fps": "frame per second", "mpg": "mile per gallon", "wpm": "word per minute",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "THz": "terahertz",
    "kn": "knot", "kts": "knot", "gtt": "drop", "gtts": "drop", "nts": "night",
    "sf": "square foot", "gpm": "gallon per minute", "lf": "linear foot", "mcL": "microliter",
    "mps": "meter per second",
    # data
    "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte",
    "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte", "TiB": "tebibyte", "kbit": "kilobit", "Mbit": "megabit",
    "Gbit": "gigabit", "Mb": "megabit", "Gb": "gigabit", "kb": "kilobit", "Tb": "terabit",
    "Tbps": "terabit per second",
    "kbps": "kilobit per second", "Mbps": "megabit per second", "Gbps": "gigabit per second",
    # energy, electricity, pressure
    "kWh": "kilowatt hour", "MWh": "megawatt hour", "GWh": "gigawatt hour", "Wh": "watt hour", "mAh": "milliamp hour",
    "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt", "mW": "milliwatt", "W": "watt", "kV": "kilovolt",
    "mV": "millivolt", "V": "volt", "mA": "milliamp", "A": "amp", "kΩ": "kilohm", "MΩ": "megohm", "Ω": "ohm",
    "kJ": "kilojoule", "J": "joule", "kcal": "kilocalorie", "cal": "calorie", "hp": "horsepower", "N": "newton",
    "hPa": "hectopascal", "kPa": "kilopascal", "Pa": "pascal", "psi": "pound per square inch", "mbar": "millibar",
    "bar": "bar", "mol": "mole", "mmol": "millimole", "µmol": "micromole", "μmol": "micromole", "nmol": "nanomole",
    "mM": "millimolar", "µM": "micromolar", "μM": "micromolar", "nM": "nanomolar", "msec": "millisecond",
    "mSv": "millisievert", "lx": "lux", "sqm": "square meter",
    "mmHg": "millimeter of mercury", "mEq": "milliequivalent", "IU": "international unit", "µF": "microfarad",
    "μF": "microfarad",
    "nF": "nanofarad", "pF": "picofarad", "mH": "millihenry", "µA": "microamp", "μA": "microamp", "µV": "microvolt",
    "μV": "microvolt", "MPa": "megapascal", "GPa": "gigapascal", "atm": "atmosphere", "kN": "kilonewton",
    "Nm": "newton meter", "VAC": "volt A C", "VDC": "volt D C", "eV": "electronvolt", "keV": "kiloelectronvolt",
    "MeV": "megaelectronvolt", "GeV":
    "gigaelectronvolt", "TeV": "teraelectronvolt", "kVA": "kilovolt amp", "Ah": "amp hour", "MJ": "megajoule", "TWh":
    "terawatt hour", "lm": "lumen", "mT": "millitesla", "dBm": "decibel milliwatt", "dBA": "decibel A",
    "dB": "decibel", "dBFS": "decibel full scale",
    # screens
    "px": "pixel", "dpi": "dot per inch", "ppi": "pixel per inch", "MP": "megapixel",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "ppm": "part per million",
}  # fmt: skip
UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))

# What may follow a slash after an amount: 5 dollars per month.
PER = {
    **UNITS, "month": "month", "mo": "month", "year": "year", "day": "day", "d": "day", "hour": "hour",
    "week": "week", "minute": "minute", "second": "second", "person": "person", "user": "user", "night": "night",
    "nt": "night", "cust": "customer", "txn": "transaction", "serving": "serving",
    "seat": "seat", "unit": "unit", "piece": "piece", "pc": "piece", "item": "item", "page": "page", "word": "word",
    "head": "head", "child": "child", "student": "student", "liter": "liter", "litre": "litre", "gallon": "gallon",
    "share": "share", "token": "token", "call": "call", "request": "request", "box": "box", "bag": "bag", "can": "can",
    "pack": "pack", "trip": "trip", "class": "class", "session": "session", "visit": "visit", "car": "car",
    "ticket": "ticket", "room": "room", "grp": "group", "team": "team", "game": "game", "side": "side",
    "group": "group", "customer": "customer", "household": "household", "guest": "guest", "order": "order",
    "adult": "adult", "family": "family", "patient": "patient", "employee": "employee", "member": "member",
    "vehicle": "vehicle", "dose": "dose", "match": "match", "account": "account", "device": "device",
    "barrel": "barrel", "pound": "pound", "ounce": "ounce", "mile": "mile", "wk": "week", "yr": "year",
}  # fmt: skip

MONEY = {
    "$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", ""), "₹": ("rupee",
    "paisa"),
    "₩": ("won", ""), "₽": ("ruble", "kopeck"), "₺": ("lira", ""), "₴": ("hryvnia", ""), "₪": ("shekel", ""),
    "₫": ("dong", ""), "฿": ("baht", ""), "₿": ("bitcoin", ""), "₱": ("peso", ""), "₦": ("naira", ""),
    "₡": ("colon", ""),
}  # fmt: skip
POINT_IN_THOUSANDS = "€"
"""Where amounts of money are often written 1.000."""
CURRENCIES = {
    "USD": "U S dollar", "EUR": "euro", "GBP": "British pound", "JPY": "Japanese yen", "CHF": "Swiss franc",
    "CAD": "Canadian dollar", "AUD": "Australian dollar", "INR": "Indian rupee", "CNY": "Chinese yuan",
    "RMB": "Chinese yuan", "KRW": "Korean won", "BRL": "Brazilian real", "MXN": "Mexican peso",
    "SEK": "Swedish krona", "NOK": "Norwegian krone", "DKK": "Danish krone", "PLN": "Polish zloty",
    "CZK": "Czech koruna", "RUB": "ruble", "ZAR": "South African rand", "SGD": "Singapore dollar",
    "HKD": "Hong Kong dollar", "NZD": "New Zealand dollar", "ILS": "shekel", "THB": "baht", "BTC": "bitcoin",
    "ETH": "ether", "Rs": "rupee", "R$": "real",
}  # fmt: skip
DOLLARS = {
    "US": "U S", "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian", "NZ": "New Zealand",
    "HK": "Hong Kong", "S": "Singapore",
}  # fmt: skip
LARGE = {
    "k": "thousand", "m": "million", "mn": "million", "mm": "million", "bn": "billion", "b": "billion",
    "tn": "trillion", "t": "trillion",
}  # fmt: skip

SAME_IN_PLURAL = {
    "yen", "hertz", "kilohertz", "megahertz", "gigahertz", "terahertz", "horsepower", "yuan", "won", "dong", "baht",
    "dozen", "rand", "bitcoin", "millimolar", "micromolar", "nanomolar", "lux", "ether", "naira", "count",
}  # fmt: skip
IRREGULAR = {
    "foot": "feet", "inch": "inches", "stitch": "stitches", "penny": "pence", "paisa": "paise", "real": "reais",
    "krona": "kronor",
    "krone": "kroner", "person": "people", "zloty": "zlotys", "koruna": "koruny",
}  # fmt: skip
BEFORE_THE_NOUN = ("U", "S", "British", "Japanese", "Swiss", "Canadian", "Australian", "Indian", "Chinese", "cubic",
                   "square", "kilowatt", "megawatt", "gigawatt", "terawatt", "watt", "milliamp", "New", "Zealand",
                   "Hong", "Kong", "Singapore", "Korean", "Brazilian", "Mexican", "Swedish", "Norwegian", "Danish",
                   "Polish",
                   "Czech", "South", "African", "fluid", "basis", "light", "nautical", "billion", "international",
                   "amp", "newton", "decibel", "kilovolt", "million", "linear")  # fmt: skip


def plural(unit: str, count: str) -> str:
    """The unit after a number: meter per second -> meters per second, unless there is exactly one."""
    if count in ("1", "1.0"):
        return unit
    words = unit.split(" ")
    at = 0
    while at < len(words) - 1 and words[at] in BEFORE_THE_NOUN and words[at + 1] not in ("per", "Celsius"):
        at += 1
    head = words[at]
    words[at] = head if head in SAME_IN_PLURAL else IRREGULAR.get(head, f"{head}s")
    return " ".join(words)


ANY_CASE = {
    unit.lower(): name for unit, name in UNITS.items()
    if unit.lower() in ("kg kgs km cm mm lb lbs oz tbsp tbs tsp ml mph kph rpm mbps kbps gbps hz khz mhz ghz dpi fps "
                        "psi kwh gb tb hrs mins secs yrs").split() and unit not in ("Gb", "Tb")
}  # fmt: skip
"""Units of more than one letter that are also written in capitals."""
WITH_STOP = {
    "in": "inch", "c": "cup", "T": "tablespoon", "t": "teaspoon", "ea": "each", "d": "day", "yd": "yard",
    "ac": "acre", "ga": "gauge", "inn": "inning", "bu": "bushel", "env": "envelope", "sh": "share", "ins": "inch",
    "cap": "capsule", "caps": "capsule", "tab": "tablet", "tabs": "tablet",
    "btl": "bottle",
}  # fmt: skip
"""Units only where a full stop and more of the sentence follow: 3 in. of rain."""


def unit_named(written: str) -> str | None:
    """The name of a unit as it is written, one that is written in other capitals too."""
    return UNITS.get(written) or (
        ANY_CASE.get(written.lower()) if written[1:] in (written[1:].lower(), written[1:].upper()) else None
    )
