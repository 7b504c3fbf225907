"""Libraries that not everybody needs, and the extras of the distribution that bring them.

A producer needs none of them. Modules import what they need as if it were there; whoever stands
between them and people, a command line or a package that users import, does so in `told_of_extras`.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTRIBUTION = "dafka-distributor"

EXTRAS = {
    "arrow": ("numpy", "pyarrow"),
    "dashboard": ("starlette", "uvicorn"),
    "distributor": ("cryptography", "google.protobuf", "grpc"),
    "gateway": ("kio",),
    "kafka": ("confluent_kafka",),
    "png": ("PIL", "pygraphviz"),
    "schemas": (
        *("avro", "fastavro", "google.protobuf", "grpc_tools", "jsonschema", "referencing"),
        *("starlette", "uvicorn"),
    ),
    "spark": ("numpy", "pyarrow", "pyspark"),
    "traces": ("opentelemetry",),
}
"""The modules that each brings, as they are imported."""


class MissingExtraError(ModuleNotFoundError):
    """What was asked for needs a library that is not installed: the message says how to.

    Attributes:
        extras: Those that bring it.
    """

    def __init__(self, name: str, extras: tuple[str, ...], complaint: str | None = None) -> None:
        ways = " or ".join(f"pip install '{DISTRIBUTION}[{extra}]'" for extra in extras)
        super().__init__(complaint or f"{name} is not installed: {ways}", name=name)
        self.extras = extras


def extras_of(name: str) -> tuple[str, ...]:
    """Return the extras that bring a module, in the order of the alphabet; none for most."""
    return tuple(
        extra
        for extra, modules in EXTRAS.items()
        # `google` itself is missing where no distribution has any part of it.
        if any(_inside(name, module) or _inside(module, name) for module in modules)
    )


def require(extra: str) -> None:
    """Make sure that an extra is installed, without importing what it brings.

    Raises:
        MissingExtraError: A module of it is not there.
    """
    for module in EXTRAS[extra]:
        parent, _, _ = module.partition(".")
        if find_spec(parent) is None or find_spec(module) is None:
            raise MissingExtraError(module, (extra,))


def _inside(name: str, module: str) -> bool:
    return f"{name}.".startswith(f"{module}.")


@contextmanager
def told_of_extras() -> Iterator[None]:
    """Have whoever lacks an extra told so, or what an extra needs of the system.

    Raises:
        MissingExtraError: A module is not there that an extra brings, or cannot be loaded.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        extras = extras_of(error.name or "")
        if not extras:
            raise
        raise MissingExtraError(error.name or "", extras) from error
    except ImportError as error:
        name = _unloadable(error)
        if name is None:
            raise
        complaint = f"{name} cannot be loaded: {error}: install what has it on this system"
        raise MissingExtraError(name, extras_of(name), complaint) from error


def _unloadable(error: ImportError) -> str | None:
    """The package of an extra whose compiled module lacks something, as slim systems do."""
    path = error.path or ""
    if not path.endswith(tuple(EXTENSION_SUFFIXES)):
        return None
    return next((part for part in reversed(PurePath(path).parts) if extras_of(part)), None)
