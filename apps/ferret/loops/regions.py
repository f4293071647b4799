"""Loop of the segment stage: merge pixels into regions, with a union-find forest by rank."""

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple


class Forest(NamedTuple):
    """For each pixel its parent; for roots the height of the tree, the number of its pixels and their mean colour."""

    roots: MutableSequence[int]
    ranks: MutableSequence[int]
    sizes: MutableSequence[int]
    red: MutableSequence[float]
    green: MutableSequence[float]
    blue: MutableSequence[float]


def merge_similar(first: Sequence[int], second: Sequence[int], bounds: Sequence[float], forest: Forest) -> None:
    """Merge the regions of the pairs, in order, if no channel's means differ significantly."""
    roots, sizes = forest.roots, forest.sizes
    red, green, blue = forest.red, forest.green, forest.blue
    for k in range(len(first)):
        a = first[k]
        while roots[a] != a:
            a = roots[a]
        b = second[k]
        while roots[b] != b:
            b = roots[b]
        if a == b:
            continue
        limit = bounds[sizes[a]] + bounds[sizes[b]]
        if (red[a] - red[b]) ** 2 < limit and (green[a] - green[b]) ** 2 < limit and (blue[a] - blue[b]) ** 2 < limit:
            unite(a, b, forest)


def absorb_small(width: int, smallest: int, forest: Forest) -> None:
    """In one raster pass, merge the regions of a pixel and its left neighbour if one of the regions is too small."""
    roots, sizes = forest.roots, forest.sizes
    for pixel in range(len(roots)):
        if pixel % width == 0:
            continue
        a = find(pixel, roots)
        b = find(pixel - 1, roots)
        if a != b and (sizes[a] < smallest or sizes[b] < smallest):
            unite(b, a, forest)


def number_regions(roots: Sequence[int], numbers: MutableSequence[int], labels: MutableSequence[int]) -> None:
    """Write ``labels``; ``numbers`` is -1 everywhere and finally contains each root's number."""
    regions = 0
    for pixel in range(len(roots)):
        root = find(pixel, roots)
        if numbers[root] < 0:
            numbers[root] = regions
            regions += 1
        labels[pixel] = numbers[root]


def find(pixel: int, roots: Sequence[int]) -> int:
    """Return the root of a pixel's tree without shortening the path, which union by rank keeps short."""
    while roots[pixel] != pixel:
        pixel = roots[pixel]
    return pixel


def unite(a: int, b: int, forest: Forest) -> None:
    """Attach root a to root b, or b to a if a's tree is higher, and average their colours."""
    roots, ranks, sizes = forest.roots, forest.ranks, forest.sizes
    red, green, blue = forest.red, forest.green, forest.blue
    if ranks[a] > ranks[b]:
        a, b = b, a
    roots[a] = b
    if ranks[a] == ranks[b]:
        ranks[b] += 1
    size = sizes[a] + sizes[b]
    red[b] = (red[a] * sizes[a] + red[b] * sizes[b]) / size
    green[b] = (green[a] * sizes[a] + green[b] * sizes[b]) / size
    blue[b] = (blue[a] * sizes[a] + blue[b] * sizes[b]) / size
    sizes[b] = size
