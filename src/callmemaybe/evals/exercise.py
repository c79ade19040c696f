"""The five functions of the public exercise, run to compare what comes out.

Its grader calls the function and compares outputs, so that another regular expression that does the
same is right. A written expression may run forever, so it runs in a process of its own.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

#: Seconds for one regular expression.
PATIENCE = 5.0
_SUBSTITUTE = (
    "import json, re, sys; print(json.dumps(re.sub(*json.loads(sys.stdin.buffer.read().decode()))))"
)


def output(name: str, arguments: Mapping[str, Any]) -> object:
    """Return what the function returns; None if it is none of the five, or fails."""
    function = _FUNCTIONS.get(name)
    if function is None:
        return None
    try:
        return function(**arguments)
    except (ArithmeticError, TypeError, ValueError, AttributeError, OSError):
        return None


def _substitute(source_string: str, regex: str, replacement: str) -> object:
    import json

    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _SUBSTITUTE],
            input=json.dumps([regex, replacement, source_string]).encode(),
            capture_output=True,
            timeout=PATIENCE,
            check=True,
        )
    except subprocess.SubprocessError:
        return None
    return json.loads(done.stdout)


_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "fn_add_numbers": lambda a, b: float(a) + float(b),
    "fn_greet": lambda name: f"Hello, {name}!",
    "fn_reverse_string": lambda s: s[::-1],
    "fn_get_square_root": lambda a: math.sqrt(float(a)),
    "fn_substitute_string_with_regex": _substitute,
}
