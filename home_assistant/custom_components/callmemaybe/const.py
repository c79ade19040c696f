"""Names of settings, and what they are by default."""

from __future__ import annotations

DOMAIN = "callmemaybe"

CONF_MODEL = "model"
CONF_THRESHOLD = "threshold"
CONF_OWN_FIRST = "own_sentences_first"
CONF_CONFIRM = "confirm"

DEFAULT_MODEL = "nano"
#: A call that is less likely right than this is asked back and not made.
DEFAULT_THRESHOLD = 0.5
DEFAULT_OWN_FIRST = True
#: Domains of devices of which nothing is changed before a person has said yes, and device classes of covers.
RISKY = ("lock", "alarm_control_panel", "garage", "gate", "door", "valve")
DEFAULT_CONFIRM = list(RISKY)
