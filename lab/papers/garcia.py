"""Compare the experiments on SPBench with Garcia et al. 2023, figure by figure.

The paper prints curves of C++ programs, so the comparison uses the statements of its text about each curve.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class Check:
    """Figures of ours, and whether they agree with the paper."""

    words: str
    """A sentence with a place for each figure; figures with the same words are told as ranges."""
    met: bool
    figures: Sequence[str] = ()
    app: str = ""


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
        agree = sum(check.met for check in checks)
        verdict: Verdict = "trend only" if 2 * agree >= len(checks) else "not reproduced"
        if agree == len(checks):
            verdict = "reproduced"
        return Finding(self.item, self.printed, _told(checks), verdict, "", command(self.file))


def _told(checks: Sequence[Check]) -> str:
    """Return the figures in words, and which of them differ from the paper if only some do."""
    parts: list[str] = []
    for words in dict.fromkeys(check.words for check in checks):
        alike = [check for check in checks if check.words == words]
        ends = [(min(each, key=float), max(each, key=float)) for each in zip(*(c.figures for c in alike), strict=True)]
        text = words.format(*(" to ".join(dict.fromkeys(pair)) for pair in ends))
        other = [check for check in alike if not check.met]
        apps = f" for {', '.join(check.app for check in other)}" if len(other) < len(alike) else ""
        parts.append(f"{text}, unlike the paper{apps}" if other and any(check.met for check in checks) else text)
    return "; ".join(parts)


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
    known = {each.item: each for each in recorded()}
    found = [known.get(each.item, each) if each.verdict == "not run" else each for each in findings(folder)]
    RECORDED.write_text(json.dumps([asdict(each) for each in found], indent=1, ensure_ascii=False) + "\n")


def recorded() -> list[Finding]:
    """Return what ``record`` stored last, with the paper's side in the words of the page."""
    stored = json.loads(RECORDED.read_text())
    return [Finding(**each | {"printed": of.printed}) for of, each in zip(FIGURES, stored, strict=True)]


def _sequential(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check the order of memory and of variation, and the CPU."""
    whole = {name.removeprefix("spbench_fig06_sequential-"): runs.samples for name, runs in found.items()}
    cpu = {app: fmean(s.cpu_percent or 0.0 for s in samples) for app, samples in whole.items()}
    memory = {app: max(s.memory_mb or 0.0 for s in samples) for app, samples in whole.items()}
    rates = {app: [s.throughput_per_s for s in samples] for app, samples in whole.items()}
    lowest, steadiest = min(cpu, key=cpu.__getitem__), min(rates, key=lambda app: max(rates[app]) - min(rates[app]))
    least, most = min(memory, key=memory.__getitem__), max(memory, key=memory.__getitem__)
    yield Check(f"lowest CPU {cpu[lowest]:.0f} % ({lowest})", cpu[lowest] >= BUSY_PERCENT)
    yield Check(f"least memory {least}, most {most}", (least, most) == ("bzip2", "ferret"))
    yield Check(f"throughput varies least with {steadiest}", steadiest == "bzip2")


def _workers(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check that throughput grows up to the number of cores, and latency from there on."""
    for name, runs in found.items():
        rates = {int(n): fmean(run.achieved_per_s for run in each) for n, each in runs.by_contender.items()}
        latencies = {int(n): fmean(run.latency_ms or 0.0 for run in each) for n, each in runs.by_contender.items()}
        most, app = max(rates), name.removeprefix("spbench_fig07_workers-")
        gain, later = rates[2] / rates[1], rates[most] / rates[2]
        slower, jump = latencies[2] / latencies[1], latencies[most] / latencies[2]
        words = "2 workers over 1: throughput × {0}; most workers over 2: latency × {1}"
        met = gain > 1 + FLAT and later < 1 + FLAT and jump > max(1.5, slower)
        yield Check(words, met, (f"{gain:.2f}", f"{jump:.1f}"), app)


def _growing(found: Mapping[str, Runs]) -> Iterable[Check]:
    for name, runs in found.items():
        samples = runs.samples
        one = [s for s in samples if s.batch_items is not None and s.batch_items < 1.5]
        ten = [s for s in samples if s.batch_items is not None and s.batch_items > 8.5]
        if not one or not ten:
            yield Check(f"{name}: the size of batches at the sink did not go from 1 to 10", met=False)
            continue
        rate = fmean(s.throughput_per_s for s in ten) / fmean(s.throughput_per_s for s in one)
        latency = _latency(ten) / _latency(one)
        yield Check("batches of 9 and 10 items over 1: throughput × {0}", abs(rate - 1) <= FLAT, (f"{rate:.2f}",))
        yield Check("latency × {0}", latency > 3, (f"{latency:.1f}",))


def _batches(found: Mapping[str, Runs]) -> Iterable[Check]:
    (runs,) = (each.by_contender for each in found.values())
    for workers in ("1", "2", "4"):
        one, sixteen = runs[f"{workers} by 1"], runs[f"{workers} by 16"]
        rate = fmean(run.achieved_per_s for run in sixteen) / fmean(run.achieved_per_s for run in one)
        latency = fmean(run.latency_ms or 0.0 for run in sixteen) / fmean(run.latency_ms or 0.0 for run in one)
        words, met = "batches of 16 items over 1: throughput × {0}, latency × {1}", rate <= 1 + FLAT and latency > 6
        yield Check(words, met, (f"{rate:.2f}", f"{latency:.1f}"), f"{workers} workers")


def _follows(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check that the input follows a sustainable pattern, and that latency is highest at the highest rate."""
    for name, runs in found.items():
        samples = runs.samples
        app = name.removeprefix("patterns_").split("-")[0]
        error = float("nan") if runs.shape_error is None else runs.shape_error  # a comparison with it is then False
        rates = sorted(s.rate_per_s or 0.0 for s in samples)
        high, low = rates[int(0.9 * len(rates))], rates[int(0.3 * len(rates))]
        above = _latency([s for s in samples if (s.rate_per_s or 0.0) >= high])
        below = _latency([s for s in samples if (s.rate_per_s or 0.0) <= low])
        words, met = "input rate {0}% off; latency × {1}", error <= FOLLOWS and above > below
        yield Check(words, met, (f"{100 * error:.0f}", f"{above / below:.1f}"), app)


def _spikes(found: Mapping[str, Runs]) -> Iterable[Check]:
    """Check that latency returns to normal as soon as the items of a spike are delivered."""
    for name, runs in found.items():
        samples, app = runs.samples, name.removeprefix("patterns_").split("-")[0]
        usual_ms = median(s.latency_ms for s in samples if s.latency_ms is not None and not _in_spike(s, samples))
        back = [_back_s(samples, at, usual_ms) for at in _ends(samples)]
        if not back:
            yield Check(f"{app}: no spike ended", met=False)
            continue
        yield Check("usual latency {0} s after a spike", max(back) <= AFTER_S, (f"{max(back):.2f}",), app)


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
    words = "{0}% of the items enter with delays as in SPBench, {1}% with our rate control"
    yield Check(words, 0 < delays <= 1.01, (f"{100 * delays:.0f}", f"{100 * slots:.0f}"))


def _patterns(number: int, pattern: str, printed: str, *apps: str) -> Figure:
    experiments = [f"patterns_{app}-{pattern}" for app in apps]
    checks = _spikes if pattern == "spike" else _follows
    return Figure(f"figure {number}", printed, experiments, "patterns_*", checks)


BZIP2, FACES, FERRET, LANES = APPS = ("bzip2", "face_recognizer", "ferret", "lane_detection")
_MEMORY = "CPU near 100 %; Bzip2 takes the least memory, and its throughput varies least; Ferret takes the most memory"
_JUMPS = "throughput grows with the workers; latency is low up to the physical cores, then jumps"
_GROWS = "batches do not influence the throughput of {}; latency grows with the batch size"
_NO_GAIN = "latency is proportional to the batch size; throughput does not gain significantly"
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
