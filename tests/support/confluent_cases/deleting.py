"""Deleting, softly and for good."""

from __future__ import annotations

from tests.support.confluent_cases.case import (
    ANY,
    INT,
    ITEM,
    LONG,
    ORDER,
    TEXT,
    Case,
    record,
    reference,
    schema,
)

A, ITEMS, ORDERS = (f"POST /subjects/{name}/versions" for name in ("a", "item", "order"))
NONE = {"compatibility": "NONE"}
TWO = [Case(A, INT, 200, {"id": 1}), Case(A, LONG, 200, {"id": 2})]
BOX = record(("item", "Item"), name="Box")

SEQUENCES = {
    "a version is deleted softly and then for good": [
        *TWO,
        Case(
            "DELETE /subjects/a/versions/2?permanent=true",
            None,
            40407,
            "Subject 'a' Version 2 was not deleted first before being permanently deleted",
        ),
        Case("DELETE /subjects/a/versions/2", None, 200, 2),
        Case("DELETE /subjects/a/versions/2", None, 40406, ANY),
        Case("GET /schemas/ids/2", None, 200, LONG),
        Case("DELETE /subjects/a/versions/2?permanent=true", None, 200, 2),
        Case("GET /subjects/a/versions?deleted=true", None, 200, [1]),
        Case("DELETE /subjects/a/versions/2?permanent=true", None, 40402, "Version 2 not found."),
        Case("GET /schemas/ids/2", None, 40403, "Schema 2 not found"),
        Case(f"{A}", LONG, 200, {"id": 3}),
    ],
    "a subject is deleted softly and then for good": [
        *TWO,
        Case(
            "DELETE /subjects/a?permanent=true",
            None,
            40405,
            "Subject 'a' was not deleted first before being permanently deleted",
        ),
        Case("DELETE /subjects/a", None, 200, [1, 2]),
        Case("DELETE /subjects/a", None, 40404, ANY),
        Case("GET /subjects/a/versions", None, 40401, "Subject 'a' not found."),
        Case("POST /subjects/a", INT, 40401, "Subject 'a' not found."),
        Case("POST /subjects/a?deleted=true", INT, 200, ANY),
        Case("DELETE /subjects/a?permanent=true", None, 200, [1, 2]),
        Case("DELETE /subjects/a?permanent=true", None, 40401, "Subject 'a' not found."),
        Case("GET /subjects?deleted=true", None, 200, []),
    ],
    "what is not there is not deleted": [
        Case("DELETE /subjects/a", None, 40401, "Subject 'a' not found."),
        Case("DELETE /subjects/a?permanent=true", None, 40401, "Subject 'a' not found."),
        Case("DELETE /subjects/a/versions/1", None, 40401, "Subject 'a' not found."),
        *TWO,
        Case("DELETE /subjects/a/versions/3", None, 40402, "Version 3 not found."),
        Case("DELETE /subjects/a/versions/0", None, 42202, ANY),
        Case("DELETE /subjects/a/versions/last", None, 42202, ANY),
    ],
    "the latest version is deleted": [
        *TWO,
        Case("DELETE /subjects/a/versions/latest", None, 200, 2),
        Case("DELETE /subjects/a/versions/latest", None, 200, 1),
        Case("DELETE /subjects/a/versions/latest", None, 40402, "Version -1 not found."),
    ],
    "what is registered again after all was deleted is a further version": [
        *TWO,
        Case("DELETE /subjects/a", None, 200, [1, 2]),
        Case(A, INT, 200, {"id": 1}),
        Case(A, LONG, 200, {"id": 2}),
        Case("GET /subjects/a/versions", None, 200, [3, 4]),
        Case("GET /subjects/a/versions/1", None, 40402, "Version 1 not found."),
    ],
    "a schema that is registered again takes the place of its deleted version": [
        Case("PUT /config", NONE),
        *TWO,
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case(A, INT, 200, {"id": 1}),
        Case("GET /subjects/a/versions?deleted=true", None, 200, [2, 3]),
        Case("GET /subjects/a/versions/1?deleted=true", None, 40402, "Version 1 not found."),
    ],
    "but not if somebody refers to it": [
        Case(ITEMS, ITEM, 200, {"id": 1}),
        Case(ORDERS, ORDER, 200, {"id": 2}),
        Case("DELETE /subjects/order", None, 200, [1]),
        Case("DELETE /subjects/item", None, 200, [1]),
        Case(ITEMS, ITEM, 200, {"id": 1}),
        Case("GET /subjects/item/versions?deleted=true", None, 200, [1, 2]),
        Case("GET /subjects/item/versions/1/referencedby?deleted=true", None, 200, [2]),
        Case("GET /subjects/item/versions/1/referencedby", None, 200, []),
    ],
    "what others use stays": [
        Case(ITEMS, ITEM, 200, {"id": 1}),
        Case(ORDERS, ORDER, 200, {"id": 2}),
        Case("DELETE /subjects/item", None, 42206, ANY),
        Case("DELETE /subjects/item/versions/1", None, 42206, ANY),
        Case("DELETE /subjects/order", None, 200, [1]),
        Case("DELETE /subjects/item", None, 200, [1]),
        Case("DELETE /subjects/item/versions/1?permanent=true", None, 42206, ANY),
        Case("DELETE /subjects/item?permanent=true", None, 42206, ANY),
        Case("DELETE /subjects/order?permanent=true", None, 200, [1]),
        Case("DELETE /subjects/item?permanent=true", None, 200, [1]),
    ],
    "a subject whose versions use one another is deleted": [
        Case("PUT /config", NONE),
        Case(ITEMS, ITEM, 200, {"id": 1}),
        Case(
            ITEMS,
            schema(BOX, references=[reference("Item", "item", 1)]),
            200,
            {"id": 2},
        ),
        Case("DELETE /subjects/item/versions/1", None, 42206, ANY),
        Case("DELETE /subjects/item", None, 200, [1, 2]),
        Case("DELETE /subjects/item?permanent=true", None, 200, [1, 2]),
    ],
    "a subject that is gone leaves no level and no mode": [
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /config/a", NONE),
        Case("PUT /mode/a", {"mode": "READWRITE"}),
        Case("DELETE /subjects/a", None, 200, [1]),
        Case("GET /config/a", None, 200, {"compatibilityLevel": "NONE"}),
        Case("DELETE /subjects/a?permanent=true", None, 200, [1]),
        Case("GET /config/a", None, 40408, ANY),
        Case("GET /mode/a", None, 40409, ANY),
    ],
    "nor does one whose last version is gone": [
        Case(A, INT, 200, {"id": 1}),
        Case("PUT /config/a", NONE),
        Case("DELETE /subjects/a/versions/1", None, 200, 1),
        Case("DELETE /subjects/a/versions/1?permanent=true", None, 200, 1),
        Case("GET /config/a", None, 40408, ANY),
    ],
    "what is deleted is not compared with": [
        Case(A, INT, 200, {"id": 1}),
        Case(A, TEXT, 409, ANY),
        Case("DELETE /subjects/a/versions/latest", None, 200, 1),
        Case("POST /compatibility/subjects/a/versions", TEXT, 200, {"is_compatible": True}),
        Case("POST /compatibility/subjects/a/versions/1", TEXT, 40402, "Version 1 not found."),
        Case(A, TEXT, 200, {"id": 2}),
    ],
}
