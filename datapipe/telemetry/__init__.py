"""Telemetry of running apps: rolling Parquet files, and the tables of time windows that Spark makes of them."""
