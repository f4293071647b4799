"""Forecasts: what is expected of compositions, from the profile and from earlier measurements."""
