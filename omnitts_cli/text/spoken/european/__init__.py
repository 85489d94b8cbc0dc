"""Languages whose written forms are read by one set of rules and a table each. The rules are in `dates`, `names` and
`quantities`; a further language is a module with a TABLE, a name here, and files of lines in tests/text/languages.
"""

MODULES = {"es": "spanish", "fr": "french", "it": "italian", "pt": "portuguese"}
"""The language -> the module that has its TABLE, which is loaded when a text needs it."""
