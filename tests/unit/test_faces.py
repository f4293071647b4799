"""Person Recognition and Face Recognizer: whose faces they are, on real ones, and what is said of a frame."""

import os
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import pytest

from apps.data_sets.ingest import keep
from apps.data_sets.reader import Unversioned
from apps.face_recognizer import FaceRecognizer, FaceRecognizerOptions
from apps.faces.data_set import FaceRecipe
from apps.faces.results import Box, Gallery, Marked, Person, Recognizer, equalised
from apps.person_recognition import PersonRecognition, PersonRecognitionOptions
from compositions.errors import RecomposeError

DATA = os.environ.get("RECOMPOSE_DATA")

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.skipif(not DATA, reason="RECOMPOSE_DATA is not set: the ORL faces are not here")
def test_nine_of_ten_orl_faces_are_recognized() -> None:
    """First five pictures of each of the 30 subjects to train, last five to test (AT&T Laboratories Cambridge)."""
    subjects = sorted((Path(DATA or "") / "faces" / "orl").iterdir())

    def faces(numbers: range) -> Gallery:
        pairs = [(cv2.imread(str(s / f"{n}.pgm"), cv2.IMREAD_GRAYSCALE), s.name) for s in subjects for n in numbers]
        return Gallery(tuple(np.asarray(face, dtype=np.uint8) for face, _ in pairs), tuple(name for _, name in pairs))

    app = PersonRecognition()
    app._recognizers = Unversioned(Recognizer(faces(range(1, 6))))
    unknown = faces(range(6, 11))
    marked = Marked(0, np.zeros((8, 8, 3), np.uint8), (Box(0, 0, 8, 8),) * len(unknown.faces), unknown.faces)
    right = [p.label == name for p, name in zip(app.recognize(marked).persons, unknown.labels, strict=True)]
    assert len(right) == 150
    assert np.mean(right) >= 0.9


def test_the_sample_clip_shows_the_face_that_the_sample_gallery_knows() -> None:
    app = PersonRecognition(PersonRecognitionOptions(denoise="fast"))
    app.prepare()
    app.setup()
    values = [app.recognize(app.detect(frame)) for frame in islice(app.items(None), 10)]
    named = ["astronaut" in [person.label for person in value.persons] for value in values]
    assert sum(named) >= 8
    encoded = app.encode_result(values[0])
    assert encoded["frame"] == 0
    assert encoded["faces"][0].keys() == {"x", "y", "w", "h", "label", "distance"}


def test_the_face_recognizer_marks_the_wanted_person_green_and_others_red() -> None:
    app = FaceRecognizer(FaceRecognizerOptions(largest=0.6, scale=1.1, neighbours=5))
    app.prepare()
    app.setup()
    frame = next(app.items(None))
    marked = app.detect(frame)
    assert marked.faces
    known = app.recognize(marked)
    app._recognizers = Unversioned(type("Nobody", (), {"person": staticmethod(lambda face: Person(None, None))})())
    unknown = app.recognize(marked)
    assert known.persons[0].label == "astronaut"
    changed = (known.image != frame.image).any(axis=2)
    assert (known.image[changed][:, 1] == 255).any()
    assert (unknown.image[(unknown.image != frame.image).any(axis=2)] == (0, 0, 255)).all()


def test_a_gallery_follows_its_pictures_while_the_app_runs(tmp_path: Path) -> None:
    folder, out = tmp_path / "people", tmp_path / "gallery"
    (folder / "ann").mkdir(parents=True)
    picture = np.random.default_rng(1).integers(0, 255, (112, 92), dtype=np.uint8)
    cv2.imwrite(str(folder / "ann" / "1.pgm"), picture)
    keep(FaceRecipe(lambda: folder), folder, out)
    app = PersonRecognition(PersonRecognitionOptions(gallery=out))
    app.prepare()
    app.setup()
    face = equalised(cv2.cvtColor(255 - picture, cv2.COLOR_GRAY2BGR))
    assert app._recognizer.person(face).label == "ann"
    cv2.imwrite(str(folder / "bob2.png"), 255 - picture)
    keep(FaceRecipe(lambda: folder), folder, out)
    assert app._recognizer.person(face) == Person("bob", 0.0)


def test_a_training_folder_without_a_face_is_refused(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "wall.png"), np.full((600, 600, 3), 128, np.uint8))
    with pytest.raises(RecomposeError, match="there is no face in wall"):
        PersonRecognition(PersonRecognitionOptions(training=tmp_path)).prepare()
