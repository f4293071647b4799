"""Windows, watermarks and timers by event time, for stages with a state (docs/guide/event-time.md).

Pure functions over small tuples. A stage's state is picklable, and covers one key or many, as the stage needs.
"""

from apps.event_time.windowing import (
    END,
    Clock,
    KeyedPane,
    KeyedWindows,
    Late,
    Pane,
    Reading,
    Slots,
    Timers,
    Windowing,
    due,
    with_timer,
    without_timer,
)
from apps.event_time.windows import Sessions, Sliding, Tumbling, Window

__all__ = [
    "END", "Clock", "KeyedPane", "KeyedWindows", "Late", "Pane", "Reading", "Sessions", "Sliding", "Slots", "Timers",
    "Tumbling", "Window", "Windowing", "due", "with_timer", "without_timer",
]  # fmt: skip
