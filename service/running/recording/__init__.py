"""What is kept of a run: samples, summary, telemetry."""
