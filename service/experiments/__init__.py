"""Experiments that are written down: what runs, against what, and what came of it, as a report."""
