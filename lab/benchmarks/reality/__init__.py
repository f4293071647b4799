"""The parts of ``lab.benchmarks.plant_reality``: scenarios, the drive that both worlds share, and recordings."""
