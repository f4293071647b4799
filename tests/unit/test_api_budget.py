"""``/budget`` over HTTP: what is set is answered, and what is refused says why."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import detail

NONE = {"workers": None, "cores": None, "apps": {}, "accepted_at": None, "shares": {}}


def test_set_read_and_lift(running: TestClient) -> None:
    assert running.get("/budget").json() == NONE
    asked = {"workers": 8.0, "apps": {"synthetic": {"priority": 2}}}
    answer = running.put("/budget", json=asked).json()
    assert (answer["workers"], answer["cores"], answer["shares"]) == (8, None, {})
    assert answer["apps"] == {"synthetic": {"priority": 2, "floor": 0}}
    assert running.get("/budget").json() == answer
    assert running.put("/budget", json={"cores": 1.5}).json()["cores"] == 1.5
    assert running.delete("/budget").status_code == 204
    assert running.delete("/budget").status_code == 204
    assert running.get("/budget").json() == NONE


def test_null_lifts_it(client: TestClient) -> None:
    client.put("/budget", json={"workers": 8})
    assert client.put("/budget", content=b"null", headers={"content-type": "application/json"}).json() == NONE


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "a budget needs workers, cores or both; null, or recompose budget --lift, removes it"),
        ({"workers": 0}, "greater than or equal to 1"),
        ({"workers": 2.5}, "integer"),
        ({"cores": -1}, "greater than 0"),
        ({"workers": 8, "apps": {"synthetic": {"priority": 0}}}, "greater than 0"),
        ({"workers": 8, "apps": {"synthetic": {"floor": 9}}}, "the floors are 9 workers together; the budget is 8"),
        ({"workers": 1, "apps": {"synthetic": {"floor": 1.5}}}, "the floors are 2 workers together; the budget is 1"),
        ({"cores": 2, "apps": {"synthetic": {"floor": 3}}}, "the floors are 3 cores together; the budget is 2 cores"),
        ({"workers": 8, "apps": {"words": {}}}, "there is no app 'words'; registered are synthetic"),
        ({"workers": 8, "money": 3}, "money"),
    ],
)
def test_what_is_refused(client: TestClient, body: Any, sentence: str) -> None:
    assert sentence in detail(client.put("/budget", json=body), 422)
    assert client.get("/budget").json() == NONE
