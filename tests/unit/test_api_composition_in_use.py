"""What runs and what can be chosen by its name are one and the same composition."""

import pytest
from fastapi.testclient import TestClient
from synthetic_daemon import PUSHED, WIDE, YAML, detail, known

from compositions.document import loader


@pytest.fixture
def pinned(running: TestClient) -> TestClient:
    running.put("/apps/synthetic/mode", json={"mode": "pinned", "composition": "7"})
    return running


def test_the_composition_that_runs_cannot_become_another_one(pinned: TestClient) -> None:
    before = known(pinned)
    other = WIDE.replace(b"}]", b'}, {name: "7", notation: "Seq(f1,f2,f3)"}]')
    expected = (
        "'7' is the active composition of synthetic; switch to another one first, or give the new one another name"
    )
    assert detail(pinned.post("/compositions", content=other, headers=YAML), 409) == expected
    assert known(pinned) == before


def test_the_composition_that_runs_can_be_sent_again_as_it_is(pinned: TestClient) -> None:
    (seven,) = [each for each in pinned.get("/compositions/synthetic").json() if each["name"] == "7"]
    same = f'app: synthetic\ncompositions: [{{name: "7", notation: "{seven["notation"]}"}}]\n'
    assert pinned.post("/compositions", content=same, headers=YAML).status_code == 200


def test_the_active_composition_is_the_one_that_can_be_chosen_by_its_name(pinned: TestClient) -> None:
    """Also when its file says something else by now: that is for the next start."""
    compositions = pinned.app.state.daemon.compositions  # type: ignore[attr-defined]
    wide = loader.load(WIDE.replace(b"wide", b'"7"'), compositions.stages).compositions
    compositions.load_directory({"synthetic": wide})
    active = pinned.get("/status/synthetic").json()["composition"]
    (listed,) = [each for each in pinned.get("/compositions/synthetic").json() if each["active"]]
    assert {key: listed[key] for key in active} == active
    pinned.post("/apps/synthetic/stop")
    pinned.post("/apps/synthetic/start", json=PUSHED | {"composition": "7"})
    assert pinned.get("/status/synthetic").json()["composition"]["notation"] == "Par*4(f1,f2,f3)"
