"""Documents to text to chunks to a search index: ``python documents.py [FOLDER]``, with files .html, .md or .txt."""

import sqlite3
import sys
from html.parser import HTMLParser
from pathlib import Path

from recompose import pipeline, run

WORDS, OVERLAP = 40, 10
PAGES = {
    "tea.html": "<style>p {}</style><h1>Tea</h1><p>Green tea is steeped for two minutes at 75 degrees.</p>",
    "coffee.md": "# Coffee\n\nGrind the beans, and pour water at 94 degrees over them in circles.",
    "water.txt": "Soft water suits tea. Hard water leaves a film on tea, and makes coffee bitter.",
}


class Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.parts, self._tag = [], ""

    def handle_starttag(self, tag, attrs):
        self._tag = tag

    def handle_data(self, data):
        if self._tag not in ("script", "style"):
            self.parts.append(data)


def text(path):
    content = Path(path).read_text(errors="replace")
    if path.endswith(".html"):
        parser = Text()
        parser.feed(content)
        content = " ".join(parser.parts)
    return path, content.split()


def chunks(document):
    """Yield overlapping runs of words; each goes on by itself."""
    path, words = document
    for start in range(0, max(1, len(words) - OVERLAP), WORDS - OVERLAP):
        yield {"file": Path(path).name, "word": start, "text": " ".join(words[start : start + WORDS])}


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pages")
    if len(sys.argv) == 1:
        folder.mkdir(exist_ok=True)
        for name, page in PAGES.items():
            (folder / name).write_text(page)
    files = sorted(str(file) for file in folder.rglob("*") if file.suffix in (".html", ".md", ".txt"))
    index = sqlite3.connect(":memory:")
    index.execute("CREATE VIRTUAL TABLE chunks USING fts5(file, word UNINDEXED, text)")
    for result in run(pipeline(text, chunks), source=files, pool="local"):
        index.execute("INSERT INTO chunks VALUES (:file, :word, :text)", result.value)
    for row in index.execute("SELECT file, snippet(chunks, 2, '[', ']', '…', 8) FROM chunks('degrees') ORDER BY rank"):
        print(*row, sep=": ")
