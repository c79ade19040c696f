"""For authors of plug-ins, and for our own tests: shipped fakes and the laws a plug-in must obey.

The fakes live beside what they stand in for or here; a law suite is a module per seam. Nothing
here knows a test framework: a law is a function that raises AssertionError.
"""
