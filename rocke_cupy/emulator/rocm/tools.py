"""The real hipRTC and comgr libraries of a ROCm version, in the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy import cache
from rocke_cupy.emulator.rocm.say import say
from rocke_cupy.emulator.rocm.wheel import Wheel, fetch

VERSION_VARIABLE = "ROCKE_EMULATOR_ROCM"
DEFAULT_VERSION = "7.0"


# Which version of the wheel carries which ROCm, with the digest that PyPI publishes for it.
_WHEELS = {
    "7.0": Wheel("10", "1c59ba03602f578273676010cf3d08bbf29e0afe756e1bf8e4308ba331517c13", 78),
    "7.14": Wheel("11.1.0", "42599353ee4c708290405f7b8b20a944ef696e4a5ba34fedeec891fc2b9d5d93", 88),
}
VERSIONS = tuple(_WHEELS)
"""ROCm versions whose compiler can be had."""


@dataclass(frozen=True)
class RocmTools:
    """The compiler libraries of one ROCm version.

    Attributes
    ----------
    version : str
        ROCm version, "7.0" or "7.14".
    folder : pathlib.Path
        Where the libraries lie. Loading them needs it in ``LD_LIBRARY_PATH``: hipRTC opens comgr
        by its plain name.
    hiprtc, comgr : pathlib.Path
        The two libraries.
    """

    version: str
    folder: Path
    hiprtc: Path
    comgr: Path


def chosen_version(version: str | None = None) -> str:
    """Return the ROCm version to use: `version`, else ``$ROCKE_EMULATOR_ROCM``, else "7.0"."""
    name = "version"
    if version is None:
        name, version = VERSION_VARIABLE, os.environ.get(VERSION_VARIABLE) or DEFAULT_VERSION
    if version not in _WHEELS:
        raise ValueError(f"{name}={version!r} must be one of {', '.join(VERSIONS)}")
    return version


def rocm_tools(version: str | None = None) -> RocmTools:
    """Return the compiler libraries of a ROCm version, fetched at first use.

    Parameters
    ----------
    version : str, optional
        "7.0" or "7.14"; by default ``$ROCKE_EMULATOR_ROCM``, else "7.0".

    Returns
    -------
    RocmTools

    Raises
    ------
    ToolsError
        If they are not in the cache and cannot be downloaded.
    """
    version = chosen_version(version)
    wheel = _WHEELS[version]
    folder = cache.cache_dir() / "rocm" / f"{version}-{wheel.sha256[:12]}"
    if not folder.is_dir():
        with cache.lock(
            folder, lambda: say(f"waiting for another process that fetches ROCm {version}")
        ):
            if not folder.is_dir():
                cache.publish(folder, lambda unfinished: fetch(version, wheel, unfinished))
    return RocmTools(version, folder, folder / "libhiprtc.so.7", folder / "libamd_comgr.so.3")
