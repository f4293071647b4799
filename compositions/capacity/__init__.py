"""The capacity model: predict throughput, latency and queueing of a composition."""
