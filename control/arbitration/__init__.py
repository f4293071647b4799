"""Arbitration among several apps on one machine."""
