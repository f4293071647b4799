"""Supervise one app: the watchdog, its restart policy, its slot at a host, its desired and its last known state."""
