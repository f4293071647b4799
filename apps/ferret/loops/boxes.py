"""Loop of the extract stage: the box around a region."""

from __future__ import annotations

from collections.abc import Sequence


def grow_box(pixels: Sequence[int], width: int) -> tuple[int, int, int, int, int]:
    """(top, bottom, left, right, pixels inside) of a box that leaves sparse outliers aside.

    A current box takes pixels while they fill more than 15 % of it; a sparser one is folded into an accumulated box
    and a new one begins. At the end the current box stands alone when the accumulated one holds less than 10 % of the
    pixels. The original compares a single-precision quotient with 0.15, which is true of 3/20: hence at least.
    """
    top = left = width
    bottom = right = -1
    all_top = all_left = width
    all_bottom = all_right = -1
    inside = outside = 0
    for pixel in pixels:
        row, column = pixel // width, pixel % width
        if inside == 0 or 20 * inside >= 3 * (bottom - top + 1) * (right - left + 1):
            top, bottom = min(top, row), max(bottom, row)
            left, right = min(left, column), max(right, column)
            inside += 1
        else:
            all_top, all_bottom = min(all_top, top), max(all_bottom, bottom)
            all_left, all_right = min(all_left, left), max(all_right, right)
            outside += inside
            top = bottom = row
            left = right = column
            inside = 1
    if 10 * outside < inside + outside:
        return top, bottom, left, right, inside
    all_top, all_bottom = min(all_top, top), max(all_bottom, bottom)
    all_left, all_right = min(all_left, left), max(all_right, right)
    return all_top, all_bottom, all_left, all_right, inside + outside
