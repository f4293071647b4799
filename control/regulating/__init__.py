"""Regulators: how many replicas one stage has, decided at every control step from its latency alone."""
