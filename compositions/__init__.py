"""The vocabulary: stages, groups, compositions, their notation, YAML, enumeration and capacity."""
