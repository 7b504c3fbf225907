"""Random Avro schemas, others that follow them, and values of them."""

from __future__ import annotations

from hypothesis import strategies as st

INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
MILLIS = st.integers(-(10**12), 10**13)

LOGICAL = [
    ({"type": "int", "logicalType": "date"}, st.integers(-100_000, 100_000)),
    ({"type": "long", "logicalType": "timestamp-millis"}, MILLIS),
    ({"type": "long", "logicalType": "timestamp-micros"}, MILLIS),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, MILLIS),
    ({"type": "string", "logicalType": "uuid"}, TEXT),
]
PRIMITIVES = [
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", TEXT),
    ("bytes", st.binary(max_size=5)),
    *LOGICAL,
]
WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
}


class Names:
    """Names of types that are not taken yet."""

    def __init__(self):
        self._count = 0

    def next(self):
        self._count += 1
        return f"t{self._count}"


@st.composite
def kinds(draw, names, depth, *, even):
    """A schema, and a strategy of its values without logical types.

    Args:
        draw: Hypothesis'.
        names: Of types.
        depth: How deeply types may still be in each other.
        even: Whether without arrays, maps and decimals.
    """
    chosen = draw(st.integers(0, (10 if even else 14) if depth else 8))
    if chosen <= 6:
        return draw(st.sampled_from(PRIMITIVES))
    if chosen == 7:
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=4, unique=True))
        schema = {"type": "enum", "name": names.next(), "symbols": symbols}
        return schema, st.sampled_from(symbols)
    if chosen == 8:
        size = draw(st.integers(1, 4))
        schema = {"type": "fixed", "name": names.next(), "size": size}
        return schema, st.binary(min_size=size, max_size=size)
    if chosen == 9:
        return draw(records(names, depth - 1, even=even))
    schema, values = draw(kinds(names, depth - 1, even=even))
    if chosen == 10:
        if isinstance(schema, list):
            return schema, values
        union = draw(st.sampled_from([["null", schema], [schema, "null"]]))
        return union, st.none() | values
    if chosen in (11, 12):
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    if chosen == 13:
        return {"type": "map", "values": schema}, st.dictionaries(TEXT, values, max_size=3)
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    return decimal, st.integers(-999_999_999, 999_999_999).map(
        lambda number: number.to_bytes(5, "big", signed=True)
    )


@st.composite
def records(draw, names=None, depth=2, *, even=True):
    """A record's schema, and a strategy of its values."""
    names = names or Names()
    fields = draw(st.lists(kinds(names, depth, even=even), min_size=1, max_size=4))
    schema = {
        "type": "record",
        "name": names.next(),
        "fields": [{"name": f"f{number}", "type": kind} for number, (kind, _) in enumerate(fields)],
    }
    values = {f"f{number}": values for number, (_, values) in enumerate(fields)}
    return schema, st.fixed_dictionaries(values)


@st.composite
def followers(draw, schema):
    """A schema that reads what another wrote: fields in another order, fewer, more, wider."""
    fields = []
    for field in schema["fields"]:
        fate = draw(st.integers(0, 9))
        if fate == 0 and len(schema["fields"]) > 1:
            continue
        kind = field["type"]
        if fate == 1 and isinstance(kind, str) and kind in WIDER:
            kind = draw(st.sampled_from(WIDER[kind]))
        if fate == 2 and not isinstance(kind, list):
            kind = ["null", kind]
        if isinstance(kind, dict) and kind["type"] == "record":
            kind = draw(followers(kind))
        name = field["name"]
        if fate == 3:
            fields.append({"name": f"{name}_now", "type": kind, "aliases": [name]})
        else:
            fields.append({"name": name, "type": kind})
    if draw(st.booleans()):
        fields.append({"name": "added", "type": "string", "default": "new"})
    if draw(st.booleans()):
        fields.append({"name": "none", "type": ["null", "long"], "default": None})
    return {**schema, "fields": draw(st.permutations(fields))}
