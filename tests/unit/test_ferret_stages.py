"""What the stages of Ferret compute, on pictures and features whose answer is known."""

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

from apps.ferret.extract import (
    FEATURE_WEIGHTS,
    SMALLEST,
    colour_moments,
    extract,
    merge_bounds,
    neighbour_pairs,
    region_weights,
    segment,
    sorted_pairs,
)
from apps.ferret.load import decode_photo, lanczos_windows, read_photo, resize, to_hsv
from apps.ferret.loops.emd import distances, grow_box, transport_cost
from apps.ferret.loops.kernels import KernelName, load_kernel
from apps.ferret.lsh import Projections, RegionIndex, draw_projections, load_projections
from compositions.errors import RecomposeError

# Pictures in: resize and colour space, on pictures whose result is known.


@pytest.mark.parametrize("length", [1, 3, 96, 128, 129, 481, 2000])
def test_windows_lie_within_the_picture_and_their_weights_sum_to_one(length: int) -> None:
    starts, sizes, weights = lanczos_windows(length)
    assert starts.min() >= 0
    assert (starts + sizes).max() <= length
    assert weights.sum(axis=1) == pytest.approx(np.ones(128), abs=1e-6)


@pytest.mark.parametrize("shape", [(96, 128), (128, 96), (7, 300), (1, 1)])
def test_a_plain_picture_keeps_its_colour_in_any_shape(shape: tuple[int, int]) -> None:
    resized = resize(np.full((*shape, 3), (10, 200, 255), np.uint8))
    assert resized.shape == (128, 128, 3)
    assert (resized == (10, 200, 255)).all()


def test_a_picture_of_the_right_size_stays_as_it_is() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (128, 128, 3), dtype=np.uint8)
    assert (resize(picture) == picture).all()


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


def test_a_photo_read_from_a_file_is_that_picture_in_rgb(tmp_path: Path) -> None:
    bgr = np.zeros((100, 150, 3), np.uint8)
    bgr[..., 0] = 200  # blue in OpenCV's order
    cv2.imwrite(str(tmp_path / "blue.png"), bgr)
    photo = read_photo(tmp_path / "blue.png", "blue.png")
    assert (photo.rgb == (0, 0, 200)).all()
    assert (photo.hsv == (170, 255, 200)).all()


@pytest.mark.parametrize("data", [b"", b"no picture", b"\xff\xd8\xff\xe0broken"])
def test_what_is_no_picture_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(RecomposeError, match=r"holiday\.jpg is no picture that can be decoded; JPEG, PNG"):
        decode_photo(data, "holiday.jpg")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecomposeError, match=r"gone\.jpg cannot be read: No such file"):
        read_photo(tmp_path / "gone.jpg", "gone.jpg")


# Statistical Region Merging on pictures whose regions are plain to see, and the same labels from both kernels.


Picture = NDArray[np.uint8]


def plain(*colour: int) -> Picture:
    return np.full((128, 128, 3), colour, np.uint8)


def noisy(seed: int) -> Picture:
    """Four colours with noise, so that merging has something to decide."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (4, 4, 3))
    return np.clip(coarse.repeat(32, 0).repeat(32, 1) + random.normal(0, 12, (128, 128, 3)), 0, 255).astype(np.uint8)


def labels_of(picture: Picture) -> NDArray[np.uint16]:
    return segment(picture, load_kernel("exact"))


def test_a_plain_picture_is_one_region() -> None:
    assert (labels_of(plain(50, 100, 150)) == 0).all()


def test_halves_of_different_colour_are_two_regions_numbered_from_the_top_left() -> None:
    picture = plain(255, 0, 0)
    picture[:, 60:] = (0, 0, 255)
    labels = labels_of(picture)
    assert (labels[:, :60] == 0).all()
    assert (labels[:, 60:] == 1).all()


def test_noise_does_not_split_a_region() -> None:
    noise = np.random.default_rng(3).normal(0, 6, (128, 128, 3))
    picture = np.clip(plain(120, 120, 120) + noise, 0, 255).astype(np.uint8)
    assert labels_of(picture).max() == 0


@pytest.mark.parametrize(("side", "regions"), [(8, 1), (9, 2)])  # 64 and 81 pixels
def test_a_region_is_kept_from_81_pixels_on(side: int, regions: int) -> None:
    picture = plain(255, 255, 255)
    picture[40 : 40 + side, 40 : 40 + side] = 0
    assert side * side < SMALLEST or regions == 2
    assert labels_of(picture).max() + 1 == regions


def test_every_pair_of_neighbours_is_looked_at_once() -> None:
    first, second = neighbour_pairs()
    assert len(first) == 2 * 128 * 127
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == len(first)
    assert set((second - first).tolist()) == {1, 128}


def test_the_pairs_of_the_last_column_and_row_come_last() -> None:
    first, second = neighbour_pairs()
    assert list(zip(first[:3].tolist(), second[:3].tolist(), strict=True)) == [(0, 1), (0, 128), (1, 2)]
    assert (first[-254], second[-254]) == (127, 255)
    assert (first[-1], second[-1]) == (128 * 128 - 2, 128 * 128 - 1)


def test_equally_different_pairs_stay_in_order_and_similar_ones_come_first() -> None:
    picture = plain(0, 0, 0)
    picture[0, 0] = (0, 7, 3)  # its two pairs, the first two otherwise, now come last
    first, second = sorted_pairs(picture)
    wanted_first, wanted_second = neighbour_pairs()
    assert (first == np.roll(wanted_first, -2)).all()
    assert (second == np.roll(wanted_second, -2)).all()


def test_from_256_pixels_on_a_larger_region_merges_less_easily() -> None:
    bounds = merge_bounds()
    assert bounds[1] == pytest.approx(256 * (np.log(2) + 2 * np.log(6 * 128 * 128)))
    assert (np.diff(bounds[256:]) < 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_both_kernels_find_the_same_regions(seed: int) -> None:
    labels = labels_of(noisy(seed))
    assert labels.max() > 2
    assert (segment(noisy(seed), load_kernel("fast")) == labels).all()


# Features of regions that are simple enough to know them.


EXACT = load_kernel("exact")


def pixels_of(rows: range, columns: range) -> list[int]:
    return [row * 128 + column for row in rows for column in columns]


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


def test_moments_agree_with_their_definitions() -> None:
    colours = np.random.default_rng(4).integers(0, 256, (700, 3)).astype(np.float32)
    apart = colours.astype(float) - colours.mean(axis=0, dtype=float)
    spread, lean = np.sqrt((apart**2).mean(axis=0)), np.cbrt((apart**3).mean(axis=0))
    wanted = np.stack((colours.mean(axis=0), spread, lean), axis=1) / 255
    assert colour_moments(colours) == pytest.approx(wanted, abs=1e-4)


def test_the_box_of_a_filled_rectangle_is_the_rectangle() -> None:
    assert grow_box(pixels_of(range(5, 9), range(30, 41)), 128) == (5, 8, 30, 40, 44)


def test_a_few_outliers_do_not_widen_the_box() -> None:
    body = pixels_of(range(60, 80), range(60, 80))
    # The first pixel of the body is still taken into the outlier's box, found too sparse, and set aside with it.
    assert grow_box([3, *body], 128) == (60, 79, 60, 79, 399)


def test_many_outliers_do() -> None:
    blob, body = pixels_of(range(5), range(10)), pixels_of(range(100, 110), range(100, 110))
    assert grow_box(blob + body, 128) == (0, 109, 0, 109, 150)


def test_a_box_filled_to_exactly_15_percent_goes_on_growing() -> None:
    first, second, third = 0, 1, 128 + 9  # the third makes a box of 2×10 that 3 of 20 pixels fill
    fourth = 5 * 128 + 9
    assert grow_box([first, second, third, fourth], 128) == (0, 5, 0, 9, 4)


def test_region_weights_are_shares_of_the_square_roots() -> None:
    sizes = np.array([100, 400, 15884])
    total = 10 + 20 + sqrt(15884)
    assert region_weights(sizes) == pytest.approx([10 / total, 20 / total, sqrt(15884) / total], rel=1e-6)


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


def test_several_sets_are_measured_in_one_call() -> None:
    random = np.random.default_rng(7)
    one, others = regions(random, 5), [regions(random, count) for count in (3, 1, 6)]
    weights = np.concatenate([weights for weights, _ in others]).astype(float).tolist()
    features = np.concatenate([features for _, features in others]).astype(float).ravel().tolist()
    results = [0.0] * 3
    distances(
        one[0].astype(float).tolist(), one[1].astype(float).ravel().tolist(), weights, features, [0, 3, 4, 10], results
    )
    assert results == [distance(one, other) for other in others]


def test_a_later_row_takes_back_what_an_earlier_one_has_sent() -> None:
    # The first row's cheapest column is the only cheap one of the second row: 0.5·2 + 0.5·1, not 0.5·1 + 0.5·9.
    assert transport_cost([0.5, 0.5], [0.5, 0.5], [1.0, 2.0, 1.0, 9.0]) == 1.5


def test_equal_costs_and_equal_masses_end() -> None:
    share = [1 / 8] * 8
    assert transport_cost(share.copy(), share.copy(), [1.0] * 64) == 1.0


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


def test_a_region_is_near_itself_and_the_answer_ascends_without_doubles() -> None:
    database = features(300)
    index = RegionIndex(database, DRAWN)
    near = index.near(database[[7, 250, 7]], keep=5)
    assert {7, 250} <= set(near.tolist())
    assert near.tolist() == sorted(set(near.tolist()))


def test_with_one_bucket_for_all_the_nearest_of_all_regions_are_found() -> None:
    database, queries = features(200), features(3, seed=1)
    near = RegionIndex(database, DRAWN._replace(buckets=1)).near(queries, keep=4)
    apart = np.linalg.norm(database[None].astype(float) - queries[:, None], axis=2)
    assert set(near.tolist()) == set(np.argsort(apart, axis=1)[:, :4].ravel().tolist())


def test_of_equally_near_regions_the_first_are_kept() -> None:
    database = np.repeat(features(1), 6, axis=0)
    assert RegionIndex(database, DRAWN).near(database[:1], keep=3).tolist() == [0, 1, 2]


def test_a_region_whose_buckets_are_empty_has_no_neighbours() -> None:
    assert RegionIndex(features(5), DRAWN).near(features(1, seed=9) + np.float32(1000), keep=3).tolist() == []


def test_projections_are_read_from_a_file_and_only_8_tables_are_used(tmp_path: Path) -> None:
    twelve = Projections(
        np.concatenate((DRAWN.alpha, DRAWN.alpha[:68])),
        np.concatenate((DRAWN.beta, DRAWN.beta[:68])),
        np.concatenate((DRAWN.mixers, DRAWN.mixers[:4])),
        np.full(12, 4.0708, np.float32),
        DRAWN.buckets,
    )
    np.savez(tmp_path / "twelve.npz", **arrays_of(twelve))  # type: ignore[arg-type]
    loaded = load_projections(tmp_path / "twelve.npz")
    assert (loaded.bucket_numbers(features(9)) == DRAWN.bucket_numbers(features(9))).all()


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


def test_drawing_is_seeded() -> None:
    assert (draw_projections().alpha == DRAWN.alpha).all()
    assert (draw_projections(1).alpha != DRAWN.alpha).any()
