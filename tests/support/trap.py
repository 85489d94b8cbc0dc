"""A pickle that makes a file where it is opened: the sign that a stranger's code was run."""

from pathlib import Path


class Trap:
    """Unpickling this makes the file `marker`."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (str(self.marker), "w"))
