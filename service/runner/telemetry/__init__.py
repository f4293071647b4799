"""Records of a run: samples, summary, telemetry."""
