"""Tests in the real Home Assistant: not part of ``make test``."""
