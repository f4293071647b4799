"""Benchmarks: each is run by itself, `python -m lab.benchmarks.NAME`."""
