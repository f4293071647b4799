"""Compositions as text: YAML, notation, rules."""
