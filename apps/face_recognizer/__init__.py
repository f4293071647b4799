"""One person's face in video, after SPBench's Face Recognizer."""

from apps.face_recognizer.app import FaceRecognizer, FaceRecognizerOptions

__all__ = ["FaceRecognizer", "FaceRecognizerOptions"]
