"""Training of the embedded model: pieces, verbs and whole recipes.

Nothing here is imported by the package or needs to be installed to use it.
"""
