"""The section of what heads look at."""

from html import escape

from attention_figures import Maps, heads_grid, one_budget, one_head

# Where the two heads of the one-budget figure are known; else they are looked for.
KNOWN_RELATIONS = {
    "The animal didn't cross the street because it was too tired.": [("it", "animal", 3, 1), ("it", "tired", 2, 1)],
    "The cat chased the mouse.": [("cat", "chased", 5, 9), ("cat", "mouse", 5, 3)],
}


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


def choice(name, what, count, chosen):
    options = "".join(f'<option{" selected" if i == chosen else ""}>{i}</option>' for i in range(count))
    return f'<label>{what} <select id="{name}-{what}">{options}</select></label>'


def add_sentence(page, maps, name):
    page.add(f"<h3>{escape(maps.sentence)}</h3>")
    pair = relations(maps)
    layer, head = (pair[0].layer, pair[0].head) if pair else (0, 0)
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
