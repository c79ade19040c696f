"""JSON in and out: one strict reader, one writer."""
