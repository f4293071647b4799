"""Lane detection in video, after SPBench."""

from apps.lane_detection.app import LaneDetection, LaneDetection4, LaneOptions

__all__ = ["LaneDetection", "LaneDetection4", "LaneOptions"]
