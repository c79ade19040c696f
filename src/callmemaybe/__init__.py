"""Natural language in, function calls one can rely on out."""

from __future__ import annotations

__version__ = "0.1.0"
