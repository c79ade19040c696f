"""Custom components: Home Assistant imports this folder as a package in tests."""
