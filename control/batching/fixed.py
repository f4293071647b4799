"""Controller ``fixed``: the first size for ever; the baseline of every comparison."""

from __future__ import annotations

from compositions.batch_settings import BatchSettings
from control.batching.port import BatchController, BundleOpening, Choice, DeliveredBundle


class Fixed(BatchController):
    """Measures nothing, changes nothing."""

    name = "fixed"

    def __init__(self, settings: BatchSettings) -> None:
        self._choice = Choice(settings.sizes.first, f"fixed at {settings.sizes.first}")

    def delivered(self, bundle: DeliveredBundle) -> None:
        return

    def next(self, opening: BundleOpening) -> Choice:
        return self._choice
