"""Validate a spec before anything starts: source, compositions, settings."""
