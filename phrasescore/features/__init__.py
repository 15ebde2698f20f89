"""Features of phrase pairs and translations, and the columns that request them.

:mod:`phrasescore.features.feature` has the contract of a feature, and
:mod:`phrasescore.features.columns` the kinds of columns. Each kind is a file of this folder.
Other packages provide features as classes with a method ``values(pairs)``, found by their entry
points: :mod:`phrasescore.features.packages`.
"""
