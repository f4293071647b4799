"""Data sets: made from files by Spark, or generated as tables."""
