"""Draw the moving picture of the README from a real run: `python docs/recording.py`.

Each command of ``COMMANDS`` is run in a checkout; what it prints becomes the lines of an SVG with an animation in CSS, which
a browser, and a page of a repository, plays without a script.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "terminal.svg"
COMMANDS = (
    'callmemaybe call "How much is 250 EUR in JPY?" --tools data/input/functions_definition.json',
    'callmemaybe call "Is it warm in the kitchen?" --tools examples/gateway_home.py --run --yes read',
    'callmemaybe call "Open the door for 2 minutes" --tools examples/gateway_home.py --run',
)
#: Characters of a line, pixels of a character and of a line.
WIDTH, CHARACTER, LINE = 104, 8.4, 20
#: Seconds before a line of output appears, after a command, and at the end of all.
OUTPUT, COMMAND, END = 0.25, 1.6, 4.0
STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d6deeb; white-space: pre; opacity: 0 }
.command { fill: #82dbb0 }
"""


def lines_of(command: str, folder: Path) -> list[str]:
    """Return what a command prints, both streams as a terminal shows them."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "CALLMEMAYBE_CONFIG": "", "COLUMNS": str(WIDTH)}
    done = subprocess.run(
        shlex.split(command), cwd=folder, env=environment, stdin=subprocess.DEVNULL, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout.splitlines()


def drawing(shown: list[tuple[float, str, str]], seconds: float) -> str:
    """Return the SVG of lines with the second at which each appears, and its class."""
    height = (len(shown) + 1) * LINE + 10
    rules, texts = [STYLE], []
    for number, (start, kind, line) in enumerate(shown):
        share = 100 * start / seconds
        rules.append(
            f"@keyframes l{number} {{ 0%, {share:.2f}% {{ opacity: 0 }} {share + 0.01:.2f}%, 99.5% {{ opacity: 1 }} }}\n"
            f"#l{number} {{ animation: l{number} {seconds:.1f}s infinite }}\n"
        )
        y = (number + 1) * LINE + 8
        texts.append(f'<text id="l{number}" class="{kind}" x="16" y="{y}">{escape(line)}</text>\n')
    # Who wants no motion sees all lines at once.
    rules.append(
        "@media (prefers-reduced-motion: reduce) { text { animation: none !important; opacity: 1 } }\n"
    )
    width = WIDTH * CHARACTER + 32
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        'aria-label="A terminal: requests in plain words become calls, and are run">\n'
        f"<style>{''.join(rules)}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#0f1a24"/>\n{"".join(texts)}</svg>\n'
    )


def wrapped(line: str) -> list[str]:
    """Return a line in pieces that fit the picture."""
    return [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)] or [""]


def main() -> None:
    """Run the commands, and draw."""
    shown: list[tuple[float, str, str]] = []
    now = 0.5
    with tempfile.TemporaryDirectory() as folder:
        for name in ("data", "examples"):
            (Path(folder) / name).symlink_to(ROOT / name)
        for command in COMMANDS:
            shown += [(now, "command", part) for part in wrapped(f"$ {command}")]
            now += COMMAND
            for line in lines_of(command, Path(folder)):
                shown += [(now, "output", part) for part in wrapped(line)]
                now += OUTPUT
            now += COMMAND
            shown.append((now, "output", ""))
    PICTURE.write_text(drawing(shown[:-1], now + END), encoding="utf-8")


if __name__ == "__main__":
    main()
