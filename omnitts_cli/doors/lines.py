"""Lines of a protocol on the standard streams: read with a limit, written whole by several threads."""

import threading
from typing import BinaryIO


class LineStreams:
    """The two streams. A line that is too long is cut, so that its length is `most`."""

    def __init__(self, source: BinaryIO, out: BinaryIO, most: int) -> None:
        self._source, self._out, self.most = source, out, most
        self._writing = threading.Lock()

    def read(self) -> bytes | None:
        """The next line without its end; None at the end of the input, also within a line."""
        line = rest = self._source.readline(self.most + 1)
        while rest and not rest.endswith(b"\n"):
            rest = self._source.readline(self.most + 1)
        return line.rstrip(b"\n")[: self.most] if rest else None

    def write(self, data: bytes) -> None:
        """Writes all of it."""
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[self._out.write(view) :]
            self._out.flush()
