"""The cache folder: where it is, and how something gets into it whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix: no locks, `publish` alone keeps the folder consistent
    fcntl = None  # type: ignore[assignment]

VARIABLE = "ROCKE_CUPY_CACHE_DIR"
"""Environment variable that moves the cache folder."""

_UNFINISHED = ".unfinished-"
_UNFINISHED_KEPT_SECONDS = 24 * 3600


class CacheError(OSError):
    """The cache folder cannot be used; the message says which folder and what to do."""


def cache_dir() -> Path:
    """Return the cache folder, created if need be.

    Returns
    -------
    pathlib.Path
        ``$ROCKE_CUPY_CACHE_DIR``, else ``$XDG_CACHE_HOME/rocke_cupy``, else
        ``~/.cache/rocke_cupy``.

    Raises
    ------
    CacheError
        If the folder cannot be created or written.
    """
    folder = _chosen_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheError(_sentence(folder, error)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CacheError(
            f"the cache folder {folder} is not writable; set {VARIABLE} to one that is"
        )
    return folder


def publish(target: Path, build: Callable[[Path], None]) -> Path:
    """Make `target` (a file or a folder) appear at once, complete.

    `build` writes to a temporary path beside `target`, which then takes its name. Whatever
    interrupts the build, no half-made `target` is left; a second process that publishes the same
    target is tolerated.

    Parameters
    ----------
    target : pathlib.Path
        What to make. It is taken as complete when it exists.
    build : callable
        Called with the path to write: it creates a file or a folder there.

    Returns
    -------
    pathlib.Path
        `target`.

    Raises
    ------
    CacheError
        If the disk is full, or the folder cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}{_UNFINISHED}", dir=target.parent))
    except OSError as error:
        raise CacheError(_sentence(target.parent, error)) from error
    try:
        unfinished = scratch / target.name
        build(unfinished)
        _rename(unfinished, target)
    except CacheError:
        raise
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise CacheError(_sentence(target.parent, error)) from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


@contextlib.contextmanager
def lock(target: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of `target` among processes, so that one prepares it and the others wait.

    Parameters
    ----------
    target : pathlib.Path
        What is going to be published. The lock is a file beside it.
    waiting : callable, optional
        Called once if another process holds the lock.
    """
    if fcntl is None:
        yield
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = open(target.parent / f".{target.name}.lock", "w")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise CacheError(_sentence(target.parent, error)) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: at worst the work is done twice
            pass
        yield


_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def _chosen_folder() -> Path:
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "rocke_cupy"
    try:
        return Path.home() / ".cache" / "rocke_cupy"
    except RuntimeError as error:
        raise CacheError(
            f"there is no home folder for the cache; set {VARIABLE} to a folder"
        ) from error


def _rename(unfinished: Path, target: Path) -> None:
    try:
        os.replace(unfinished, target)
    except OSError:
        # A folder does not replace one with files in it: another process was quicker, with the
        # same content.
        if not (unfinished.is_dir() and target.is_dir()):
            raise


def _remove_abandoned(target: Path) -> None:
    """Remove what killed processes left behind, once it is surely not in use any more."""
    for left in target.parent.glob(f".{target.name}{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _UNFINISHED_KEPT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _sentence(folder: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"no space left in the cache folder {folder}; make room, or set {VARIABLE} "
            "to a folder on another disk"
        )
    reason = error.strerror or str(error)
    return (
        f"cannot write to the cache folder {folder} ({reason}); set {VARIABLE} "
        "to a folder that can be written"
    )
