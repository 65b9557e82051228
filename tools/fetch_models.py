"""Fetch models of the catalog into the cache: `python tools/fetch_models.py demo gemma-3-270m`; --list shows them."""

import argparse
import sys

from pelton.checkpoint.hub import list_models, pull, where
from pelton.errors import EngineError


def main(arguments: list[str]) -> int:
    """Fetch what is named and print one path a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="show the catalog and what is in the cache")
    asked = parser.parse_args(arguments)
    if asked.list:
        for model in list_models():
            names = ", ".join((model.name, *model.also))
            print(f"{names:40} {model.num_bytes / 1e6:6.0f} MB  {where(model.name) or 'not fetched'}")
    try:
        for name in asked.names:
            print(pull(name))
    except EngineError as error:
        print(f"fetch_models: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
