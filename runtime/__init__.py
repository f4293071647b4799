"""Run compositions: one pure dispatcher, and three pools of workers that it drives (local, simulated, ray)."""
