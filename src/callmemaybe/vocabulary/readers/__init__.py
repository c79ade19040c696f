"""One module per file format; each offers the constant READER (see ``vocabulary.Reader``)."""
