"""A training step of Hugging Face transformers and torch, timed on request: the peer of `bench.perf.pretrain`.

That module runs this file in a separate process, possibly with another Python, so it imports nothing of the project.
Each model is the class that a user of transformers would choose, with the configuration of ours, torch's fused AdamW
and clipping by the global norm. Like those classes, it computes vocabulary scores at every position.

    python transformers.py '{"model": "bert", "layers": 4, ...}'      then one request per line on stdin
"""

import json
import sys
import time

import torch


def bert(c, rng):
    from transformers import BertConfig, BertForPreTraining

    network = BertForPreTraining(
        BertConfig(
            vocab_size=c["vocabulary"],
            hidden_size=c["width"],
            num_hidden_layers=c["layers"],
            num_attention_heads=c["heads"],
            intermediate_size=c["inner"],
            max_position_embeddings=c["positions"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    tokens = ids(c, rng)
    batch = {
        "input_ids": tokens,
        "token_type_ids": (torch.arange(c["length"]) > c["length"] // 2).long().expand_as(tokens).contiguous(),
        "labels": torch.where(torch.rand(tokens.shape, generator=rng) < 0.15, tokens, -100),
        "next_sentence_label": torch.randint(2, (c["batch"],), generator=rng),
    }
    return network, lambda: network(**batch).loss


def gpt(c, rng):
    """Uses GPT-2's class, because it calls torch's fused attention, and the class of the first GPT does not."""
    from transformers import GPT2Config, GPT2LMHeadModel

    network = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=c["vocabulary"],
            n_embd=c["width"],
            n_layer=c["layers"],
            n_head=c["heads"],
            n_inner=c["inner"],
            n_positions=c["positions"],
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    tokens = ids(c, rng)
    return network, lambda: network(input_ids=tokens, labels=tokens, use_cache=False).loss


def electra(c, rng):
    """Trains generator and discriminator jointly, with shared embeddings: transformers has no class for the pair."""
    from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

    def config(width, heads, inner):
        return ElectraConfig(
            vocab_size=c["vocabulary"],
            embedding_size=c["width"],
            hidden_size=width,
            num_hidden_layers=c["layers"],
            num_attention_heads=heads,
            intermediate_size=inner,
            max_position_embeddings=c["positions"],
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )

    g = c["generator"]
    generator = ElectraForMaskedLM(config(g["width"], g["heads"], g["inner"]))
    discriminator = ElectraForPreTraining(config(c["width"], c["heads"], c["inner"]))
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.generator_lm_head.weight = discriminator.electra.embeddings.word_embeddings.weight
    original = ids(c, rng)
    hidden = torch.rand(original.shape, generator=rng) < 0.15
    masked = torch.where(hidden, 4, original)
    labels = torch.where(hidden, original, -100)

    def loss():
        guess = generator(input_ids=masked, labels=labels)
        with torch.no_grad():
            drawn = torch.distributions.Categorical(logits=guess.logits[hidden]).sample()
        tokens = original.clone()
        tokens[hidden] = drawn
        return guess.loss + 50.0 * discriminator(input_ids=tokens, labels=(tokens != original).long()).loss

    return torch.nn.ModuleList([generator, discriminator]), loss


def t5(c, rng):
    from transformers import T5Config, T5ForConditionalGeneration

    network = T5ForConditionalGeneration(
        T5Config(
            vocab_size=c["vocabulary"],
            d_model=c["width"],
            d_kv=c["width"] // c["heads"],
            d_ff=c["inner"],
            num_layers=c["layers"],
            num_heads=c["heads"],
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )
    tokens = ids(c, rng)
    targets = torch.randint(5, c["vocabulary"], (c["batch"], c["targets"]), generator=rng)
    return network, lambda: network(input_ids=tokens, labels=targets).loss


class BiLm(torch.nn.Module):
    """Our network of ELMo: two directions of torch's LSTM with projection, shared embeddings, a tied output layer."""

    def __init__(self, vocabulary, state, cells, layers):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, state)
        self.directions = torch.nn.ModuleList(
            torch.nn.LSTM(state, cells, num_layers=layers, proj_size=state) for _ in range(2)
        )
        self.bias = torch.nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):  # [T, B]
        total = 0.0
        for direction, order in zip(self.directions, (tokens, tokens.flip(0)), strict=True):
            hidden, _ = direction(self.tokens(order))
            scores = torch.nn.functional.linear(hidden[:-1].flatten(0, 1), self.tokens.weight, self.bias)
            total = total + torch.nn.functional.cross_entropy(scores, order[1:].flatten())
        return total / 2


def elmo(c, rng):
    network = BiLm(c["vocabulary"], c["width"] // 2, c["inner"], c["layers"])
    tokens = ids(c, rng).T.contiguous()
    return network, lambda: network(tokens)


class LeftLm(torch.nn.Module):
    """torch's LSTM and a tied output layer."""

    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.LSTM(width, width, num_layers=layers)

    def forward(self, tokens):  # [T, B]
        hidden, _ = self.layers(self.tokens(tokens))
        scores = torch.nn.functional.linear(hidden[:-1].flatten(0, 1), self.tokens.weight)
        return torch.nn.functional.cross_entropy(scores, tokens[1:].flatten())


def lm_lstm(c, rng):
    network = LeftLm(c["vocabulary"], c["width"], c["layers"])
    tokens = ids(c, rng).T.contiguous()
    return network, lambda: network(tokens)


def ids(c, rng):
    return torch.randint(5, c["vocabulary"], (c["batch"], c["length"]), generator=rng)


def main():
    c = json.loads(sys.argv[1])
    torch.set_num_threads(c["threads"])
    torch.manual_seed(0)
    network, loss = globals()[c["model"]](c, torch.Generator().manual_seed(0))
    network.train()
    weights = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        return value.item()

    square = torch.randn(2048, 2048)

    def product():
        torch.mm(square, square)

    jobs = {"step": step, "sgemm": product}
    for line in sys.stdin:
        request = json.loads(line)
        began, used = time.perf_counter(), time.process_time()
        for _ in range(request["times"]):
            jobs[request["job"]]()
        spent = {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
        print(json.dumps(spent), flush=True)


if __name__ == "__main__":
    main()
