"""Build the files of a phrase-based system from parallel text and word alignments.

`tables` writes what steps 4 to 7 of Moses' train-model.perl write: the lexical translation tables,
the phrase table and the lexicalised reordering table. `symmetrization` joins the alignments of both
directions, as step 3 does.
"""
