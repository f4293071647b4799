"""Build the documentation as a site, with every link checked: ``python docs/site/build.py [FOLDER]``.

The pages keep their places, so a link leads to the same file here, in an editor and on the site.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import recompose
from service.api import create_app
from service.daemon.daemon import Daemon
from service.daemon.store.store import DaemonStore
from service.daemon.supervision.runner_slot import LocalHost
from service.runner.runner import Runner

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "docs" / "site" / "mkdocs.yml"
FOLDERS = {
    "Guide": "docs/guide",
    "Connect": "docs/connect",
    "Operate": "docs/operate",
    "Apps": "docs/apps",
    "Research": "docs/research",
    "Decisions": "docs/decisions",
}
"""Tabs of the site, beside those that ``mkdocs.yml`` names."""
KINDS = (".md", ".py", ".yaml", ".ipynb", ".png", ".json", ".csv", ".service")


def lay_out(folder: Path) -> None:
    """Copy the documents into ``folder/pages``, and write the pages that are made from the code."""
    pages = folder / "pages"
    for part in ("docs", "deploy", "lab"):
        shutil.copytree(ROOT / part, pages / part, ignore=_no_document)
    shutil.rmtree(pages / "docs" / "site")
    for file in (*ROOT.glob("*.md"), ROOT / "LICENSE"):
        shutil.copy(file, pages)
    (pages / "reference").mkdir()
    (pages / "reference" / "python.md").write_text("\n".join(python_page()))
    (pages / "reference" / "rest.md").write_text("\n".join(rest_page(_openapi())))
    (folder / "mkdocs.yml").write_text("\n".join([CONFIG.read_text().rstrip(), *_nav(pages), ""]))
    (folder / "tree").symlink_to(ROOT)


def _no_document(folder: str, names: list[str]) -> list[str]:
    return [each for each in names if not (Path(folder, each).is_dir() or each.endswith(KINDS)) or each[:2] == "__"]


def _nav(pages: Path) -> Iterator[str]:
    for title, folder in FOLDERS.items():
        files = sorted((pages / folder).glob("*.md"), key=lambda file: (file.name != "README.md", file.name))
        yield f"  - {title}: [{', '.join(str(file.relative_to(pages)) for file in files)}]"
    yield "  - Reference: [reference/python.md, reference/rest.md]"


def python_page() -> Iterator[str]:
    """Yield the page of every name that ``recompose`` exports, from their docstrings."""
    yield "# Python\n\nEvery name can be imported from `recompose`.\n"
    for name in sorted(recompose.__all__, key=str.lower):
        value = getattr(recompose, name)
        module = getattr(value, "__module__", None)
        if isinstance(module, str) and hasattr(value, "__qualname__"):
            yield f"::: {module}.{value.__qualname__}\n"


def _openapi() -> dict[str, Any]:
    store = DaemonStore(None)
    try:
        return create_app(Daemon({}, LocalHost(Runner), store)).openapi()
    finally:
        store.close()


def rest_page(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the page of all routes, in the order of their paths; the service describes their bodies at ``/docs``."""
    yield "# REST\n\nThe service describes bodies and answers in full at `/docs` and `/openapi.json`.\n"
    yield "| request | meaning |\n|---|---|"
    for path, methods in sorted(document["paths"].items()):
        for method, route in methods.items():
            text = " ".join((route.get("description") or route["summary"]).split())
            yield f"| `{method.upper()} {path}` | {text.replace('|', '&#124;')} |"


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(target.resolve())]

        subprocess.run(mkdocs, cwd=folder, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
