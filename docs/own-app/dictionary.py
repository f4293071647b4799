"""Show what is built once, what is loaded by every worker, and what is tried again."""

import json
import tempfile
from pathlib import Path

from apps.contract import App
from compositions.model import Stage


class Dictionary(App):
    name = "dictionary"
    description = "Looks words up."
    stages = (Stage("look_up"),)

    def __init__(self):  # self.options is there already
        self.file = Path(tempfile.gettempdir()) / "recompose-dictionary.json"

    def prepare(self):  # once, in the runner, before any worker starts
        self.file.write_text(json.dumps({"one": "eins", "two": "zwei"}))

    def setup(self):  # once in each worker, before its first item
        self.words = json.loads(self.file.read_text())

    def items(self, path):
        return iter(["one", "two", "three"])

    def look_up(self, word):  # KeyError: tried twice more, then a dead letter in its place
        return self.words[word]
