"""Bytes to text, strictly. A wrong byte is an error with its place, never a silent replacement character."""

import codecs

from omnitts_cli.errors import InputError, UsageError

BOMS = (  # the longer ones first: UTF-32-LE begins like UTF-16-LE
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
LONGEST_BOM = 4


class TextDecoder:
    """Decodes bytes as they arrive. Without `encoding`: what a byte order mark says, else UTF-8."""

    def __init__(self, encoding: str | None = None, name: str = "standard input") -> None:
        self._name = name
        self._head: bytes | None = b""  # bytes held until the mark is known; None afterwards
        self._given = encoding is not None
        self._encoding = checked_encoding(encoding) if encoding else "utf-8"
        self._decoder = codecs.getincrementaldecoder(self._encoding)("strict")
        self._fed = 0  # bytes handed to the codec
        self._held = 0  # of those, how many the codec keeps for the next call

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The characters that are complete. `final` refuses a character that is cut off at the end."""
        if self._head is not None:
            self._head += data
            if not final and self._mark_is_open(self._head):
                return ""
            data, self._head = self._without_mark(self._head), None
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise self._wrong_byte(error) from None
        self._fed += len(data)
        self._held = len(self._decoder.getstate()[0])
        return text

    def _mark_is_open(self, head: bytes) -> bool:
        """Whether these few bytes could still become a byte order mark."""
        return len(head) < LONGEST_BOM and any(mark != head and mark.startswith(head) for mark, _ in BOMS)

    def _without_mark(self, head: bytes) -> bytes:
        for mark, encoding in BOMS:
            if head.startswith(mark) and (not self._given or encoding == self._encoding.lower()):
                if not self._given:
                    self._encoding = encoding
                    self._decoder = codecs.getincrementaldecoder(encoding)("strict")
                self._fed = len(mark)
                return head[len(mark) :]
        return head

    def _wrong_byte(self, error: UnicodeDecodeError) -> InputError:
        offset = self._fed - self._held + error.start
        byte = error.object[error.start : error.start + 1].hex()
        return InputError(
            f"{self._name} is not {self._encoding} text: byte 0x{byte} at offset {offset}",
            cause=error.reason,
            hint="--encoding cp1252    or latin-1, gb18030, shift_jis, euc-kr, koi8-r ...",
        )


def checked_encoding(name: str) -> str:
    """The codec's own name, or a UsageError. Only codecs that make text of bytes."""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        raise UsageError(
            f"unknown --encoding '{name}'", hint="--encoding utf-8   or cp1252, utf-16, gb18030 ..."
        ) from None
    if not info._is_text_encoding or info.incrementaldecoder is None:
        raise UsageError(f"--encoding '{name}' is not a text encoding")
    return info.name


def decode(data: bytes, encoding: str | None = None, name: str = "the text") -> str:
    """The whole text of `data`."""
    return TextDecoder(encoding, name).feed(data, final=True)
