"""Spark as the source and the sink of a running app: a driver in a separate process, and its link to the runner."""
