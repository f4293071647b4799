"""What a composition would do: throughput, latency, queueing."""
