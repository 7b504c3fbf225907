"""Options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="The topology, a YAML file (config/README.md).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
Logs = Annotated[Path, typer.Option("--logs", help="Directory for the processes' output.")]

DEFAULT_LOGS = Path("data/logs")


class Engine(Enum):
    """What runs a link."""

    NATIVE = "native"
    SPARK = "spark"


Master = Annotated[str, typer.Option(help="spark: where it runs, local[*] or spark://HOST:PORT.")]
Conf = Annotated[
    list[str],
    typer.Option(
        "--conf", default_factory=list, show_default="none", help="spark: NAME=VALUE; repeatable."
    ),
]
