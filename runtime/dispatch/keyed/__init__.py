"""Keyed stages: whose state a worker has, how keys cut a bundle, and how partitions move."""
