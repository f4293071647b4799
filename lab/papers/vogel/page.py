"""The findings on both papers, from recorded runs."""

from __future__ import annotations

from lab.papers.report import Finding
from lab.papers.vogel import patterns, replicas
from lab.papers.vogel.record import recorded


def findings() -> list[Finding]:
    """Return what both papers print beside the recorded runs. Raises: RecomposeError when there is no record."""
    found = recorded()
    return [*patterns.findings(found), *replicas.findings(found)]
