"""Stages that keep a state: partitions and their workers, bundles split by key, and the order of items."""
