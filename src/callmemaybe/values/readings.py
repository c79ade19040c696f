"""What a text says, written as the formats of JSON Schema have it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from callmemaybe.values.reading import Reading, read_values

#: What days and times count from.
Now = datetime
#: The kind of reading that a format takes as it stands there.
ADDRESSES = {"email": "email", "idn-email": "email", "uri": "uri", "iri": "uri", "url": "uri", "ipv4": "ipv4", "uuid": "uuid"}  # fmt: skip


@dataclass(frozen=True)
class Readings:
    """The readings of a text; times are those of the zone of ``now`` (UTC where it has none)."""

    readings: tuple[Reading, ...]
    now: Now

    @classmethod
    def of(cls, text: str, now: Now) -> Readings:
        """Read a text; see :func:`~callmemaybe.values.read_values`."""
        return cls(read_values(text, now), now)

    def of_kind(self, *kinds: str) -> list[Reading]:
        """Return the readings of these kinds, from left to right."""
        return [one for one in self.readings if one.kind in kinds]

    def written(self, kind: str) -> Iterator[tuple[Any, str]]:
        """Yield the values of a format, each with the words that say it; what is said as a whole first.

        ``kind`` is a format of JSON Schema (:data:`ADDRESSES`, "date", "time", "date-time", "duration") or a form of
        dates as ``strftime`` has it.
        """
        if kind in ADDRESSES:
            for one in self.of_kind(ADDRESSES[kind]):
                yield one.value, one.text
        elif kind == "duration":
            for one in self.of_kind("duration"):
                yield one.value, one.text
        elif kind == "date":
            for one in self.of_kind("date"):
                yield one.value.isoformat(), one.text
            for one in self.of_kind("datetime"):
                yield one.value.date().isoformat(), one.text
        elif kind == "time":
            for moment, text in self._times():
                yield moment.isoformat() + self._offset(moment), text
        elif kind == "date-time":
            for moment_, text in self._moments():
                yield moment_.isoformat(timespec="seconds").replace("+00:00", "Z"), text
        else:
            yield from self._in_form(kind)

    def _times(self) -> Iterator[tuple[time, str]]:
        for one in self.of_kind("time"):
            yield one.value, one.text
        for one in self.of_kind("datetime"):
            if not any(
                other.start >= one.start and other.end <= one.end for other in self.of_kind("time")
            ):
                yield one.value.time(), one.text

    def _moments(self) -> Iterator[tuple[datetime, str]]:
        """Yield the moments; a day by itself is its beginning, a time by itself the next such time."""
        whole = self.of_kind("datetime")
        for one in whole:
            yield self._zoned(one.value), one.text
        for one in self.of_kind("date", "time"):
            if any(other.start <= one.start and one.end <= other.end for other in whole):
                continue
            if isinstance(one.value, date):
                yield self._zoned(datetime.combine(one.value, time())), one.text
            else:
                moment = self._zoned(datetime.combine(self.now.date(), one.value))
                yield moment if moment >= self._zoned(self.now) else moment + timedelta(1), one.text

    def _zoned(self, moment: datetime) -> datetime:
        zone: tzinfo = self.now.tzinfo or UTC
        return moment if moment.tzinfo else moment.replace(tzinfo=zone)

    def _offset(self, moment: time) -> str:
        zoned = self._zoned(datetime.combine(self.now.date(), moment)).isoformat()
        return "Z" if zoned.endswith("+00:00") else zoned[-6:]

    def _in_form(self, form: str) -> Iterator[tuple[Any, str]]:
        """Yield dates and times in the form that a description asks for."""
        has_day, has_time = "%d" in form, "%H" in form
        if has_day and has_time:
            for moment, text in self._moments():
                yield moment.strftime(form), text
        elif has_day:
            for one in self.of_kind("date", "datetime"):
                yield one.value.strftime(form), one.text
        else:
            for hour, text in self._times():
                yield hour.strftime(form), text
