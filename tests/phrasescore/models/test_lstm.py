"""What the LSTM drops in training; other promises are in test_networks."""

import torch

from phrasescore.models.batches import batch_pairs
from phrasescore.models.lstm import LstmNetwork
from phrasescore.settings.kinds import LstmConfig


def test_dropout_leaves_the_recurrent_connections_whole() -> None:
    # All that comes from embeddings and from the layer below is dropped (or nearly: at 0.9 of 5 or
    # 6 units by far most). Were the last h dropped as well, a long copy of one state would differ
    # from row to row; with embeddings, weights from below and the softmax' weights at 0 only the
    # recurrent connections are left, and every row is the same.
    model = LstmNetwork(LstmConfig(2, 6, 5, init_range=0.8, dropout=0.9), 6, 7)
    model.initialize(torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.source_embedding.zero_()
        model.target_embedding.zero_()
        for stack in (model.encoder, model.decoder):
            stack.get_parameter("layers.1.input.weight").zero_()
    batch = batch_pairs([([2, 3, 4, 5], [])] * 20)
    torch.manual_seed(0)
    steps_seen: list[torch.Tensor] = []
    model.decoder.register_forward_hook(lambda _module, _inputs, out: steps_seen.append(out[1]))
    model(batch)
    hidden = steps_seen[0]  # (layers, batch, hidden)
    assert torch.equal(hidden, hidden[:, :1].expand_as(hidden))
    assert hidden.abs().min().item() > 0
