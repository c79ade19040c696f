"""What values a text says: numbers in digits and words, dates, times, durations, addresses.

::

    from datetime import datetime
    from callmemaybe.values import read_values
    read_values("two dozen eggs, tomorrow at 5pm", datetime(2026, 11, 23, 10, 0))
    # Reading("number", 24, "two dozen"), Reading("datetime", 2026-11-24 17:00, "tomorrow at 5pm"), ...

English, French, German and Spanish are read; which of them a text is in is told by its commonest words. What is
said in words of another language is not read, digits are; :func:`other_language` tells such a text. Nothing here knows of tools or models.
"""

from callmemaybe.values.language import LANGUAGES, guess_language
from callmemaybe.values.opposites import OPPOSITE, opposite_in
from callmemaybe.values.other_languages import SEEMS, other_language, unread_language
from callmemaybe.values.reading import Reading, read_values
from callmemaybe.values.readings import ADDRESSES, Now, Readings

__all__ = [
    "ADDRESSES", "LANGUAGES", "OPPOSITE", "SEEMS", "Now", "Reading", "Readings", "guess_language", "opposite_in", "other_language", "read_values",
    "unread_language",
]  # fmt: skip
