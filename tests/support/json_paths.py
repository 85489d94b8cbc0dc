"""JSON objects with one value changed."""

import copy
from typing import Any


def put(whole: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with the value at "a.b.c" changed, or removed when it is `...`."""
    whole = copy.deepcopy(whole)
    *parents, key = path.split(".")
    place: Any = whole
    for parent in parents:
        place = place[parent]
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return whole
