"""Ferret's inner loops over flat sequences: one source for plain Python and for machine code."""
