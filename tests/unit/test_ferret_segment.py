"""Statistical Region Merging on pictures whose regions are plain to see, and the same labels from both kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.ferret.extract import SMALLEST, merge_bounds, neighbour_pairs, segment, sorted_pairs
from apps.ferret.loops.kernels import load_kernel

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
