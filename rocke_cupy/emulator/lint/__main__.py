"""``python -m rocke_cupy.emulator.lint FILE [...]``: print what is wrong with code objects."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from rocke_cupy.emulator.lint.report import check
from rocke_cupy.emulator.program.code_object import CodeObjectError


def main(arguments: list[str] | None = None) -> int:
    """Print the findings in files; return 0 if there are none, 1 if there are, 2 on an error."""
    parser = argparse.ArgumentParser(
        prog="python -m rocke_cupy.emulator.lint",
        description="Find in gfx950 code objects what only hardware would show: missing wait "
        "states, known errata, wrong descriptors.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a code object")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        found = {str(file): check(file.read_bytes()) for file in options.files}
    except (OSError, CodeObjectError) as error:
        print(f"rocke_cupy: {error}", file=sys.stderr)
        return 2
    if options.json:
        plain = {file: list(map(dataclasses.asdict, findings)) for file, findings in found.items()}
        print(json.dumps(plain, indent=2))
    else:
        for file, findings in found.items():
            print("\n".join([f"{file}: {len(findings)} findings", *map(str, findings)]))
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
