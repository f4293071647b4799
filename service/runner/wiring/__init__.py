"""Assemble a run: its intake, its loop, its pool and its outputs."""
