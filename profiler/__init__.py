"""Service times, monitor windows, drain estimate and SLO metrics; pure but for one collector."""
