"""Forecasts of the input rate (docs/decisions/0029-changing-load.md)."""
