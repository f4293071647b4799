"""Service times, monitor windows, drain estimates and SLOs; pure except for the monitor, which collects events."""
