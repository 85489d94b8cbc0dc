"""Turns arriving text into ids: returns those that later text cannot change, and holds back the rest."""

from omnitts_cli.families.common.tokenizer import TextTokenizer, printable

SHORT = 64  # characters that are looked at again with every piece of text


class Arriving:
    """Tokenises text piece by piece; the ids of all pieces are those of the whole text, stripped.

    Text that is held back is tokenised again with each piece. To stay linear in the length of the text,
    a long run without a space (thousands of characters) is tokenised again only after it has grown by a
    quarter.
    """

    def __init__(self, tokenizer: TextTokenizer, first: str = "", language: str | None = None) -> None:
        """`first`, the beginning of the text, tells its language where `language` does not."""
        self._tokenizer = tokenizer
        self._input = tokenizer.input.arriving(first, language) if tokenizer.input else None
        self._held: list[str] = []
        self._length = 0
        self._begun = False
        self._look_at = 1  # length of the held text at which it is tokenised again

    def write(self, text: str) -> list[int]:
        """The ids that became certain."""
        return self._write(text if self._input is None else self._input.write(text))

    def _write(self, text: str) -> list[int]:
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        self._held.append(printable(text))
        self._length += len(text)
        if self._length < self._look_at:
            return []
        held = self._tokenizer.normal("".join(self._held))
        certain = self._tokenizer.settled(held)
        return self._tokenizer.encode(self._keep(held, certain))

    def _keep(self, held: str, certain: int) -> str:
        """Holds back the end that later text may change; returns the rest."""
        rest = held[certain:]
        self._held, self._length = [rest], len(rest)
        self._look_at = 1 if len(rest) < SHORT else len(rest) * 5 // 4
        return held[:certain]

    def close(self) -> list[int]:
        """The ids of everything held back; white space at the end is dropped."""
        certain = [] if self._input is None else self._write(self._input.close())
        rest, self._held, self._length = "".join(self._held).rstrip(), [], 0
        return [*certain, *self._tokenizer.encode(rest)]
