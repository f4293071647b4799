"""Handlers of requests to a runner: before, during and after its run."""
