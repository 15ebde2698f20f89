"""Build the files of a phrase-based system from parallel text and word alignments.

`build_tables` writes what steps 4 to 7 of Moses' train-model.perl write: the lexical translation
tables, the phrase table and the lexicalised reordering table. `symmetrize` joins the alignments of
both directions, as step 3 does.
"""

from moses_integration.building.symmetrization import METHODS, symmetrize
from moses_integration.building.tables import BuiltTables, build_tables

__all__ = ["METHODS", "BuiltTables", "build_tables", "symmetrize"]
