"""Shared code of the two face apps: detect, recognize and mark faces. After SPBench and Vogel et al."""
