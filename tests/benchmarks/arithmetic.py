"""How many floating-point operations the matrix products of scoring need.

Counted are products only, two operations for each pair of factors; gates, exponentials and sums
come on top.
"""

from __future__ import annotations

from collections.abc import Sequence

from phrasescore.models.encoder_decoder import EncoderDecoder
from phrasescore.scoring.tree_scorer import PairWork
from tests.benchmarks.plain_torch import IdPair


def plan_operations(work: PairWork, model: EncoderDecoder) -> float:
    """Return the operations of the scorer for the work that it says it did.

    Words come in by tables, so no product with an embedding is among them.
    """
    sizes = model.config
    hidden, maxout, rank = sizes.hidden_size, sizes.maxout_size, sizes.output_rank
    shortlist = len(model.target_embedding)
    source = hidden * hidden * (1 + 1 + 3) + 2 * maxout * hidden  # V, V', C and O_c
    distribution = 2 * maxout * hidden + maxout * rank + rank * shortlist  # O_h, G_r and G_l
    return 2.0 * (
        work.source_nodes * 3 * hidden * hidden
        + work.sources * source
        + work.products * 3 * hidden * hidden
        + work.target_nodes * distribution
    )


def unshared_work(pairs: Sequence[IdPair]) -> PairWork:
    steps = sum(len(target) + 1 for _, target in pairs)
    return PairWork(
        pairs=len(pairs),
        source_nodes=sum(len(source) for source, _ in pairs),
        sources=len(pairs),
        target_nodes=steps,
        products=steps,
    )


def plain_operations(pairs: Sequence[IdPair], model: EncoderDecoder, batch_size: int) -> float:
    """Return the operations of ``plain_torch.score``: with padding and with the embeddings."""
    sizes = model.config
    hidden, embedding, maxout = sizes.hidden_size, sizes.embedding_size, sizes.maxout_size
    lengths = sorted((len(source), len(target) + 1) for source, target in pairs)
    source_steps = target_steps = 0
    for start in range(0, len(lengths), batch_size):
        batch = lengths[start : start + batch_size]
        source_steps += len(batch) * max(source for source, _ in batch)
        target_steps += len(batch) * max(target for _, target in batch)
    real = unshared_work(pairs)
    padded = PairWork(
        source_nodes=source_steps,
        sources=real.sources,
        products=target_steps,
        target_nodes=real.target_nodes,
    )
    inputs = (source_steps + target_steps) * 3 * hidden + real.target_nodes * 2 * maxout
    return plan_operations(padded, model) + 2.0 * inputs * embedding
