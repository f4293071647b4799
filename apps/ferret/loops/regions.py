"""Loop of the segment stage: merge pixels into regions, with a union-find forest by rank."""

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple


class Forest(NamedTuple):
    """Per pixel its parent; of roots the height of the tree, how many pixels it has and their mean colour."""

    roots: MutableSequence[int]
    ranks: MutableSequence[int]
    sizes: MutableSequence[int]
    red: MutableSequence[float]
    green: MutableSequence[float]
    blue: MutableSequence[float]


def merge_similar(first: Sequence[int], second: Sequence[int], bounds: Sequence[float], forest: Forest) -> None:
    """Takes the pairs in their order and merges their regions where no channel's means differ significantly."""
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
    """One raster pass: where a pixel and its left neighbour lie in two regions and one is too small, they merge."""
    roots, sizes = forest.roots, forest.sizes
    for pixel in range(len(roots)):
        if pixel % width == 0:
            continue
        a = find(pixel, roots)
        b = find(pixel - 1, roots)
        if a != b and (sizes[a] < smallest or sizes[b] < smallest):
            unite(b, a, forest)


def number_regions(roots: Sequence[int], numbers: MutableSequence[int], labels: MutableSequence[int]) -> None:
    """Writes ``labels``; ``numbers`` is -1 everywhere and ends up with each root's number."""
    regions = 0
    for pixel in range(len(roots)):
        root = find(pixel, roots)
        if numbers[root] < 0:
            numbers[root] = regions
            regions += 1
        labels[pixel] = numbers[root]


def find(pixel: int, roots: Sequence[int]) -> int:
    """The root of a pixel's tree, without shortening the path: union by rank keeps it short."""
    while roots[pixel] != pixel:
        pixel = roots[pixel]
    return pixel


def unite(a: int, b: int, forest: Forest) -> None:
    """Hangs root a under root b, or b under a when a's tree is the higher one, and averages their colours."""
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
