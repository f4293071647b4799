"""Options, pushed items, a time limit, results in a form of their own."""

from pydantic import Field

from recompose import App, Options, Stage, StageKind


class ReadingOptions(Options):
    unit: str = Field(default="C", pattern="^[CF]$", description="Unit of the incoming temperatures")
    above: float = Field(default=30.0, ge=-273.15, description="Celsius above which a reading is an alarm")


class Readings(App):
    name = "readings"
    description = "Counts alarms among temperatures."
    stages = (Stage("convert", time_limit_s=2.0), Stage("count", StageKind.STATEFUL))
    options_model = ReadingOptions

    def items(self, path):  # source replay
        lines = path.read_text().splitlines() if path else ["21.5", "30.5", "28", "31"]
        return (float(line) for line in lines)

    def from_json(self, value):  # source push: JSON in, an item out
        if not isinstance(value, dict) or not isinstance(value.get("celsius"), int | float):
            raise ValueError(f'{value!r} is no reading; send {{"celsius": 21.5}}')
        return float(value["celsius"])

    def convert(self, value):
        return value if self.options.unit == "C" else (value - 32) / 1.8

    def count(self, celsius, alarms):
        alarms = (alarms or 0) + (celsius > self.options.above)
        return (celsius, alarms), alarms

    def encode_result(self, value):  # plain JSON, always the same for the same input
        celsius, alarms = value
        return {"celsius": round(celsius, 1), "alarms": alarms}
