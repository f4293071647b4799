"""Sinks: lasting places for results, beside the window of results that the API keeps."""
