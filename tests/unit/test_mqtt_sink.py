"""Sink ``mqtt``: what its messages tell, as the library would write it."""

import pytest

from datapipe.brokers.mqtt.sink import MqttSink
from datapipe.sinks.port import Row

pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed; it is in extra mqtt")


@pytest.mark.parametrize(
    ("row", "own"),
    [
        (Row(7, None, "1", None), [("serial", "7")]),
        (Row(2**40, 3, "1", None), [("serial", str(2**40)), ("part", "3")]),
        (Row(0, None, None, "it broke\n in ä\ud800"), [("serial", "0"), ("error", r"it broke in ä\ud800")]),
        (Row(1, None, None, "ü" * 4000), [("serial", "1"), ("error", "ü" * 4000)]),
    ],
    ids=["a value", "a part", "an error", "a long error"],
)
def test_properties_are_packed_as_by_the_library(row: Row, own: list[tuple[str, str]]) -> None:
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    sink = MqttSink("mqtt://localhost:1883/out", "run-1", 12)
    expected = Properties(PacketTypes.PUBLISH)
    expected.PayloadFormatIndicator = 1
    expected.UserProperty = [("run", "run-1"), ("epoch", "12"), *own]
    assert sink._told(row).pack() == expected.pack()
