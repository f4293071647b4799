"""How well bundles kept to a target: the thesis's four metrics, by hand and on its own examples."""

import numpy as np
import pytest

from lab.papers.leonarczyk.grid import bundle_figures


def test_by_hand() -> None:
    """Target 10, band 9 … 11. Hits: 9 (4 items) and 11 (2), of 4 bundles and 10 items.
    Distances 1, 1, 4, 2: their mean is 2, the mean of their squares 22 / 4 = 5.5."""
    figures = bundle_figures([9, 11, 14, 8], [4, 2, 1, 3], target_s=10, threshold=0.1)
    assert figures is not None
    assert figures.batched_hit == 0.5
    assert figures.itemized_hit == 0.6
    assert figures.mad_distance == pytest.approx(0.2)
    assert figures.sd_distance == pytest.approx(5.5**0.5 / 10)


def test_table_4_2_of_the_thesis() -> None:
    """Five bundles of 6 and five of 14: half of the bundles either way, 30 or 70 % of the items."""
    sizes = [6] * 5 + [14] * 5
    small, large = [1.0] * 5 + [2.0] * 5, [2.0] * 5 + [1.0] * 5
    for latencies, share in ((small, 0.3), (large, 0.7)):
        figures = bundle_figures(latencies, sizes, target_s=1.0, threshold=0.05)
        assert figures is not None
        assert (figures.batched_hit, figures.itemized_hit) == (0.5, pytest.approx(share))


@pytest.mark.parametrize("bundles", [10, 1000])
def test_sd_distance_is_a_standard_deviation_around_the_target(bundles: int) -> None:
    """Erratum: as printed, |B| outside the root, it would shrink with the number of bundles, and an example of 23 % as
    in figure 4.5 would be 7 % with ten bundles and below 1 % with a thousand."""
    latencies = np.full(bundles, 1.23)
    figures = bundle_figures(latencies, np.ones(bundles), target_s=1.0, threshold=0.05)
    assert figures is not None
    assert figures.sd_distance == pytest.approx(0.23)
    assert figures.mad_distance == pytest.approx(0.23)
    printed = np.sqrt(((latencies - 1) ** 2).sum()) / bundles
    assert printed < 0.08


def test_nothing_is_no_figure() -> None:
    assert bundle_figures([], [], target_s=1.0, threshold=0.05) is None
