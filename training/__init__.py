"""Training of the embedded model. The package never imports this, and needs none of it.

The problem: a model of ten million parameters that chooses a function among those offered and fills in its arguments.
There is no corpus of such requests, so they are generated: written functions with request templates, and made-up functions
that are new in every block, so that only reading the offered tools helps. Four rooms, each importing only those before it:
`data` (sources to batches), `nn` (the network and its loss), `optim` (steps and processes) and `export` (the shipped files).
`recipe` stands between `data` and `nn`: it reads the TOML file of a run. The modules beside them are the commands.
"""
