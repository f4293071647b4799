"""Kafka to embeddings to a vector table: ``python embeddings.py [kafka://HOST:9092/TOPIC]``."""

import json
import sqlite3
import sys
import zlib

import numpy as np
from confluent_kafka import Producer

from recompose import Stage, pipeline, run

TEXTS = ["a red apple", "a green apple", "the night train", "the train to Rome", "an apple pie", "Rome at night"]
WIDTH = 256


def mock_topic() -> tuple[Producer, str]:
    """Return a Kafka cluster inside this process, and the address of a topic with the texts."""
    producer = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    for number, text in enumerate(TEXTS):
        producer.produce("texts", json.dumps({"id": number, "text": text}), partition=0)
    producer.flush()
    return producer, f"kafka://{broker.host}:{broker.port}/texts"


def clean(message):
    return {"id": message["id"], "text": message["text"].strip().lower()}


def vectors(texts):
    """Embed by hashed words and letters. For a model: ``return MODEL.encode(texts)``, once for the whole bundle."""
    table = np.zeros((len(texts), WIDTH), np.float32)
    for row, text in zip(table, texts, strict=True):
        parts = [*text.split(), *(text[k : k + 3] for k in range(len(text) - 2))]
        np.add.at(row, [zlib.crc32(part.encode()) % WIDTH for part in parts], 1)
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def embed(messages):
    found = vectors([message["text"] for message in messages])
    return [{**message, "vector": row} for message, row in zip(messages, found, strict=True)]


app = pipeline(clean, (Stage("embed", batch=True), embed))

if __name__ == "__main__":
    cluster, topic = (None, sys.argv[1]) if len(sys.argv) > 1 else mock_topic()
    table = sqlite3.connect("vectors.db")
    table.execute("CREATE TABLE IF NOT EXISTS vectors (id INTEGER PRIMARY KEY, text TEXT, vector BLOB)")
    for result in run(app, source=topic, items=len(TEXTS), pool="local"):
        row = result.value
        table.execute("REPLACE INTO vectors VALUES (?, ?, ?)", (row["id"], row["text"], row["vector"].tobytes()))
    table.commit()
    texts, blobs = zip(*table.execute("SELECT text, vector FROM vectors"), strict=True)
    scores = np.stack([np.frombuffer(blob, np.float32) for blob in blobs]) @ vectors(["apple"])[0]
    for place in np.argsort(-scores)[:3]:
        print(f"{scores[place]:.2f}  {texts[place]}")
