"""Run the tests of a lane, and tell what failed beside others and passed alone: ``python tests/lanes.py LANE``.

A test that fails beside others is run once more by itself. If it fails again, the run is red. If it passes, it is
flaky: the run goes on, names it at the end and counts it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

QUICK = ["tests/unit", "tests/property"]
PACED = [
    "tests/hosts/test_two_hosts.py",
    "tests/faults/test_daemon_and_runner_killed.py",
    "tests/integration/test_end_to_end.py",
    "tests/integration/test_ray_pool.py",
]
"""They adapt to times that they measure, or are judged by them: two at a time."""
BY_FILE = ["--dist", "loadfile", "--no-loadscope-reorder"]
OTHERS = ["tests/simulation/test_scenarios.py", "tests", *(f"--ignore={each}" for each in [*QUICK, *PACED])]
"""The longest file that waits for nothing comes first, so that no worker is left alone with it at the end."""

Part = tuple[list[str], list[str]]
"""How its tests run side by side, and which."""
LANES: dict[str, list[Part]] = {
    "quick": [(["-n", "2"], QUICK)],
    # Clusters, JVMs and browsers take most of the time, half of it waiting for one: four at a time on two cores.
    "test": [(["-n", "4", *BY_FILE], OTHERS), (["-n", "2", *BY_FILE], PACED)],
    "long": [(["-n", "2", *BY_FILE], ["tests"])],
}
FLAKY = Path(sys.prefix) / "flaky-tests.txt"
"""The names of this run; lane ``quick`` is the first of a run."""
FAILED, NONE_COLLECTED = 1, 5
"""Exit codes of pytest."""


def run(part: Part, marked: str) -> tuple[list[str], list[str]]:
    """Return the tests of a part that failed twice, and those that are flaky. Raises: SystemExit if pytest itself
    failed."""
    side_by_side, which = part
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", "-m", marked, *which]
        if _ran([*command, *side_by_side]) != FAILED:
            return [], []
        failed = _failed_in(cache)
        if not failed:
            raise SystemExit(FAILED)  # something else than a test went wrong, which pytest has told
        again = [*command, "--last-failed", "--last-failed-no-failures", "none"]
        failed_twice = _failed_in(cache) if _ran(again) == FAILED else []
        return failed_twice, [each for each in failed if each not in failed_twice]


def _ran(command: list[str]) -> int:
    code = subprocess.run(command, check=False).returncode
    if code not in (0, FAILED, NONE_COLLECTED):
        raise SystemExit(code)
    return code


def _failed_in(cache: str) -> list[str]:
    file = Path(cache, "v", "cache", "lastfailed")
    return list(json.loads(file.read_text())) if file.exists() else []


def main(lane: str) -> int:
    failed: list[str] = []
    if lane == "long":
        os.environ["RECOMPOSE_EXAMPLES"] = "1"
    if lane != "test":
        FLAKY.write_text("")
    for part in LANES[lane]:
        failed_twice, flaky = run(part, "long" if lane == "long" else "not long")
        failed += failed_twice
        with FLAKY.open("a") as names:
            names.writelines(f"{name}\n" for name in flaky)
    flaky = FLAKY.read_text().splitlines()
    for name in flaky:
        print(f"FLAKY {name}: failed beside others, passed alone")
    for name in failed:
        print(f"FAILED {name}: twice")
    print(f"lane {lane}: {len(failed)} failed, {len(flaky)} flaky")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
