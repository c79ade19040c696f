"""The program's entry point."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    raise SystemExit("callmemaybe: the commands are being built")
