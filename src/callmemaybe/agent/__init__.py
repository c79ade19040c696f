"""Turns of a model and results of tools, until there is an answer."""
