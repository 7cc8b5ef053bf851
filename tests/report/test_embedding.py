"""The sentence embeddings that examples/python/attention_maps.py writes are those of PyTorch for the same weights, and
so are its attention weights.

usage: test_embedding.py ATTENTION_JSON MODEL_FOLDER        (needs torch and transformers)
"""

import json
import sys
import unittest

import torch
from transformers import BertModel, BertTokenizerFast

TOLERANCE = 1e-5
WRITTEN_DIGITS = 1e-4  # of the weights


class EmbeddingTest(unittest.TestCase):
    def setUp(self):
        self.tokenizer = BertTokenizerFast.from_pretrained(folder)
        # Eager: the only one of its attention implementations that hands out the weights.
        self.model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    def run_model(self, sentence):
        with torch.no_grad():
            return self.model(**self.tokenizer(sentence, return_tensors="pt"), output_attentions=True)

    def test_embeddings(self):
        for entry in sentences:
            with self.subTest(entry["sentence"]):
                mean = self.run_model(entry["sentence"]).last_hidden_state[0].mean(dim=0)
                difference = (mean / mean.norm() - torch.tensor(entry["embedding"])).abs().max().item()
                print(f"embedding of {entry['sentence']!r}: largest difference {difference:.1e}", file=sys.stderr)
                self.assertLess(difference, TOLERANCE)

    def test_weights(self):
        for entry in sentences:
            with self.subTest(entry["sentence"]):
                expected = torch.stack([layer[0] for layer in self.run_model(entry["sentence"]).attentions])
                difference = (expected - torch.tensor(entry["weights"])).abs().max().item()
                self.assertLess(difference, WRITTEN_DIGITS)


if __name__ == "__main__":
    folder = sys.argv.pop()
    with open(sys.argv.pop(), encoding="utf-8") as file:
        sentences = json.load(file)["sentences"]
    unittest.main()
