"""Experiments described in a file: an app under a load, its contenders, their results, and a report."""
