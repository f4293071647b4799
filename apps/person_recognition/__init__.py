"""Person recognition in video, after Vogel et al., section 4."""

from apps.person_recognition.app import PersonRecognition, PersonRecognitionOptions

__all__ = ["PersonRecognition", "PersonRecognitionOptions"]
