"""The report: values in, blocks out, and a page of them."""

# The keys of all sections, in the order of the page.
SECTIONS = (
    "translations",
    "differences",
    "experiment",
    "tuning",
    "preferences",
    "samples",
    "scores",
    "words",
    "phrases",
    "sentences",
    "alignments",
    "parses",
    "training",
)
