"""The words of dates, times and amounts, by language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


def _numbered(text: str, first: int = 1) -> dict[str, int]:
    """Read ``a/b c/d`` as a: 1, b: 1, c: 2, d: 2."""
    return {word.replace("_", " "): at for at, words in enumerate(text.split(), first) for word in words.split("/")}  # fmt: skip


@dataclass(frozen=True)
class Words:
    """The words of one language; months and weekdays (Monday is 0) with their short forms."""

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    #: Days from today.
    days: Mapping[str, int]
    #: Units of time, in singular and plural.
    units: Mapping[str, str]
    #: What stands for 12, 2, a half; each may have a number in front.
    dozen: str
    couple: str
    half: str
    minus: str
    percent: str
    #: "and a half" behind a number.
    and_half: str
    #: Powers of ten behind numerals.
    scales: Mapping[str, int]
    #: An indefinite article: one of a unit.
    article: str
    #: Between the number and the unit of a length of time: "an hour AND 5 minutes".
    joint: str
    next_: str
    last: str
    this: str
    #: "in 3 days" with the number in group 1 and the unit in group 2; "3 days ago" likewise.
    ahead: str
    ago: str
    #: In front of a time: "at".
    at: str
    #: Another way to say "in 3 days".
    hence: str | None = field(default=None, kw_only=True)
    #: Between a day and a time.
    between: str
    noon: str
    midnight: str
    #: This moment.
    now: str
    #: Days that have names: month and day.
    holidays: Mapping[str, tuple[int, int]]
    #: Parts of a day that make an hour up to 12 one of the afternoon, or of the morning.
    evening: str
    morning: str
    #: Whether 3/4 is the fourth of March.
    month_first: bool = False
    #: Whether the comma stands in front of decimals.
    decimal_comma: bool = True

    @cached_property
    def month(self) -> str:
        """A pattern for a month's name."""
        return _any(self.months)

    @cached_property
    def weekday(self) -> str:
        """A pattern for a weekday's name."""
        return _any(self.weekdays)

    @cached_property
    def unit(self) -> str:
        """A pattern for a unit of time."""
        return _any(self.units)


def _any(words: Mapping[str, object]) -> str:
    return "(?:" + "|".join(sorted(words, key=len, reverse=True)) + ")"


def _units(text: str) -> dict[str, str]:
    names = ("second", "minute", "hour", "day", "week", "month", "year")
    return {word: name for name, words in zip(names, text.split(), strict=True) for word in words.split("/")}  # fmt: skip


EN = Words(
    months=_numbered(
        "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug september/sept/sep "
        "october/oct november/nov december/dec"),
    weekdays=_numbered(
        "mondays/monday/mon tuesdays/tuesday/tues/tue wednesdays/wednesday/wed thursdays/thursday/thurs/thur/thu "
        "fridays/friday/fri saturdays/saturday sundays/sunday", 0),
    days={"the day after tomorrow": 2, "day after tomorrow": 2, "the day before yesterday": -2,
          "day before yesterday": -2, "last night": -1, "tomorrow": 1, "tmr": 1, "tmrw": 1, "yesterday": -1, "today": 0, "tonight": 0,
          "this morning": 0, "this afternoon": 0, "this evening": 0},
    units=_units("seconds/second/secs/sec/s minutes/minute/mins/min hours/hour/hrs/hr/h days/day weeks/week/wks/wk "
                 "months/month/mos years/year/yrs/yr"),
    dozen="dozens?", couple="couple(?: of)?", half="half", minus="(?:minus|negative)", percent=r"(?:percent|per cent|pct)",
    and_half=r"and (?:a|one) half", scales={"k": 3, "thousand": 3, "grand": 3, "m": 6, "mn": 6, "mio": 6, "million": 6,
        "millions": 6, "b": 9, "bn": 9, "billion": 9, "billions": 9, "trillion": 12},
    article="(?:an|a)", joint="(?:and|,)", next_="(?:next|coming|following)", last="(?:last|past|previous)", this="this",
    ahead=r"(?:in|within) (\S+) ({unit})", ago=r"(\S+) ({unit}) ago", hence=r"(\S+) ({unit}) (?:from (?:now|today)|later)",
    at="(?:at|@|by|from|around|about|until|till|to|for|before|after)", between=r"(?:,|at|on|@|the|around|by|from|for|in)",
    noon="(?:noon|midday)", midnight="midnight", now="right now/now/at once/immediately",
    holidays={"christmas eve": (12, 24), "christmas": (12, 25), "christmas day": (12, 25), "boxing day": (12, 26),
              "new year's eve": (12, 31), "new year's day": (1, 1), "new year's": (1, 1), "halloween": (10, 31),
              "valentine's day": (2, 14)},
    evening=r"(?:in the (?:afternoon|evening)|at night|tonight|this (?:afternoon|evening)|(?:tomorrow|{weekday}) (?:afternoon|evening|night))",
    morning=r"(?:in the morning|this morning|(?:tomorrow|{weekday}) morning)", month_first=True, decimal_comma=False,
)  # fmt: skip
FR = Words(
    months=_numbered("janvier/janv février/fevrier/févr/fev mars avril/avr mai juin juillet/juil août/aout septembre/sept "
                     "octobre/oct novembre/nov décembre/decembre/déc"),
    weekdays=_numbered("lundi mardi mercredi jeudi vendredi samedi dimanche", 0),
    days={"après-demain": 2, "apres-demain": 2, "avant-hier": -2, "demain": 1, "hier": -1, "aujourd'hui": 0,
          "ce soir": 0, "ce matin": 0, "cet après-midi": 0, "cette nuit": 0},
    units=_units("secondes/seconde/sec/s minutes/minute/min heures/heure/h jours/jour semaines/semaine mois ans/an/années/année"),
    dozen="douzaines?", couple="(?:couple|paire) d(?:e |')", half="demi[- ]?e?", minus="moins", percent="(?:pour cent|pourcents?)",
    and_half="et demie?", scales={"k": 3, "mille": 3, "m": 6, "mio": 6, "million": 6, "millions": 6, "mds": 9, "md": 9,
        "milliard": 9, "milliards": 9},
    article="(?:une|un)", joint="(?:et|,)", next_="(?:prochaine?|suivante?)", last="(?:derni(?:er|ère)|pass[ée]e?)",
    this="(?:cette|cet|ce)", ahead=r"dans (\S+) ({unit})", ago=r"il y a (\S+) ({unit})",
    at="(?:à|a|vers|dès|jusqu'à|pour|de|avant|après)", between="(?:,|à|vers|le|pour|dès|au)",
    noon="midi", midnight="minuit", now="maintenant/tout de suite/immédiatement",
    holidays={"noël": (12, 25), "noel": (12, 25), "la saint-sylvestre": (12, 31), "le jour de l'an": (1, 1),
              "la saint-valentin": (2, 14), "la toussaint": (11, 1)},
    evening="(?:du soir|ce soir|de l'après-midi|cet après-midi|(?:demain|{weekday}) (?:soir|après-midi))",
    morning="(?:du matin|ce matin|(?:demain|{weekday}) matin)",
)  # fmt: skip
DE = Words(
    months=_numbered("januar/jänner/jan februar/feb märz/maerz/mär april/apr mai juni/jun juli/jul august/aug september/sept/sep "
                     "oktober/okt november/nov dezember/dez"),
    weekdays=_numbered("montags/montag dienstags/dienstag mittwochs/mittwoch donnerstags/donnerstag freitags/freitag "
                       "samstags/samstag/sonnabend sonntags/sonntag", 0),
    days={"übermorgen": 2, "uebermorgen": 2, "vorgestern": -2, "morgen": 1, "gestern": -1, "heute": 0, "heute abend": 0},
    units=_units("sekunden/sekunde/sek/s minuten/minute/min stunden/stunde/std/h tagen/tage/tag wochen/woche "
                 "monaten/monate/monat jahren/jahre/jahr"),
    dozen="dutzend", couple="paar", half="halbe[nrsm]?", minus="minus", percent="prozent", and_half="(?:und ein halb|einhalb)",
    scales={"k": 3, "tsd": 3, "tausend": 3, "mio": 6, "million": 6, "millionen": 6, "mrd": 9, "milliarde": 9, "milliarden": 9},
    article="ein(?:e[nrsm]?)?", joint="(?:und|,)", next_="(?:(?:über)?nächste[nrsm]?|kommende[nrsm]?)",
    last="(?:letzte[nrsm]?|vorige[nrsm]?|vergangene[nrsm]?)", this="diese[nrsm]?", ahead=r"in (\S+) ({unit})",
    ago=r"vor (\S+) ({unit})", at="(?:um|ab|gegen|bis|von|vor|nach)", between="(?:,|um|ab|gegen|am|den|für)",
    noon="(?:mittags?|12 uhr mittags)", midnight="mitternacht", now="jetzt/sofort",
    holidays={"heiligabend": (12, 24), "weihnachten": (12, 25), "silvester": (12, 31), "neujahr": (1, 1)},
    evening="(?:nachmittags?|abends?|(?:heute|morgen|{weekday}) ?(?:nachmittag|abend))",
    morning="(?:morgens|vormittags?|früh|heute morgen|(?:morgen|{weekday}) ?(?:früh|vormittag|morgen))",
)  # fmt: skip
ES = Words(
    months=_numbered("enero/ene febrero/feb marzo/mar abril/abr mayo junio/jun julio/jul agosto/ago septiembre/setiembre/sept/sep "
                     "octubre/oct noviembre/nov diciembre/dic"),
    weekdays=_numbered("lunes martes miércoles/miercoles jueves viernes sábado/sabado domingo", 0),
    days={"pasado mañana": 2, "anteayer": -2, "mañana": 1, "ayer": -1, "hoy": 0, "esta noche": 0, "esta tarde": 0,
          "esta mañana": 0},
    units=_units("segundos/segundo/seg/s minutos/minuto/min horas/hora/h días/día/dias/dia semanas/semana meses/mes años/año"),
    dozen="docenas?", couple="(?:par|pareja) de", half="medi[ao]", minus="menos", percent="por ciento",
    and_half="y medi[ao]", scales={"k": 3, "mil": 3, "millón": 6, "millones": 6, "mm": 6},
    article="(?:una|un)", joint="(?:y|,)", next_="(?:próxim[ao]|proxim[ao]|que viene|siguiente)", last="(?:pasad[ao]|últim[ao])",
    this="(?:esta|este)", ahead=r"(?:en|dentro de) (\S+) ({unit})", ago=r"hace (\S+) ({unit})",
    at="(?:a las?|las|la|desde las?|hasta las?|sobre las?)", between="(?:,|a|el|para|sobre)", noon="mediod[ií]a",
    midnight="medianoche", now="ahora mismo/ahora/inmediatamente",
    holidays={"nochebuena": (12, 24), "navidad": (12, 25), "nochevieja": (12, 31), "año nuevo": (1, 1), "reyes": (1, 6)},
    evening="(?:de la (?:tarde|noche)|esta (?:tarde|noche)|(?:mañana|{weekday}) por la (?:tarde|noche))",
    morning="(?:de la mañana|(?:mañana|{weekday}) por la mañana)",
)  # fmt: skip
TABLES: Mapping[str, Words] = {"en": EN, "fr": FR, "de": DE, "es": ES}
