"""What the site needs beside the pages in docs/: the pages of the root, the full API, and llms.txt.

Pages link to files of the repository as a checkout has them. The site has the pages of the root, too; a link to any other file
of the repository becomes its text, since the site does not know where its repository is published.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ROOT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
#: Where pictures are drawn that pages in docs/ show.
PICTURES = "benchmarks/results"
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(<code>)~?")
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, and one with the docstrings of all public names."""
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        # These stand a folder above the others.
        text = re.sub(r"\]\(docs/", "](", text)
        files.append(File.generated(config, name, content=text))
    for picture in sorted((ROOT / PICTURES).glob("*.svg")):
        files.append(File.generated(config, f"pictures/{picture.name}", abs_src_path=str(picture)))
    files.append(File.generated(config, "reference/api.md", content=_api()))
    files.append(File.generated(config, "llms.txt", content=_llms(config)))
    return files


def _api() -> str:
    import callmemaybe

    names = "".join(
        f"\n::: callmemaybe.{name}\n" for name in sorted(callmemaybe.__all__) if name[0] != "_"
    )
    return f"# API\n\nAll public names with their docstrings; [Python](python.md) tells what they are for.\n{names}"


def _llms(config: Any) -> str:
    """Return the index for language models: each page with its title, in the form of llmstxt.org."""
    lines = [f"# {config.site_name}\n", f"> {config.site_description}\n", "## Docs\n"]
    pages = {name: ROOT / name for name in ROOT_PAGES}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        pages[path.relative_to(ROOT / "docs").as_posix()] = path
    for name, path in pages.items():
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        address = PurePosixPath(name).with_suffix(".html")
        if address.stem == "README":  # of a folder; the site calls it so
            address = address.with_name("index.html")
        lines.append(f"- [{title}]({address})")
    lines.append("- [API: all public names with their docstrings](reference/api.html)")
    return "\n".join(lines) + "\n"


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the roles that docstrings give to names, which Markdown shows as text: ``:meth:``."""
    return _ROLE.sub(r"\1", html)


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Point links to the root's pages at those of the site, and make others that leave it their text."""
    folder = PurePosixPath(page.file.src_uri).parent

    def rewritten(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        path = normpath(str(folder / target))
        if path.startswith("../"):
            path = path.removeprefix("../")
            if path.startswith(PICTURES) and path.endswith(".svg"):
                return f"[{text}]({'../' * len(folder.parts)}pictures/{PurePosixPath(path).name})"
            if path not in ROOT_PAGES:
                return text
            return f"[{text}]({'../' * len(folder.parts)}{path}{anchor})"
        is_here = files.get_file_from_path(path) is not None
        return found[0] if is_here or page.file.src_uri not in ROOT_PAGES else text

    return _LINK.sub(rewritten, markdown)
