"""Stands in for the Spark driver: batches of ten rows, results into a file. Arguments: a folder, a file descriptor.
The folder's file ``rows`` has their number; a file ``die`` makes the driver die once, after that many results."""

import json
import os
import sys
from multiprocessing.connection import Client, Connection
from pathlib import Path

from datapipe.spark.messages import Begin, Begun, Deliver, Durable, Ended, Failed, Fetch, Key, Ready, Setup

folder, connection = Path(sys.argv[1]), Connection(int(sys.argv[2]))
setup = connection.recv()
assert isinstance(setup, Setup)
if (folder / "fails").exists():
    connection.send(Failed("no such format"))
    sys.exit(1)
if (folder / "crashes").exists():
    sys.exit("out of order")
done = folder / "done"
count = int((folder / "rows").read_text())


def written() -> list[str]:
    return done.read_text().splitlines() if done.exists() else []


def die_if_asked(results: int) -> None:
    ask = folder / "die"
    if ask.exists() and results >= int(ask.read_text()):
        ask.unlink()
        os._exit(9)


while len(written()) < count:
    batch = len(written()) // 10
    key, durable = Key("q", batch), len(written()) % 10
    connection.send(Begin(key, durable))
    while not isinstance(answer := connection.recv(), Begun):
        pass
    for partition in range(2):
        with Client(setup.door, "AF_UNIX") as executor:
            executor.send(Deliver(answer.number, partition))
            known = executor.recv()
            rows = [json.dumps({"n": batch * 10 + partition * 5 + row}) for row in range(known, 5)]
            executor.send(rows)
            executor.send(5)
            die_if_asked(len(written()))
            if not partition:  # the last answer does not come while the app takes no rows
                executor.recv()
    while durable < 10:
        message = connection.recv()
        if isinstance(message, Ready):
            with Client(setup.door, "AF_UNIX") as executor:
                executor.send(Fetch(answer.number, durable, message.until - durable))
                texts = executor.recv()
            die_if_asked(len(written()) + len(texts))
            with done.open("a") as file:
                file.writelines(text + "\n" for text in texts)
            durable += len(texts)
            connection.send(Durable(key, durable))
connection.send(Ended())
