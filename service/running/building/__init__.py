"""What a run is built of: the way in, the loop, the pool, the way out."""
