"""Finds lines of text that nearly repeat an earlier one, by MinHash (Broder 1997)."""

from hashlib import blake2b
from pathlib import Path

from recompose import App, Stage, StageKind


class Repeats(App):
    name = "repeats"
    description = "Finds lines that nearly repeat one of the 50 lines before."
    stages = (Stage("shingle"), Stage("minhash"), Stage("match", StageKind.STATEFUL))

    def items(self, path):  # what source replay reads: the user's file, or this one
        return iter((path or Path(__file__)).read_text().splitlines())

    def shingle(self, line):
        text = " ".join(line.lower().split())
        return line, {text[k : k + 4] for k in range(max(1, len(text) - 3))}

    def minhash(self, value):  # by far the heaviest: let it run in parallel
        line, shingles = value
        seeds = [seed.to_bytes(16, "little") for seed in range(32)]
        return line, [min(blake2b(s.encode(), digest_size=8, salt=seed).digest() for s in shingles) for seed in seeds]

    def match(self, value, state):  # stateful: state is None before the first item, then what was returned last
        line, sketch = value
        seen = state or []
        scores = [sum(map(bytes.__eq__, sketch, other)) / len(sketch) for _, other in seen]
        best = max(range(len(seen)), key=scores.__getitem__, default=None)
        repeat = seen[best][0] if best is not None and scores[best] > 0.5 else None
        return {"line": line, "repeats": repeat}, [*seen, (line, sketch)][-50:]
