"""The section of what heads look at."""

from html import escape

from attention_figures import Maps, heads_grid, one_budget, one_head

# Where the two heads of the one-budget figure are known; else they are looked for.
KNOWN_RELATIONS = {
    "The animal didn't cross the street because it was too tired.": [("it", "animal", 3, 1), ("it", "tired", 2, 1)],
    "The cat chased the mouse.": [("cat", "chased", 5, 9), ("cat", "mouse", 5, 3)],
}

FIRM, MOST_TIES = 0.5, 3  # the weight from which a head ties two words, and how many heads are told


def relations(maps):
    known = KNOWN_RELATIONS.get(maps.sentence)
    if known is None:
        return maps.two_relations()
    found = []
    for query, key, layer, head in known:
        look = next(look for look in maps.looks(maps.tokens.index(query))
                    if (look.layer, look.head) == (layer, head))
        if maps.tokens[look.key] != key:  # another model
            return maps.two_relations()
        found.append(look)
    return found


def ties_text(maps, pair):
    """Which heads tie the pair's word to the two others, the firmest first."""
    told = []
    for of_pair in pair:
        firm = min(FIRM, of_pair.weight)
        ties = sorted((look for look in maps.looks(of_pair.query) if look.key == of_pair.key and look.weight >= firm),
                      key=lambda look: -look.weight)[:MOST_TIES]
        heads = ", ".join(f"layer {look.layer} head {look.head} ({look.weight:.2f})" for look in ties)
        told.append(f"to “{maps.tokens[of_pair.key]}” in {heads}")
    return f"“{maps.tokens[pair[0].query]}” is tied {' and '.join(told)}."


def choice(name, what, count, chosen):
    options = "".join(f'<option{" selected" if i == chosen else ""}>{i}</option>' for i in range(count))
    return f'<label>{what} <select id="{name}-{what}">{options}</select></label>'


def add_sentence(page, maps, name):
    page.add(f"<h3>{escape(maps.sentence)}</h3>")
    pair = relations(maps)
    layer, head = (pair[0].layer, pair[0].head) if pair else (0, 0)
    if pair:
        page.add(f"<p>{escape(ties_text(maps, pair))}</p>")
    page.show(heads_grid(maps, name))
    page.embed(f"{name}-weights", maps.weights)
    page.add(f'<div class="choices" data-maps="{name}">{choice(name, "layer", len(maps.weights), layer)}'
             f'{choice(name, "head", len(maps.weights[0]), head)}</div>')
    page.show(one_head(maps, name, layer, head), one_budget(maps, name, pair) if pair else None)


def add_heads(page, attention):
    page.section("What heads look at", f"Every layer's attention of {escape(str(attention['model']))}, run on headwise "
                 "with the weights asked for. Layers and heads are counted from 0.")
    for index, entry in enumerate(attention["sentences"]):
        add_sentence(page, Maps(entry), f"maps-{index}")
