"""Text as it goes where a message has headers, or properties: one line, which no place refuses."""

from __future__ import annotations

MOST = 4000
"""Characters: escaped, with what else is told, they are less than NATS, MQTT and RabbitMQ take."""


def line_of(text: str) -> str:
    """White space becomes a space, what cannot be printed is escaped as Python does it (a broker of MQTT hangs up at a
    line break, and at half a character nothing can be sent at all), and of much text the middle is left out."""
    line = " ".join(text.split()) or " "
    if len(line) > MOST:
        line = f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}"
    return line if line.isprintable() else "".join(map(_printable, line))


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else sign.encode("unicode_escape").decode()
