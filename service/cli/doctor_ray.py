"""Findings of ``recompose doctor --ray ADDRESS``: the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from compositions.errors import RecomposeError
from compositions.wording import figure
from runtime.placement.cluster import cores_of

if TYPE_CHECKING:
    from runtime.pools.ray.checkup import Report

Grade = Literal["good", "note", "bad"]
CLOCK_S = 1.0
"""Times in results and telemetry are of different machines; more than this is seen in them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``note``: something will not go, or not well; ``bad``: nothing will."""

    about: str
    grade: Grade
    found: str
    do: str | None = None
    """What to do; None where nothing is to be done."""


def findings_of(address: str) -> list[Finding]:
    """Connect to the Ray at ``address`` and say what is wrong with its nodes, a sentence each."""
    from runtime.pools.ray import checkup  # imported here: to load Ray takes a second

    try:
        reports = checkup.examine(address)
    except RecomposeError as error:
        return [Finding("cluster", "bad", str(error), _cure(str(error)))]
    seen = [each for each in reports if each.seen]
    named = ", ".join(each.address for each in reports)
    return [Finding("cluster", "good", f"{len(reports)} nodes: {named}"), *_judged(reports, seen, checkup.look())]


def _cure(error: str) -> str:
    if "ersion mismatch" in error:
        return "install the same versions of Ray and Python here and on the nodes"
    if "uthenticat" in error or "oken" in error:
        return "give this user the token of the cluster: RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    return "is Ray started there, and does a firewall let its ports through?"


def _judged(reports: Sequence[Report], seen: Sequence[Report], here: dict[str, Any]) -> Iterator[Finding]:
    wrong = [f"{each.address} starts no process" for each in reports if not each.seen]
    wrong += _without(seen, "reached", "cannot connect to this machine")
    cure = "let the nodes open TCP connections to each other: Ray's ports, and any port to a runner's node"
    yield _finding("cluster network", wrong, "bad", "each node starts processes and can connect to this machine", cure)
    wrong = [f"{each.address} {what}" for each in seen for what in _other_versions(each.seen, here)]
    cure = "install the same versions on all nodes, into the Python that Ray runs there"
    yield _finding("cluster versions", wrong, "bad", "the same Ray, Python and Recompose on each node", cure)
    late = [each for each in seen if abs(each.clock_off_s) > CLOCK_S]
    wrong = [f"{each.address} is off by {figure(each.clock_off_s)} s" for each in late]
    cure = "run NTP or chrony on each node; durations are not affected, times of day are"
    yield _finding("cluster clocks", wrong, "note", f"within {CLOCK_S:g} s of this machine", cure)
    cure = "start Ray there with --num-cpus; Recompose plans with the quota, other programs in the same Ray do not"
    pairs = [(each, cores_of(each.cpus, each.seen.get("cpus"))) for each in seen]
    told = "{} may use {} CPUs, and Ray counts {}"
    wrong = [told.format(each.address, figure(most), figure(each.cpus)) for each, most in pairs if most < each.cpus]
    yield _finding("cluster CPUs", wrong, "note", "Ray counts no more than each node may use", cure)
    cure = "set RAY_AUTH_MODE=token for each node and each client"
    wrong = _without(seen, "token", "takes calls of anybody who reaches its Ray")
    yield _finding("cluster token", wrong, "note", "Ray asks for a token", cure)
    if len(seen) > 1:
        cure = "keep Ray in a private network, or set RAY_USE_TLS=1 on each node"
        wrong = _without(seen, "TLS", "sends code, arguments and status in clear")
        yield _finding("cluster TLS", wrong, "note", "Ray encrypts its calls", cure)


def _without(seen: Sequence[Report], key: str, what: str) -> list[str]:
    return [f"{each.address} {what}" for each in seen if not each.seen[key]]


def _finding(about: str, wrong: Sequence[str], grade: Grade, good: str, cure: str) -> Finding:
    return Finding(about, grade, "; ".join(wrong), cure) if wrong else Finding(about, "good", good)


def _other_versions(seen: dict[str, Any], here: dict[str, Any]) -> Iterator[str]:
    for name in ("ray", "python", "recompose"):
        if seen.get(name) != here.get(name):
            yield f"has {name} {seen.get(name) or 'missing'}, here it is {here.get(name)}"
