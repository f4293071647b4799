"""Check what the stages of Ferret compute, on pictures and features whose answer is known."""

import colorsys
from math import floor, log, sqrt
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from apps.ferret.extract import FEATURE_WEIGHTS, extract, segment
from apps.ferret.load import decode_photo, resize, to_hsv
from apps.ferret.loops.kernels import KernelName, load_kernel
from apps.ferret.lsh import Buckets, Projections, RegionIndex, draw_projections, load_projections
from compositions.errors import RecomposeError


def test_resizing_agrees_with_another_lanczos_filter_on_a_smooth_picture() -> None:
    ramp = np.add.outer(np.linspace(0, 120, 128), np.linspace(0, 120, 128))
    picture = np.repeat(ramp[..., None], 3, axis=2).astype(np.uint8)
    larger = cv2.resize(picture, (256, 256), interpolation=cv2.INTER_LANCZOS4)
    inner = (slice(4, -4), slice(4, -4))
    assert np.abs(resize(larger)[inner].astype(int) - picture[inner]).max() <= 1


def test_hsv_agrees_with_the_standard_library() -> None:
    colours = np.random.default_rng(2).integers(0, 256, (500, 3), dtype=np.uint8)
    colours = np.concatenate((colours, [[0, 0, 0], [255, 255, 255], [9, 9, 9]])).astype(np.uint8)
    wanted = np.array([colorsys.rgb_to_hsv(*(colour / 255)) for colour in colours]) * 255
    found = to_hsv(colours[None])[0]
    assert np.abs(found - wanted).max() < 1.001  # rounded down, never up
    assert (found <= wanted + 1e-3).all()


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff\xe0broken"])
def test_what_is_no_picture_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(RecomposeError, match=r"holiday\.jpg cannot be decoded as a picture; give JPEG, PNG"):
        decode_photo(data, "holiday.jpg")


# Statistical Region Merging on pictures whose regions are plain to see, and the same labels from both kernels.


Picture = NDArray[np.uint8]

EXACT = load_kernel("exact")


def noisy(seed: int) -> Picture:
    """Four colours with noise, so that merging has something to decide."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (4, 4, 3))
    return np.clip(coarse.repeat(32, 0).repeat(32, 1) + random.normal(0, 12, (128, 128, 3)), 0, 255).astype(np.uint8)


def test_halves_of_different_colour_are_two_regions_numbered_from_the_top_left() -> None:
    picture = np.full((128, 128, 3), (255, 0, 0), np.uint8)
    picture[:, 60:] = (0, 0, 255)
    labels = segment(picture, EXACT)
    assert (labels[:, :60] == 0).all()
    assert (labels[:, 60:] == 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_both_kernels_find_the_same_regions(seed: int) -> None:
    labels = segment(noisy(seed), EXACT)
    assert labels.max() > 2
    assert (segment(noisy(seed), load_kernel("fast")) == labels).all()


def test_the_features_of_a_rectangle() -> None:
    labels = np.zeros((128, 128), np.uint16)
    labels[10:30, 20:100] = 1
    hsv = np.zeros((128, 128, 3), np.uint8)
    hsv[10:30, 20:100] = (51, 102, 255)
    weights, features = extract(hsv, labels, EXACT)
    wanted = [0.2, 0, 0, 0.4, 0, 0, 1, 0, 0, log(80 / 20), 1, log(1600), 19, 59]
    assert features[1] / FEATURE_WEIGHTS == pytest.approx(wanted, rel=1e-6)
    around = sqrt(128 * 128 - 1600)
    assert weights == pytest.approx([around / (around + 40), 40 / (around + 40)], rel=1e-6)


def test_both_kernels_extract_the_same_features() -> None:
    random = np.random.default_rng(5)
    labels = random.integers(0, 6, (16, 16)).astype(np.uint16).repeat(8, 0).repeat(8, 1)
    hsv = random.integers(0, 256, (128, 128, 3), dtype=np.uint8)
    for plain, compiled in zip(extract(hsv, labels, EXACT), extract(hsv, labels, load_kernel("fast")), strict=True):
        assert (plain == compiled).all()


# The Earth Mover's Distance against OpenCV's, and what a distance must obey.


Regions = tuple[NDArray[Any], NDArray[Any]]


def regions(random: np.random.Generator, count: int) -> Regions:
    weights = random.random(count).astype(np.float32) + np.float32(0.01)
    return weights / weights.sum(), (random.standard_normal((count, 14)) * 2).astype(np.float32)


def distance(a: Regions, b: Regions, name: KernelName = "exact") -> float:
    kernel = load_kernel(name)
    arrays = [part.astype(float).ravel() for part in (*a, *b)]
    result = kernel.sequence(np.zeros(1))
    kernel.distances(*map(kernel.sequence, arrays), kernel.sequence(np.array([0, len(b[0])])), result)
    return float(result[0])


@pytest.mark.parametrize("seed", range(25))
def test_it_agrees_with_opencv_and_between_kernels_to_the_last_bit(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = regions(random, int(random.integers(1, 36))), regions(random, int(random.integers(1, 36)))
    wanted, _, _ = cv2.EMD(np.column_stack(a), np.column_stack(b), cv2.DIST_L2)
    assert distance(a, b) == pytest.approx(wanted, rel=5e-6)
    assert distance(a, b, "fast") == distance(a, b)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_it_is_a_metric(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b, c = (regions(random, int(random.integers(1, 8))) for _ in range(3))
    assert distance(a, a) == 0
    assert distance(a, b) == pytest.approx(distance(b, a), rel=1e-9)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9


# Hashing regions: every bucket number against the formula, and near regions against a search of all of them.


DRAWN = draw_projections()


def features(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 2, (count, 14)).astype(np.float32)


def arrays_of(projections: Projections) -> dict[str, NDArray[np.generic]]:
    keys = ("alpha", "beta", "rnd", "W", "H")
    return {key: np.asarray(value) for key, value in zip(keys, projections, strict=True)}


def test_bucket_numbers_follow_the_formula() -> None:
    (x,) = features(1)
    wanted = []
    for table in range(8):
        hashes = range(table * 17, table * 17 + 17)
        slots = [floor((float(DRAWN.alpha[j] @ x) + float(DRAWN.beta[j])) / float(DRAWN.width[table])) for j in hashes]
        mixed = sum(int(r) * slot for r, slot in zip(DRAWN.mixers[table], slots, strict=True))
        wanted.append(mixed % 2**32 % DRAWN.buckets)
    assert DRAWN.bucket_numbers(x[None]).tolist() == [wanted]


def test_with_one_bucket_for_all_the_nearest_of_all_regions_are_found() -> None:
    database, queries = features(200), features(3, seed=1)
    all_in_one = Buckets(np.tile(np.arange(200, dtype=np.int32), (8, 1)), np.zeros((8, 200), np.int32))
    near = RegionIndex(database, DRAWN._replace(buckets=1), all_in_one).near(queries, keep=4)
    apart = np.linalg.norm(database[None].astype(float) - queries[:, None], axis=2)
    assert set(near.tolist()) == set(np.argsort(apart, axis=1)[:, :4].ravel().tolist())


@pytest.mark.parametrize("fault", ["missing file", "no npz", "torn npz", "missing array", "wrong shape", "too few"])
def test_projections_that_do_not_fit_are_refused_with_a_sentence(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "p.npz"
    arrays = arrays_of(DRAWN)
    if fault == "missing array":
        del arrays["beta"]
    if fault == "wrong shape":
        arrays["beta"] = arrays["beta"][:5]
    if fault == "too few":
        arrays.update(alpha=arrays["alpha"][:17], beta=arrays["beta"][:17], rnd=arrays["rnd"][:1], W=arrays["W"][:1])
    if fault == "no npz":
        path.write_text("alpha")
    elif fault != "missing file":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    if fault == "torn npz":
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(RecomposeError, match=r"p\.npz' holds no projections .* of at least 8 tables"):
        load_projections(path)
