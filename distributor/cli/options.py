"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(help="The topology, a YAML file (config/README.md).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
Logs = Annotated[Path, typer.Option("--logs", help="Directory for the processes' output.")]

DEFAULT_LOGS = Path("data/logs")
