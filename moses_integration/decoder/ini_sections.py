"""Sections of a moses.ini that the embedded search need not look at.

Those of moses/Parameter.cpp that are of input, output, other searches or servers, by their full
names. Moses refuses a name that is neither here nor in :mod:`.search_limits`.
"""

_NAMES = """
alignment-output-file clean-lm-cache config context-string context-weights context-window
cube-pruning-deterministic-search cube-pruning-lazy-scoring daemon
default-non-term-for-empty-range-only description disable-discarding distortion dlm-model
glm-feature global-lexical-file include-lhs-in-search-graph include-segmentation-in-n-best
input-file input-scores labeled-n-best-list lattice-hypo-set lattice-samples link-param-count
lmbr-map-weight lmbr-p lmbr-pruning-factor lmbr-r lmbr-thetas lmodel-dub lmodel-oov-feature
max-chart-span max-partial-trans-opt mbr-scale mbr-size minlexr-memory minphr-memory mira
n-best-list n-best-list-file n-best-list-size n-best-trees no-cache non-terminals
output-hypo-score output-search-graph output-search-graph-extended output-search-graph-hypergraph
output-search-graph-pb output-search-graph-slf output-unknowns output-word-graph
phrase-boundary-source-feature phrase-boundary-target-feature phrase-length-feature
phrase-pair-feature print-alignment-info print-alignment-info-in-n-best print-all-derivations
print-id print-passthrough print-passthrough-in-n-best recover-input-path references
report-all-factors report-all-factors-in-n-best report-segmentation report-segmentation-enriched
rule-limit s2t-parsing-algorithm serial server server-keepalive-maxconn server-keepalive-timeout
server-log server-maxconn server-maxconn-backlog server-port server-timeout session-cache-size
session-timeout show-weights slmodel-beam slmodel-factor slmodel-file sort-word-alignment
source-label-overlap source-word-deletion-feature spe-aln spe-src spe-trg start-translation-id
target-word-insertion-feature text-type threads translation-all-details translation-details
tree-translation-details unknown-lhs unknown-word-prefix unknown-word-suffix unpruned-search-graph
verbose version word-translation-feature xml-brackets xml-input
"""
OTHER_SECTIONS = frozenset(_NAMES.split())
