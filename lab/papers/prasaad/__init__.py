"""Ordered stream processing in virtual time (Prasaad et al. 2017): figures 8 to 14."""
