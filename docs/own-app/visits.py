import zlib
from operator import add

from apps.contract import App, Outputs
from apps.event_time import END, Clock, KeyedWindows, Pane, Sessions, Windowing
from compositions.model import Stage, StageKind
from datapipe.sources.rate_spec import parse_arrivals

PARTS = 8
CLOCK = Clock(behind=60, every=600)
VISITS = KeyedWindows(Windowing(Sessions(gap=1800), lambda requests, _: (requests or 0) + 1, merge=add))
LINES = """\
10.0.0.1 - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 12
10.0.0.2 - - [17/May/2015:10:05:00 +0000] "GET / HTTP/1.1" 200 12
10.0.0.1 - - [17/May/2015:10:04:30 +0000] "GET /a HTTP/1.1" 200 12
10.0.0.1 - - [17/May/2015:10:50:00 +0000] "GET /b HTTP/1.1" 200 12
10.0.0.2 - - [17/May/2015:10:06:00 +0000] "GET /c HTTP/1.1" 200 12
"""


class Visits(App):
    name = "visits"
    description = "Visits in a web server's access log: requests of an address no more than half an hour apart."
    stages = (Stage("read"), Stage("clock", StageKind.STATEFUL), Stage("visits", StageKind.PARTITIONED))

    def items(self, path):
        yield from path.read_text(errors="replace").splitlines() if path else LINES.splitlines()
        yield None  # the end of the file: nothing is earlier than what follows

    def read(self, line):
        if line is None:
            return None, END
        return line.split()[0], next(iter(parse_arrivals([line], "log")))

    def clock(self, request, reading):  # it sees all requests in order, so it knows how far the log is
        address, time = request
        tick, reading = CLOCK.seen(reading, time)
        ticks = [(part, tick) for part in range(PARTS)] if tick is not None else []
        if address is not None:
            ticks.append((zlib.crc32(address.encode()) % PARTS, reading.watermark, address, time))
        return Outputs(ticks), reading

    def visits_key(self, value):
        return value[0]

    def visits(self, value, visits):
        visits, (_, watermark, *request) = visits or {}, value
        told = VISITS.put(visits, *request, None, watermark) if request else VISITS.advance(visits, watermark)
        return Outputs(map(self.told, told)), visits

    def told(self, keyed):
        address, told = keyed
        if isinstance(told, Pane):
            return {"address": address, "from_s": told.window.start, "requests": told.value}
        return {"address": address, "late_s": told.time}
