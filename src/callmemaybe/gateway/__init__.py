"""Turns the intent to call a tool into an effect, at most once, with evidence.

Rules of this room: what a call may do next is a table (``lifecycle``); intent is on disk before the
effect and the result before anyone is told; an outcome that was not seen is never silently run
again; a tool's failure is a value (``Answer``), ours an exception. It knows no model, token, grammar
or array; ``gateway`` is the only module that waits.
"""
