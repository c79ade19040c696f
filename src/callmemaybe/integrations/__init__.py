"""Hosts that drive us, and services we drive: one file per foreign library, imported only there.

Rules of this room: a module is named after the library it speaks to and is the only one that imports it;
nothing below knows this room.
"""
