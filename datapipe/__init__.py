"""Data-heavy parts: data sets in, telemetry out, reports; on Arrow, and on Spark where it pays."""
