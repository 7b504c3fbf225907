"""Every key of a topology file, and which may be left out."""

KEYS = {
    "file": (
        *("version", "name", "clusters", "tree", "levels", "topics", "placement"),
        *("retention", "links", "metrics", "control", "fields", "topic_format", "schemas"),
        *("heartbeat_ms", "offsets"),
    ),
    "cluster": (
        *("name", "id", "host", "towers", "stores", "targets", "security", "insecure"),
        *("wire", "classic", "registry", "subject_format", "receive_only"),
    ),
    "schemas": ("primary",),
    "offsets": ("margin_ms", "translation", "groups"),
    "group": ("pattern", "margin_ms"),
    "security": ("access", "cluster_key", "key"),
    "store": ("query", "data", "durability"),
    "branch": ("level", "children"),
    "levels": ("epoch", "retired"),
    "topics": ("include", "exclude"),
    "placement": ("topics", "clusters"),
    "retention": ("topics", "age_s", "bytes"),
    "links": (
        *("failover_after_ms", "failback", "repair_after_ms", "bytes_per_s", "records_per_s"),
    ),
    "ports": ("host", "first_port"),
}
"""Every key there is, by what it belongs to."""

OPTIONAL = {
    *("topics", "retention", "links", "metrics", "control", "host", "targets"),
    *("include", "exclude", "durability", "age_s", "bytes", "security", "insecure"),
    *("wire", "classic", "registry", "subject_format", "fields", "schemas"),
    *("heartbeat_ms", "topic_format", "offsets"),
    *("receive_only", "levels", "placement"),
    *KEYS["levels"],
    *KEYS["links"],
    *KEYS["offsets"],
}

REQUIRED = {("retention", "topics"), ("group", "margin_ms"), ("placement", "topics")}
"""Keys that are optional elsewhere."""
