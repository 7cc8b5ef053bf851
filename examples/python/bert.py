"""A BERT-style encoder whose attention runs on headwise, from its safetensors file. What is not attention is numpy."""

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from headwise_c import Layer

erf = np.vectorize(math.erf, otypes=[np.float32])


def gelu(x):
    return (0.5 * x * (1 + erf(x / np.float32(math.sqrt(2))))).astype(np.float32)


class Bert:
    """A folder with model.safetensors, config.json and tokenizer.json, as Hugging Face's BertModel is stored."""

    def __init__(self, folder, library):
        folder = Path(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config["model_type"] != "bert":
            raise ValueError(f"{folder}: model_type is {config['model_type']!r}, expected 'bert'")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.layer_count = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]
        self.epsilon = config["layer_norm_eps"]
        self._parameters = {name.removeprefix("bert."): array.astype(np.float32, copy=False)
                            for name, array in load_file(folder / "model.safetensors").items()}
        self._attention = [self._attention_layer(library, f"encoder.layer.{i}.attention")
                           for i in range(self.layer_count)]

    def _attention_layer(self, library, prefix):
        modules = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
        weights = {f"{kind}_{role}": np.ascontiguousarray(self._parameters[f"{prefix}.{module}.{stored}"])
                   for role, module in modules.items() for kind, stored in (("W", "weight"), ("b", "bias"))}
        return Layer(library, self.heads, weights)

    def _linear(self, name, x):
        return x @ self._parameters[f"{name}.weight"].T + self._parameters[f"{name}.bias"]

    def _layer_norm(self, name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred ** 2).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        return centred / scale * self._parameters[f"{name}.weight"] + self._parameters[f"{name}.bias"]

    def _embeddings(self, ids):
        tables = self._parameters
        x = (tables["embeddings.word_embeddings.weight"][ids]
             + tables["embeddings.position_embeddings.weight"][:len(ids)]
             + tables["embeddings.token_type_embeddings.weight"][0])
        return self._layer_norm("embeddings.LayerNorm", x)

    def encode(self, sentence):
        """The sentence's tokens, the last hidden state (n, d_model), and every weight (layers, heads, n, n)."""
        encoding = self.tokenizer.encode(sentence)
        n = len(encoding.ids)
        x = self._embeddings(encoding.ids)
        weights = np.empty((self.layer_count, self.heads, n, n), np.float32)
        for i, attention in enumerate(self._attention):
            name = f"encoder.layer.{i}"
            y = np.empty_like(x)
            attention.forward(np.ascontiguousarray(x), y, weights[i])
            x = self._layer_norm(f"{name}.attention.output.LayerNorm", x + y)
            inner = gelu(self._linear(f"{name}.intermediate.dense", x))
            x = self._layer_norm(f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", inner))
        return encoding.tokens, x, weights


def sentence_embedding(hidden):
    """The mean over the tokens, of length 1: what all-MiniLM-L6-v2 calls a sentence's embedding."""
    mean = hidden.mean(axis=0)
    return mean / np.linalg.norm(mean)
