"""Spark as the source and the sink of a running app: a driver in a process of its own, and the runner's end of it."""
