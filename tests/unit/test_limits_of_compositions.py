"""How many compositions and workers there may be, and what is said beyond."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from compositions.document.loader import load
from compositions.errors import CompositionError
from compositions.model import Stage
from compositions.rules import MAX_COMPOSITIONS
from service.daemon import compositions as choices
from service.daemon.checks import WORKERS_PER_CORE
from service.daemon.compositions import Compositions
from service.runner.validation.resolution import available_cores
from service.schemas.compositions import Choice

YAML = {"content-type": "application/yaml"}
PATIENCE_S = 10.0


def document(first: int, count: int) -> str:
    listed = "".join(f"  - {{name: c{n}, notation: Seq-Seq-Seq}}\n" for n in range(first, first + count))
    return f"app: synthetic\ncompositions:\n{listed}"


def test_a_document_lists_as_many_as_an_app_may_have() -> None:
    stages = {"synthetic": [Stage("f1"), Stage("f2"), Stage("f3")]}
    with pytest.raises(CompositionError, match="compositions: 10,001 are listed; an app may have 10,000"):
        load(document(0, MAX_COMPOSITIONS + 1), stages)


def test_a_group_of_a_million_workers_is_refused() -> None:
    with pytest.raises(CompositionError, match="replicas is 1000000; it must be at least 1 and at most 1,000"):
        load("app: a\ncompositions: [{name: x, notation: Par*1000000}]", {"a": [Stage("f1")]})


def test_posts_do_not_add_up_beyond_the_limit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "MAX_COMPOSITIONS", 100)
    assert client.post("/compositions", content=document(0, 60), headers=YAML).status_code == 200
    refused = client.post("/compositions", content=document(60, 60), headers=YAML)
    assert refused.status_code == 422
    assert "at most 100 are kept, remove some" in refused.json()["detail"]
    assert client.post("/compositions", content=document(0, 60), headers=YAML).status_code == 200, "replaced"


def after(names: list[str]) -> dict[str, str]:
    return {"after": names[-1]} if names else {}


def test_a_listing_comes_in_pages(client: TestClient) -> None:
    answer = client.post("/compositions", content=document(0, 1050), headers=YAML).json()
    assert len(answer) == 1000
    names: list[str] = []
    while page := client.get(
        "/compositions/synthetic", params={"limit": 400, **({"after": names[-1]} if names else {})}
    ).json():
        assert len(page) <= 400
        names += [each["name"] for each in page]
    assert len(names) == len(set(names)) >= 1050
    every = client.get("/compositions", params={"limit": 2, "after": f"synthetic/{names[1]}"}).json()
    assert [each["name"] for each in every] == names[2:4]


def test_a_page_after_nothing_is_refused(client: TestClient) -> None:
    refused = client.get("/compositions/synthetic", params={"after": "nothing"})
    assert refused.status_code == 404
    assert "after = 'nothing': there is no such composition" in refused.json()["detail"]


def test_more_workers_than_the_machine_bears_are_not_pinned(client: TestClient) -> None:
    most = available_cores() * WORKERS_PER_CORE
    groups = "[{{stages: [f1], replicas: {}}}, {{stages: [f2]}}, {{stages: [f3]}}]"
    both = {"most": groups.format(most - 2), "more": groups.format(most - 1)}
    text = "app: synthetic\ncompositions:\n"
    text += "".join(f"  - {{name: {name}, groups: {each}}}\n" for name, each in both.items())
    assert client.post("/compositions", content=text, headers=YAML).status_code == 200
    sentence = f"composition 'more' has {most + 1:,} workers; on {available_cores()} cores an app may have {most:,}"
    refused = client.post("/apps/synthetic/start", json={"composition": "more", "mode": "pinned"})
    assert refused.status_code == 422
    assert sentence in refused.json()["detail"]
    assert client.post("/apps/synthetic/start", json={}).status_code == 200
    refused = client.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "more"})
    assert refused.status_code == 422
    assert sentence in refused.json()["detail"]
    assert client.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "most"}).status_code == 200


def test_a_document_is_read_beside_the_event_loop(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one took 378 ms in which nobody else was answered."""
    reading, go_on = threading.Event(), threading.Event()

    def add(self: Compositions, text: bytes) -> list[Choice]:
        reading.set()
        assert go_on.wait(PATIENCE_S), "nobody was answered while it was read"
        return []

    monkeypatch.setattr(Compositions, "add", add)
    with ThreadPoolExecutor(1) as beside:
        posted = beside.submit(client.post, "/compositions", content=document(0, 1), headers=YAML)
        assert reading.wait(PATIENCE_S)
        assert client.get("/healthz").status_code == 200
        go_on.set()
        assert posted.result().status_code == 200
