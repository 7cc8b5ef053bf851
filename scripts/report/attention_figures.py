"""Figures of what the heads of a real model look at: scripts/heads.sh's and the report's."""

from dataclasses import dataclass

import plotly.graph_objects as go

from theme import BLUE, GREY, SEQUENTIAL, TEXT_SIZE, VERMILLION, figure

# Marks and articles are in no relation worth telling.
FILLERS = {"[CLS]", "[SEP]", ".", ",", "!", "?", "'", "a", "an", "the"}


@dataclass(frozen=True)
class Look:
    """Where a head looks: the key, other than the query and fillers, on which its row has most weight."""
    layer: int
    head: int
    query: int
    key: int
    weight: float


class Maps:
    """One sentence: its tokens and weights[layer][head][query][key]. Layers and heads are counted from 0."""

    def __init__(self, entry):
        self.sentence = entry["sentence"]
        self.tokens = entry["tokens"]
        self.weights = entry["weights"]

    @property
    def axis_tokens(self):
        """Different texts for all tokens, since an axis of categories would merge equal ones."""
        counts, texts = {}, []
        for token in self.tokens:
            counts[token] = counts.get(token, 0) + 1
            texts.append(token + " " * (counts[token] - 1))
        return texts

    def looks(self, query):
        keys = [k for k, token in enumerate(self.tokens) if token not in FILLERS and k != query]
        for layer, heads in enumerate(self.weights):
            for head, rows in enumerate(heads):
                key = max(keys, key=lambda k: rows[query][k])
                yield Look(layer, head, query, key, rows[query][key])

    def two_relations(self):
        """The two heads that tie one word to two others most firmly."""
        words = [q for q, token in enumerate(self.tokens) if token not in FILLERS]
        if len(words) < 3:
            return None
        best = None
        for query in words:
            strongest = {}
            for look in self.looks(query):
                if look.key not in strongest or look.weight > strongest[look.key].weight:
                    strongest[look.key] = look
            # Neighbours are what many heads look at whatever the words are.
            pair = sorted((look for look in strongest.values() if abs(look.key - query) > 1),
                          key=lambda look: -look.weight)[:2]
            if len(pair) == 2 and (best is None or pair[1].weight > best[1].weight):
                best = pair
        return best


def heads_grid(maps, name):
    """All heads, a small map each, in one heat map with gaps."""
    n, layers, heads = len(maps.tokens), len(maps.weights), len(maps.weights[0])
    side = n + 1
    size = (layers * side - 1, heads * side - 1)
    values = [[None] * size[1] for _ in range(size[0])]
    texts = [[""] * size[1] for _ in range(size[0])]
    for layer in range(layers):
        for head in range(heads):
            for q in range(n):
                for k in range(n):
                    row, column = layer * side + q, head * side + k
                    values[row][column] = maps.weights[layer][head][q][k]
                    texts[row][column] = f"layer {layer}, head {head}: {maps.tokens[q]} → {maps.tokens[k]}"
    plot = go.Figure(go.Heatmap(
        z=values, text=texts, hovertemplate="%{text}, %{z:.3f}<extra></extra>", hoverongaps=False,
        colorscale=SEQUENTIAL, zmin=0, zmax=1, showscale=False))
    middle = (n - 1) / 2
    plot.update_layout(
        xaxis={"title": {"text": "head"}, "tickvals": [h * side + middle for h in range(heads)],
               "ticktext": [str(h) for h in range(heads)], "showgrid": False, "zeroline": False},
        yaxis={"title": {"text": "layer"}, "tickvals": [i * side + middle for i in range(layers)],
               "ticktext": [str(i) for i in range(layers)], "showgrid": False, "zeroline": False,
               "autorange": "reversed"})
    return figure(f"{name}-grid", f"Every head of every layer reading “{maps.sentence}” (rows: queries, columns: keys; "
                  "bright: much weight): each looks at something else. Click on one to see it large.", plot, height=520)


def one_head(maps, name, layer, head):
    tokens = maps.axis_tokens
    plot = go.Figure(go.Heatmap(
        x=tokens, y=tokens, z=maps.weights[layer][head], colorscale=SEQUENTIAL, zmin=0, zmax=1,
        xgap=1, ygap=1, hovertemplate="%{y} → %{x}: %{z:.3f}<extra></extra>",
        colorbar={"title": {"text": "weight", "side": "right"}, "thickness": 12, "outlinewidth": 0}))
    axis = {"type": "category", "showgrid": False, "tickfont": {"size": TEXT_SIZE}, "dtick": 1}
    plot.update_layout(
        xaxis={**axis, "title": {"text": "key"}, "tickangle": -60},
        yaxis={**axis, "title": {"text": "query"}, "autorange": "reversed"})
    return figure(f"{name}-head", "One head large: each row is a query's weights over the keys and sums to 1.",
                  plot, height=520)


def one_budget(maps, name, pair):
    """A row of weights sums to 1: what one row can spend on two relations, and what two rows can."""
    first, second = pair
    tokens = maps.axis_tokens
    query = maps.tokens[first.query]
    rows = [maps.weights[look.layer][look.head][look.query] for look in pair]
    both = [(a + b) / 2 for a, b in zip(*rows)]
    labels = [f"layer {look.layer}, head {look.head}" for look in pair] + ["one row for both"]
    plot = go.Figure()
    for label, row, color in zip(labels, [*rows, both], [BLUE, VERMILLION, GREY]):
        plot.add_bar(name=label, x=tokens, y=row, marker_color=color,
                     hovertemplate=f"{label}: {query} → %{{x}}: %{{y:.3f}}<extra></extra>")
    plot.update_layout(
        barmode="group", yaxis={"title": {"text": f"weights of “{query}”"}, "range": [0, 1]},
        xaxis={"type": "category", "dtick": 1, "tickangle": -60, "showgrid": False})
    a, b = maps.tokens[first.key], maps.tokens[second.key]
    return figure(
        f"{name}-budget", f"One budget: two heads give “{query}” a row each and spend {first.weight:.2f} on “{a}” and "
        f"{second.weight:.2f} on “{b}”; a single row that serves both, here their mean, sums to 1 too and has "
        f"{both[first.key]:.2f} and {both[second.key]:.2f}.", plot, height=520)
