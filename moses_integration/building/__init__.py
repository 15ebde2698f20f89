"""Build the files of a phrase-based system from parallel text and word alignments.

`build_tables` writes what steps 4 to 7 of Moses' train-model.perl write: the lexical translation
tables, the phrase table and the lexicalised reordering table. `symmetrize` joins the alignments of
both directions, as step 3 does, and `moses_ini` writes the configuration, as step 9 does.
"""

from moses_integration.building.configuration import moses_ini
from moses_integration.building.symmetrization import symmetrize
from moses_integration.building.tables import REORDERING_TABLE, build_tables

__all__ = ["REORDERING_TABLE", "build_tables", "moses_ini", "symmetrize"]
