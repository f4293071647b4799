"""A filter, a flat map, a stage that waits for others, and one that takes a bundle as a record batch."""

import asyncio

from apps.contract import App, Outputs
from compositions.model import Stage


class Prices(App):
    name = "prices"
    description = "Prices of the words of a line, the dear ones."
    stages = (
        Stage("words"),
        Stage("known"),
        Stage("look_up", concurrency=50),
        Stage("dear", batch=True, columns=(("word", "string"), ("price", "float64"))),
    )

    def items(self, path):
        return iter(["tea and coffee", "", "more tea"])

    def words(self, line):  # a generator: as many values as it yields
        yield from line.split()

    def known(self, word):  # Outputs() drops it
        return word if word in ("tea", "coffee") else Outputs()

    async def look_up(self, word):  # 50 calls at a time wait in one worker
        await asyncio.sleep(0.01)
        return {"word": word, "price": len(word) * 2.5}

    def dear(self, batch):  # all that a bundle has, as a pyarrow.RecordBatch
        return [Outputs([row]) if row["price"] > 10 else Outputs() for row in batch.to_pylist()]
