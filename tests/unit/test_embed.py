"""Embed: its model does not depend on the bundle, says what photos have in common, and is the same on a GPU."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.embed import Embed, EmbedOptions
from apps.embed.model import Form, Mixer, arrays_on
from apps.samples import sample_photos
from compositions.errors import RecomposeError
from compositions.model import Composition, Group, loads_of


def app(**options: Any) -> Embed:
    made = Embed(EmbedOptions(side=64, width=64, layers=2, **options))
    made.setup(["decode", "embed"])
    return made


@pytest.fixture(scope="module")
def photos() -> list[bytes]:
    return list(Embed().items(sample_photos()))[:12]


def test_a_vector_has_length_one_and_does_not_depend_on_the_bundle(photos: list[bytes]) -> None:
    embed = app()
    images = [embed.decode(photo) for photo in photos]
    together = embed.embed(images)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1.0, abs=1e-5)
    for image, vector in zip(images, together, strict=True):
        assert embed.embed([image])[0] == pytest.approx(vector, abs=1e-5)
    assert embed.encode_result(together[0]) == pytest.approx(together[0].tolist(), abs=1e-6)


def test_a_photo_is_nearer_to_itself_a_little_darker_than_to_others(photos: list[bytes]) -> None:
    embed = app()
    images = [embed.decode(photo) for photo in photos[::4]]
    darker = [(0.9 * image).astype(np.uint8) for image in images]
    near = np.stack(embed.embed(images)) @ np.stack(embed.embed(darker)).T
    assert (near.argmax(axis=1) == np.arange(len(images))).all()


def test_only_workers_that_infer_load_the_model_and_reserve_a_gpu() -> None:
    embed = Embed(EmbedOptions(device="cuda", share=0.25))
    embed.setup(["decode"])
    assert not hasattr(embed, "_model")
    assert [stage.gpus for stage in embed.stages] == [0.0, 0.25]
    assert [loads_of([stage]) for stage in embed.stages] == [(), ("embed",)]
    assert [stage.gpus for stage in Embed().stages] == [0.0, 0.0]
    crew = Composition("c", (Group(("decode",), replicas=3), Group(("embed",), replicas=2))).crew(embed.stages)
    assert crew == {(): 3, ("embed",): 2}


def test_what_is_no_photo_is_refused_with_a_sentence(tmp_path: Path) -> None:
    embed = app()
    with pytest.raises(ValueError, match="cannot decode these 4 bytes"):
        embed.decode(b"text")
    with pytest.raises(ValueError, match="push the bytes of a photo's file"):
        embed.from_binary(np.zeros(3))
    with pytest.raises(ValueError, match="application/octet-stream"):
        embed.from_json({})
    with pytest.raises(RecomposeError, match="has no photos; give a folder with"):
        embed.items(tmp_path)
    with pytest.raises(ValueError, match="must be a multiple of 16"):
        EmbedOptions(side=100)


def test_without_a_gpu_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    with pytest.raises(RecomposeError, match="device cuda fails"):
        arrays_on("cuda", 0)


def test_a_gpu_gives_the_same() -> None:
    try:
        arrays_on("cuda", 0)
    except RecomposeError as error:
        pytest.skip(str(error))
    images: NDArray[np.uint8] = np.random.default_rng(0).integers(0, 256, (9, 64, 64, 3), np.uint8)
    one, other = (Mixer(Form(64, 64, 2), 0, device)(images) for device in ("cpu", "cuda"))
    assert one == pytest.approx(other, abs=1e-5)
