"""Units of measurement and money: how they are written, and their names for one and for several."""

from __future__ import annotations

import re

UNITS = {
    # length, area, volume
    "km": "kilometer", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "μm": "micrometer",
    "nm": "nanometer", "m": "meter", "mi": "mile", "ft": "foot", "yd": "yard", "yds": "yard", "ha": "hectare",
    "l": "liter", "L": "liter", "dL": "deciliter", "dl": "deciliter", "cl": "centiliter", "ml": "milliliter",
    "mL": "milliliter", "gal": "gallon", "qt": "quart", "cc": "cubic centimeter", "tbsp": "tablespoon",
    "tsp": "teaspoon",
    # weight
    "kg": "kilogram", "mg": "milligram", "µg": "microgram", "μg": "microgram", "mcg": "microgram", "g": "gram",
    "lbs": "pound", "lb": "pound", "oz": "ounce",
    # time
    "ms": "millisecond", "µs": "microsecond", "μs": "microsecond", "ns": "nanosecond", "hrs": "hour", "hr": "hour",
    "h": "hour", "mins": "minute", "min": "minute", "secs": "second", "sec": "second", "s": "second",
    "yrs": "year", "yr": "year", "wks": "week", "wk": "week", "mos": "month",
    # speed and frequency
    "mph": "mile per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour", "rpm": "revolution per minute",
    "bpm": "beat per minute", "fps": "frame per second", "mpg": "mile per gallon", "wpm": "word per minute",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "THz": "terahertz",
    # data
    "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte",
    "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte", "TiB": "tebibyte", "kbit": "kilobit", "Mbit": "megabit",
    "Gbit": "gigabit", "kbps": "kilobit per second", "Mbps": "megabit per second", "Gbps": "gigabit per second",
    # energy, electricity, pressure
    "kWh": "kilowatt hour", "MWh": "megawatt hour", "GWh": "gigawatt hour", "Wh": "watt hour", "mAh": "milliamp hour",
    "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt", "mW": "milliwatt", "W": "watt", "kV": "kilovolt",
    "mV": "millivolt", "V": "volt", "mA": "milliamp", "A": "amp", "kΩ": "kilohm", "MΩ": "megohm", "Ω": "ohm",
    "kJ": "kilojoule", "J": "joule", "kcal": "kilocalorie", "cal": "calorie", "hp": "horsepower", "N": "newton",
    "hPa": "hectopascal", "kPa": "kilopascal", "Pa": "pascal", "psi": "pound per square inch", "mbar": "millibar",
    "bar": "bar", "mol": "mole", "dB": "decibel", "dBFS": "decibel full scale",
    # screens
    "px": "pixel", "dpi": "dot per inch", "ppi": "pixel per inch", "MP": "megapixel",
    "°C": "degree Celsius", "°F": "degree Fahrenheit", "°": "degree", "ppm": "part per million",
}  # fmt: skip
UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))

# What may follow a slash after an amount: 5 dollars per month.
PER = {
    **UNITS, "month": "month", "mo": "month", "year": "year", "day": "day", "d": "day", "hour": "hour", "week": "week",
    "minute": "minute", "second": "second", "person": "person", "user": "user", "night": "night", "seat": "seat",
    "unit": "unit", "piece": "piece", "pc": "piece", "item": "item", "page": "page", "word": "word", "head": "head",
    "child": "child", "student": "student", "liter": "liter", "litre": "litre", "gallon": "gallon", "share": "share",
    "token": "token", "call": "call", "request": "request",
}  # fmt: skip
PER_WORD = "|".join(re.escape(unit) for unit in sorted(PER, key=len, reverse=True))

MONEY = {
    "$": ("dollar", "cent"), "€": ("euro", "cent"), "£": ("pound", "penny"), "¥": ("yen", ""), "₹": ("rupee", "paisa"),
}  # fmt: skip
CURRENCIES = {
    "USD": "U S dollar", "EUR": "euro", "GBP": "British pound", "JPY": "Japanese yen", "CHF": "Swiss franc",
    "CAD": "Canadian dollar", "AUD": "Australian dollar", "INR": "Indian rupee", "CNY": "Chinese yuan",
}  # fmt: skip
DOLLARS = {"US": "U S", "A": "Australian", "AU": "Australian", "C": "Canadian", "CA": "Canadian", "NZ": "New Zealand",
           "HK": "Hong Kong", "S": "Singapore"}  # fmt: skip
LARGE = {"k": "thousand", "m": "million", "mn": "million", "mm": "million", "bn": "billion", "b": "billion",
         "tn": "trillion", "t": "trillion"}  # fmt: skip

SAME_IN_PLURAL = {"yen", "hertz", "kilohertz", "megahertz", "gigahertz", "terahertz", "horsepower", "yuan"}
IRREGULAR = {"foot": "feet", "inch": "inches", "penny": "pence", "paisa": "paise"}
BEFORE_THE_NOUN = ("U", "S", "British", "Japanese", "Swiss", "Canadian", "Australian", "Indian", "Chinese", "cubic",
                   "square", "kilowatt", "megawatt", "gigawatt", "watt", "milliamp", "New", "Zealand", "Hong", "Kong",
                   "Singapore")  # fmt: skip


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
