"""Pools that run tasks: threads, virtual time, Ray actors; one port."""
