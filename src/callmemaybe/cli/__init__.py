"""The command line: reads files, drives a Caller, writes files, and owns the terminal.

Rules of this room: bad input ends with one clear line and exit code 2 before a model is loaded; one
record per prompt whatever happens; files are replaced atomically; nothing heavy is imported until
a command needs it. It does not know tokens, masks or arrays: it shows what the Caller's steps say.
"""
