"""Run compositions: one pure dispatcher, and three kinds of worker pools that it drives (local, simulated, ray)."""
