"""Benchmarks. Each runs separately: `python -m lab.benchmarks.NAME`."""
