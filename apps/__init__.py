"""The App contract, sources and input-rate patterns; one folder per built-in app."""
