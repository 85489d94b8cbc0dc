"""misaki's American dictionary (hexgrad, Apache-2.0) -> the compact file that `text/american` looks words up in.

    python -m omnitts_cli.training.dictionary --lexicon FOLDER

FOLDER holds `lexicon_us_gold.json.gz` and `lexicon_us_silver.json.gz`, as packaged in hibari-tts 0.2.1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

from omnitts_cli.text.american.dictionary import SPACE, write

Readings = str | dict[str, str | None]


def misaki(folder: Path) -> tuple[dict[str, Readings], dict[str, Readings]]:
    """The checked words (gold) and the others (silver), as packaged in hibari-tts 0.2.1."""
    gold, silver = (
        json.loads(gzip.decompress((folder / f"lexicon_us_{name}.json.gz").read_bytes())) for name in ("gold", "silver")
    )
    return gold, silver


def entries(gold: dict[str, Readings], silver: dict[str, Readings], own: dict[str, str]) -> dict[str, str]:
    """Every word with its line of the file. Our own words replace misaki's."""
    found = {word: line(readings, "-") for word, readings in silver.items()}
    found |= {word: line(readings, "") for word, readings in gold.items()}
    for word in own:
        found.pop(word.lower(), None)
        found.pop(word.capitalize(), None)
    return found | own


def line(readings: Readings, mark: str) -> str:
    if isinstance(readings, str):
        return mark + sounds(readings)
    tagged = [f"{tag}:{sounds(spoken or '')}" for tag, spoken in readings.items() if tag != "DEFAULT"]
    return " ".join([mark + sounds(readings["DEFAULT"] or ""), *tagged])


def sounds(spoken: str) -> str:
    """Tapped t as Kokoro hears it; a glottal stop is a t."""
    return spoken.replace("ɾ", "T").replace("ʔ", "t")


def own_words() -> dict[str, str]:
    """Our additions: names and words of technology."""
    text = (Path(__file__).parent / "own_words.txt").read_text(encoding="utf-8")
    rows = (row.split("\t") for row in text.splitlines() if row and not row.startswith("#"))
    return {word: " ".join(spoken.replace(" ", SPACE) for spoken in readings) for word, *readings in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lexicon", type=Path, required=True, help="folder of misaki's files")
    given = parser.parse_args()
    path = Path(__file__).parents[1] / "text" / "american" / "words.bin"
    made = entries(*misaki(given.lexicon), own_words())
    write(path, made.items())
    sys.stdout.write(f"{len(made)} words, {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
