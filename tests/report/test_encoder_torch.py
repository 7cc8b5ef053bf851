"""The encoder behind the maps beside PyTorch with the same weights: its attention weights, its sentence embeddings, and
the embeddings that test_embedding.py compares with where there is no PyTorch.

usage: test_encoder_torch.py ATTENTION_JSON MODEL_FOLDER        (needs torch and transformers)
       test_encoder_torch.py --store ATTENTION_JSON MODEL_FOLDER    writes embeddings.json anew
"""

import json
import sys
import unittest

import torch
from test_embedding import STORED, TOLERANCE
from transformers import BertModel, BertTokenizerFast

WRITTEN_DIGITS = 1e-4  # of the weights


class Encoder:
    def __init__(self, folder):
        self.tokenizer = BertTokenizerFast.from_pretrained(folder)
        # Eager: the only one of its attention implementations that hands out the weights.
        self.model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()

    def run(self, sentence):
        with torch.no_grad():
            return self.model(**self.tokenizer(sentence, return_tensors="pt"), output_attentions=True)

    def embedding(self, sentence):
        mean = self.run(sentence).last_hidden_state[0].mean(dim=0)
        return mean / mean.norm()


class EncoderTest(unittest.TestCase):
    @staticmethod
    def difference(sentence, embedding):
        return (encoder.embedding(sentence) - torch.tensor(embedding)).abs().max().item()

    def test_embeddings(self):
        for entry in sentences:
            with self.subTest(entry["sentence"]):
                difference = self.difference(entry["sentence"], entry["embedding"])
                print(f"embedding of {entry['sentence']!r}: largest difference {difference:.1e}", file=sys.stderr)
                self.assertLess(difference, TOLERANCE)

    def test_stored_embeddings(self):
        for sentence, stored in json.loads(STORED.read_text(encoding="utf-8")).items():
            with self.subTest(sentence):
                self.assertLess(self.difference(sentence, stored), TOLERANCE / 10)

    def test_weights(self):
        for entry in sentences:
            with self.subTest(entry["sentence"]):
                expected = torch.stack([layer[0] for layer in encoder.run(entry["sentence"]).attentions])
                difference = (expected - torch.tensor(entry["weights"])).abs().max().item()
                self.assertLess(difference, WRITTEN_DIGITS)


def store():
    embeddings = {entry["sentence"]: [round(value, 9) for value in encoder.embedding(entry["sentence"]).tolist()]
                  for entry in sentences}
    STORED.write_text(json.dumps(embeddings) + "\n", encoding="utf-8")


if __name__ == "__main__":
    encoder = Encoder(sys.argv.pop())
    with open(sys.argv.pop(), encoding="utf-8") as file:
        sentences = json.load(file)["sentences"]
    if sys.argv[1:] == ["--store"]:
        store()
    else:
        unittest.main()
