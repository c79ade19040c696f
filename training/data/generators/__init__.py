"""Made-up functions and values, new in every block.

A network that sees the same functions again learns them by heart. A function that exists in one block only can be called
by reading its name, description and parameters, so every generator here draws names, parameters and requests together.
`slots` and `word_pools` give typed values with their wordings; the other modules each practise one difficulty: units,
enums, booleans, values told apart by their form, tools that are easily confused, requests that name nothing.
"""
