"""How compositions run: one pure dispatcher, three pools of workers that it drives (local, simulated, ray)."""
