"""Predict what a composition would do: throughput, latency, queueing."""
