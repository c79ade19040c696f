"""The program ``callmemaybe``: files and a terminal around ``Caller``, the gateway and the server.

Each command is a file (``run``, ``eval``, ``chat``, ``serve``, ``check``, ``gateway``, ``trace``,
``listings``) that registers itself with ``main``, which turns every way to end into one exit code and
one line. A run must survive what happens to programs: a signal, a full disk, a closed stream, a result
file of an earlier run. Therefore results are written atomically, with notes beside them that tell a later
run what is finished (``results``); signals and streams are handled in one place (``process``); and
whatever can be wrong is checked before a model is loaded.

Heavy packages are imported after these checks. The commands know no token and no grammar.
"""
