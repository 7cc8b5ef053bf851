"""The sentence embeddings that examples/python/attention_maps.py writes are those of PyTorch for the same weights.

usage: test_embedding.py ATTENTION_JSON      compares with what PyTorch gave once: embeddings.json; README.md tells how
"""

import json
import sys
import unittest
from pathlib import Path

TOLERANCE = 1e-5
STORED = Path(__file__).parent / "embeddings.json"


class EmbeddingTest(unittest.TestCase):
    def test_embeddings(self):
        expected = json.loads(STORED.read_text(encoding="utf-8"))
        self.assertEqual([entry["sentence"] for entry in sentences], list(expected))
        for entry in sentences:
            with self.subTest(entry["sentence"]):
                got, wanted = entry["embedding"], expected[entry["sentence"]]
                self.assertEqual(len(got), len(wanted))
                difference = max(abs(a - b) for a, b in zip(got, wanted))
                print(f"embedding of {entry['sentence']!r}: largest difference {difference:.1e}", file=sys.stderr)
                self.assertLess(difference, TOLERANCE)


if __name__ == "__main__":
    with open(sys.argv.pop(), encoding="utf-8") as file:
        sentences = json.load(file)["sentences"]
    unittest.main()
