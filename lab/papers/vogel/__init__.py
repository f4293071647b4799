"""Figures of Vogel et al. 2021 (pattern compositions) and 2018 (regulated replicas) beside what the project found."""
