"""Cameras to alerts: tell when something moves. ``python cameras.py [video:0 | video:FILE | video:rtsp://…]``."""

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np

from recompose import Outputs, Stage, StageKind, pipeline, run

FRAMES, WIDTH, HEIGHT = 120, 160, 90


def film(path: Path) -> str:
    """Write a film in which a person walks through from frame 40 to frame 79."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 25, (WIDTH, HEIGHT))
    noise = np.random.default_rng(1)
    for number in range(FRAMES):
        frame = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
        frame += noise.integers(0, 6, frame.shape, dtype=np.uint8)
        if 40 <= number < 80:
            left = (number - 40) * 3
            frame[30:70, left : left + 15] = 220
        writer.write(frame)
    writer.release()
    return f"video:{path}"


def small(frame):
    return cv2.GaussianBlur(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY), (7, 7), 0)


def moving(gray, before):
    """Return the box around what changed since the frame before, or None; the state is that frame."""
    if before is None:
        return None, gray
    changed = cv2.threshold(cv2.absdiff(before, gray), 25, 255, cv2.THRESH_BINARY)[1]
    box = cv2.boundingRect(changed)
    return (box if box[2] * box[3] > 100 else None), gray


def alert(box, seen):
    """Emit a value where movement begins and where it ends; the state is (frame number, moving)."""
    number, was_moving = seen or (0, False)
    is_moving = box is not None
    word = "begins" if is_moving else "ends"
    told = Outputs([{"frame": number, "movement": word, "box": box}] if is_moving != was_moving else [])
    return told, (number + 1, is_moving)


app = pipeline(small, (Stage("moving", StageKind.STATEFUL), moving), (Stage("alert", StageKind.STATEFUL), alert))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        source = sys.argv[1] if len(sys.argv) > 1 else film(Path(folder, "yard.avi"))
        for result in run(app, source=source, pool="local"):
            print(result.value)
