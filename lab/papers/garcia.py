"""Compare the experiments on SPBench with Garcia et al. 2023, figure by figure.

The paper prints curves of C++ programs, so the comparison uses the statements of its text about each curve.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from lab.experiments.contender import Measurement, Point
from lab.papers.report import Finding, Verdict, command

RECORDED = Path(__file__).with_suffix(".json")
FLAT = 0.15
"""Change of a throughput that counts as no change; several times the spread of repetitions on a quiet machine."""
FOLLOWS = 0.15
"""Root mean square error of the entering rate, relative to the mean rate, up to which a pattern is followed."""
BUSY_PERCENT = 90.0
"""CPU of a sequential program that "quickly reaches 100 %"."""
AFTER_S = 0.5
"""Maximum time after a spike until latency is back, in seconds."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs of one experiment by contender, and how closely the first one followed its input rate (``Tracking``)."""

    by_contender: Mapping[str, Sequence[Measurement]]
    shape_error: float | None
    of_asked: float | None = None

    @property
    def samples(self) -> Sequence[Point]:
        """Return the samples of the first run of the first contender, without the first two seconds."""
        first = next(iter(self.by_contender.values()))[0]
        return [sample for sample in first.samples if sample.at_s > 2.0]


Check = tuple[str, bool]
"""A figure of ours, and whether it agrees with the paper."""
Checks = Callable[[Mapping[str, Runs]], Iterable[Check]]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper, and the experiments that repeat it."""

    item: str
    printed: str
    experiments: Sequence[str]
    file: str
    checks: Checks

    def finding(self, folder: Path) -> Finding:
        """Judge the results in ``folder``, where ``recompose experiment`` wrote them."""
        if missing := [name for name in self.experiments if not (folder / name / "results.json").exists()]:
            return Finding(
                self.item, self.printed, "", "not run", f"no results of {', '.join(missing)}", command(self.file)
            )
        checks = list(self.checks({name: runs_in(folder / name) for name in self.experiments}))
        agree = sum(met for _, met in checks)
        verdict: Verdict = "trend only" if 2 * agree >= len(checks) else "not reproduced"
        if agree == len(checks):
            verdict = "reproduced"
        ours = "; ".join(f"{text}{'' if met else ' (differs)'}" for text, met in checks)
        return Finding(self.item, self.printed, ours, verdict, "", command(self.file))


def runs_in(folder: Path) -> Runs:
    """Return the runs of a finished experiment."""
    found: dict[str, list[Measurement]] = {}
    for file in sorted(folder.glob("raw/*.json")):
        run = Measurement.from_json(json.loads(file.read_text()))
        found.setdefault(run.contender, []).append(run)
    rows = json.loads((folder / "results.json").read_text())["rows"]
    first = rows[next(iter(found))]
    return Runs(found, first.get("shape_error"), first.get("achieved_of_asked"))


def findings(folder: Path) -> list[Finding]:
    """Return the findings of the experiments in ``folder`` on figures 6 to 16."""
    return [figure.finding(folder) for figure in FIGURES]


def record(folder: Path) -> None:
    """Store the findings on the experiments in ``folder``; figures that were not run there keep their findings."""
    known = {each.item: each for each in _stored()}
    found = [known.get(each.item, each) if each.verdict == "not run" else each for each in findings(folder)]
    RECORDED.write_text(json.dumps([asdict(each) for each in found], indent=1, ensure_ascii=False) + "\n")


def recorded() -> list[Finding]:
    """Return what ``record`` stored last, in the words of the page."""
    return [replace(each, printed=of.printed, ours=_ours(each)) for of, each in zip(FIGURES, _stored(), strict=True)]


def _stored() -> list[Finding]:
    return [Finding(**each) for each in json.loads(RECORDED.read_text())]


def _ours(found: Finding) -> str:
    """Return our result for the page, with the range of each number over the apps."""
    rows = [re.findall(r"[\d.]+", part.rpartition(": ")[2]) for part in found.ours.split("; ")]
    ends = [dict.fromkeys((min(each, key=float), max(each, key=float))) for each in zip(*rows, strict=False)]
    if "(differs)" in found.ours or found.item not in OURS:
        mark = ", unlike the paper" if found.ours.count("(differs)") <= found.ours.count("; ") else ""
        return found.ours.replace(" (differs)", mark)
    return OURS[found.item].format(*map(" to ".join, ends))


def _sequential(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check the order of memory and of variation, and the CPU."""
    whole = {name.removeprefix("spbench_fig06_sequential-"): runs.samples for name, runs in found.items()}
    cpu = {app: fmean(s.cpu_percent or 0.0 for s in samples) for app, samples in whole.items()}
    memory = {app: max(s.memory_mb or 0.0 for s in samples) for app, samples in whole.items()}
    rates = {app: [s.throughput_per_s for s in samples] for app, samples in whole.items()}
    lowest, steadiest = min(cpu, key=cpu.__getitem__), min(rates, key=lambda app: max(rates[app]) - min(rates[app]))
    least, most = min(memory, key=memory.__getitem__), max(memory, key=memory.__getitem__)
    yield f"lowest CPU {cpu[lowest]:.0f} % ({lowest})", cpu[lowest] >= BUSY_PERCENT
    yield f"least memory {least}, most {most}", (least, most) == ("bzip2", "ferret")
    yield f"throughput varies least with {steadiest}", steadiest == "bzip2"


def _workers(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check that throughput grows up to the number of cores, and latency from there on."""
    for name, runs in found.items():
        rates = {int(n): fmean(run.achieved_per_s for run in each) for n, each in runs.by_contender.items()}
        latencies = {int(n): fmean(run.latency_ms or 0.0 for run in each) for n, each in runs.by_contender.items()}
        most, app = max(rates), name.removeprefix("spbench_fig07_workers-")
        gain, later = rates[2] / rates[1], rates[most] / rates[2]
        slower, jump = latencies[2] / latencies[1], latencies[most] / latencies[2]
        met = gain > 1 + FLAT and later < 1 + FLAT and jump > max(1.5, slower)
        yield f"{app}: throughput × {gain:.2f}, latency × {slower:.2f}, × {jump:.1f}", met


def _growing(found: Mapping[str, Runs]) -> Iterable[Check]:
    for name, runs in found.items():
        samples = runs.samples
        one = [s for s in samples if s.batch_items is not None and s.batch_items < 1.5]
        ten = [s for s in samples if s.batch_items is not None and s.batch_items > 8.5]
        if not one or not ten:
            yield f"{name}: the size of batches at the sink did not go from 1 to 10", False
            continue
        rate = fmean(s.throughput_per_s for s in ten) / fmean(s.throughput_per_s for s in one)
        latency = _latency(ten) / _latency(one)
        yield f"batches of 9 and 10 items over 1: throughput × {rate:.2f}", abs(rate - 1) <= FLAT
        yield f"latency × {latency:.1f}", latency > 3


def _batches(found: Mapping[str, Runs]) -> Iterable[Check]:
    (runs,) = (each.by_contender for each in found.values())
    for workers in ("1", "2", "4"):
        one, sixteen = runs[f"{workers} by 1"], runs[f"{workers} by 16"]
        rate = fmean(run.achieved_per_s for run in sixteen) / fmean(run.achieved_per_s for run in one)
        latency = fmean(run.latency_ms or 0.0 for run in sixteen) / fmean(run.latency_ms or 0.0 for run in one)
        ours = f"16 items over 1, workers {workers}: throughput × {rate:.2f}, latency × {latency:.1f}"
        yield ours, rate <= 1 + FLAT and latency > 6


def _follows(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check that the input follows a sustainable pattern, and that latency is highest at the highest rate."""
    for name, runs in found.items():
        samples = runs.samples
        app = name.removeprefix("patterns_").split("-")[0]
        error = runs.shape_error
        rates = sorted(s.rate_per_s or 0.0 for s in samples)
        high, low = rates[int(0.9 * len(rates))], rates[int(0.3 * len(rates))]
        above = _latency([s for s in samples if (s.rate_per_s or 0.0) >= high])
        below = _latency([s for s in samples if (s.rate_per_s or 0.0) <= low])
        met = error is not None and error <= FOLLOWS and above > below
        yield f"{app}: rate {'unknown' if error is None else f'{error:.0%}'} off, latency × {above / below:.1f}", met


def _spikes(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check that latency returns to normal as soon as the items of a spike are delivered."""
    for name, runs in found.items():
        samples = runs.samples
        app = name.removeprefix("patterns_").split("-")[0]
        usual_ms = median(s.latency_ms for s in samples if s.latency_ms is not None and not _in_spike(s, samples))
        back = [_back_s(samples, at, usual_ms) for at in _ends(samples)]
        if not back:
            yield f"{app}: no spike ended", False
            continue
        yield f"{app}: back after {max(back):.2f} s", max(back) <= AFTER_S


def _in_spike(sample: Point, samples: Sequence[Point]) -> bool:
    return (sample.rate_per_s or 0.0) > 2 * min(s.rate_per_s or 0.0 for s in samples)


def _ends(samples: Sequence[Point]) -> list[int]:
    """Return the positions of the last samples of spikes, without one at the very end."""
    inside = [_in_spike(sample, samples) for sample in samples]
    return [at for at in range(len(samples) - 4) if inside[at] and not inside[at + 1]]


def _back_s(samples: Sequence[Point], at: int, usual_ms: float) -> float:
    """Return the time from the spike to the begin of a sample with the usual latency again, within a half more."""
    for before, sample in pairwise(samples[at:]):
        if sample.latency_ms is not None and sample.latency_ms <= 1.5 * usual_ms:
            return before.at_s - samples[at].at_s
    return samples[-1].at_s - samples[at].at_s


def _latency(samples: Iterable[Point]) -> float:
    """Return the mean over the items of the samples, in ms."""
    known = [(s.latency_ms, s.throughput_per_s) for s in samples if s.latency_ms is not None]
    items = sum(weight for _, weight in known)
    return sum(latency * weight for latency, weight in known) / items if items else float("nan")


def _named(item: str, printed: str, file: str, checks: Checks, *apps: str) -> Figure:
    return Figure(item, printed, [f"{file}-{app}" for app in apps] or [file], file, checks)


def _control(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Compare the items that entered with the frequency, while it could be sustained."""
    delays, slots = (runs.of_asked or 0.0 for runs in found.values())
    yield f"share of the frequency's items that enter: delays {delays:.0%}, slots {slots:.0%}", 0 < delays <= 1.01


def _patterns(number: int, pattern: str, printed: str, *apps: str) -> Figure:
    experiments = [f"patterns_{app}-{pattern}" for app in apps]
    checks = _spikes if pattern == "spike" else _follows
    return Figure(f"figure {number}", printed, experiments, "patterns_*", checks)


BZIP2, FACES, FERRET, LANES = APPS = ("bzip2", "face_recognizer", "ferret", "lane_detection")
_MEMORY = "CPU near 100 %; Bzip2 takes the least memory, and its throughput varies least; Ferret takes the most memory"
_JUMPS = "throughput grows with the workers; latency is low up to the physical cores, then jumps"
_GROWS = "batches do not influence the throughput of {}; latency grows with the batch size"
_NO_GAIN = "latency is proportional to the batch size; throughput does not gain significantly"
OURS = {
    "algorithm 1": "{0}% of the items enter with delays as in SPBench, {1}% with our rate control",
    "figure 7": "2 workers over 1: throughput × {0}; most workers over 2: latency × {2}",
    "figures 10 and 11": "batches of 16 items over 1: throughput × {0}, latency × {1}",
    **dict.fromkeys((f"figure {number}" for number in range(12, 16)), "input rate {0}% off; latency × {1}"),
    "figure 16": "usual latency {0} s after a spike",
}
_GROWING = "spbench_fig08_09_growing_batches"
FIGURES = (
    _named("algorithm 1", "the frequency is an upper limit", "patterns_bzip2", _control, "delays", "increasing"),
    _named("figure 6", _MEMORY, "spbench_fig06_sequential", _sequential, *APPS),
    _named("figure 7", _JUMPS, "spbench_fig07_workers", _workers, *APPS),
    _named("figure 8", _GROWS.format("Bzip2"), _GROWING, _growing, BZIP2),
    _named("figure 9", _GROWS.format("Ferret"), _GROWING, _growing, FERRET),
    _named("figures 10 and 11", _NO_GAIN, "spbench_fig10_11_lane_batches", _batches),
    _patterns(12, "wave", "throughput follows the rate; latency rises near the highest rate", BZIP2, LANES, FERRET),
    _patterns(13, "binary", "throughput follows the rate; latency is high at high rates", BZIP2, LANES, FERRET),
    _patterns(14, "increasing", "throughput follows the rate up to a limit, then latency rises", BZIP2, FACES, FERRET),
    _patterns(15, "decreasing", "latency falls as soon as the rate can be sustained", FACES, LANES, FERRET),
    _patterns(16, "spike", "latency rises only in spikes", BZIP2, FACES, FERRET),
)
