"""Stages, groups and compositions: their types, notation, YAML files, enumeration and capacity model."""
