"""Changes of the bundle size are kept one entry for many."""

from __future__ import annotations

from control.bundles.bundle_size import SizeRun, SizeRuns


def test_what_does_not_change_is_not_kept() -> None:
    runs = SizeRuns()
    for at_s in range(5):
        runs.note(float(at_s), "auto", 1, "nothing is measured yet")
    assert not runs.kept
    assert runs.used == [1]


def test_changes_that_follow_each_other_are_one_entry() -> None:
    runs = SizeRuns()
    runs.note(0.0, "auto", 1, "first")
    for turn in range(1000):  # a hundred a second
        runs.note(1.0 + turn / 100, "pid", 5 + turn % 7, f"turn {turn}")
    assert list(runs.kept) == [SizeRun("pid", 1, 5 + 999 % 7, "turn 999", 1.0, 10.99, 1, 11, 1000)]
    assert runs.used == [1, 5, 6, 7, 8, 9, 10, 11]


def test_a_pause_another_controller_and_a_minute_begin_another_entry() -> None:
    runs = SizeRuns()
    runs.note(0.0, "auto", 1, "first")
    runs.note(1.0, "auto", 8, "a hop shows")
    runs.note(12.0, "auto", 4, "a pause of more than ten seconds")
    runs.note(12.5, "pid", 4, "the same size, chosen by another")
    assert [(each.controller, each.from_items, each.to_items) for each in runs.kept] == [
        ("auto", 1, 8), ("auto", 8, 4), ("pid", 4, 4),
    ]  # fmt: skip
    for second in range(13, 200):
        runs.note(float(second), "pid", second, "every second")
    assert [each.count for each in runs.kept] == [1, 1, 61, 60, 60, 7]


def test_it_is_bounded() -> None:
    runs = SizeRuns()
    for turn in range(3 * SizeRuns.KEPT):
        runs.note(turn * 20.0, "auto", 1 + turn % 2, "")
    assert len(runs.kept) == SizeRuns.KEPT
