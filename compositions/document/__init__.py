"""Compositions files: read and check YAML, report every fault with its place, and watch for changes."""
