"""Military Server: drones explore a map, units are placed on it (a reconstruction after Leonarczyk 2024)."""

from apps.military_server.app import MilitaryOptions, MilitaryServer

__all__ = ["MilitaryOptions", "MilitaryServer"]
