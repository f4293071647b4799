"""Compositions files: YAML read, checked with every fault at its place, watched."""
