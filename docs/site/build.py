"""Build the documentation as a site, with every link checked: ``python docs/site/build.py [FOLDER]``.

The pages keep their places, so a link leads to the same file here, in an editor and on the site. ``FOLDER`` gets
``VERSION/`` and its copy ``latest/``; other versions that are there stay, and the page offers all of them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
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
BEHIND = ("ARCHITECTURE.md", "CHANGELOG.md", "docs/decisions", "docs/research", "lab", "reference")
"""Pages that a search lists behind the others: they use most words of the product, and explain few."""
KINDS = (".md", ".py", ".yaml", ".ipynb", ".png", ".gif", ".json", ".csv", ".service", ".conf")


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
    for page in (
        page for place in BEHIND for page in (pages / place, *(pages / place).rglob("*.md")) if page.is_file()
    ):
        page.write_text(f"---\nsearch: {{boost: 0.1}}\n---\n{page.read_text()}")
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
    number = version("recompose")
    with tempfile.TemporaryDirectory() as folder:
        lay_out(Path(folder))
        mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str((target / number).resolve())]
        subprocess.run(mkdocs, cwd=folder, check=True)
    publish(target, number)


def publish(target: Path, number: str) -> None:
    """Make version ``number`` the latest of those in ``target``, and the one to which its root leads."""
    shutil.rmtree(target / "latest", ignore_errors=True)
    shutil.copytree(target / number, target / "latest")
    file = target / "versions.json"
    others = [each for each in json.loads(file.read_text()) if each["version"] != number] if file.exists() else []
    earlier = [{**each, "aliases": []} for each in others]
    file.write_text(json.dumps([{"version": number, "title": number, "aliases": ["latest"]}, *earlier], indent=1))
    (target / "index.html").write_text(
        '<!doctype html><title>Recompose</title><meta http-equiv="refresh" content="0; url=latest/">'
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "site"))
