"""Schema: check the content of a file of a run folder before it is used.

A schema is one of these:
- a type, as in `registry.check_value`;
- the type and range of a number, as `Annotated[int, least, most]`;
- a list with the schema of its items;
- a dict with the schema of each key. A key that ends in "?" may be missing. "*" means all keys that are not named. Without "*",
  such keys are not checked, so that newer programs can add some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from dura.registry import check_value
from dura.text import shown
from dura.types import BadInput

WHOLE = Annotated[int, 0, 2**63 - 1]
"""A count, a step, a size."""
NUMBER = Annotated[float | None, -1e100, 1e100]
"""A number that can be drawn in a figure, or null if it was not finite."""


def check(value: Any, schema: Any, path: str = "") -> None:
    """Raise BadInput with one sentence about the first place at which the value does not fit the schema.

    >>> check({"epoch": 3, "more": "?"}, {"epoch": WHOLE, "loss?": float})
    >>> check({"valid": {"mrr": "x"}}, {"valid": {"*": float}})
    Traceback (most recent call last):
    dura.types.BadInput: valid.mrr must be a number, not the text 'x'
    """
    if isinstance(schema, Mapping):
        _check_keys(value, schema, path)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise BadInput(f"{path or 'it'} must be a list, not {shown(value)}")
        for at, item in enumerate(value):
            check(item, schema[0], f"{path}[{at}]")
    elif get_origin(schema) is Annotated:
        kind, least, most = get_args(schema)
        check_value(value, kind, path)
        if value is not None and not least <= value <= most:
            span = f"at least {least}" if math.isinf(most) or most == 2**63 - 1 else f"from {least} to {most}"
            raise BadInput(f"{path} must be {span}, not {shown(value)}")
    else:
        check_value(value, schema, path)


def _check_keys(value: Any, schema: Mapping[str, Any], path: str) -> None:
    if not isinstance(value, dict):
        raise BadInput(f"{path or 'it'} must be an object with keys, not {shown(value)}")
    inner = f"{path}." if path else ""
    for key, kind in schema.items():
        name = key.removesuffix("?")
        if key == "*":
            named = {known.removesuffix("?") for known in schema}
            for other in [other for other in value if other not in named]:
                check(value[other], kind, f"{inner}{shown(other)[1:-1]}")
        elif name in value:
            check(value[name], kind, f"{inner}{name}")
        elif name == key:
            raise BadInput(f"it has no {inner}{name}")
