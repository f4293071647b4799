"""Report of a run, as one HTML file with plots; made from telemetry, without Spark and without a network."""
