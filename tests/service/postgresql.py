"""A PostgreSQL server of the tests' own, in a temporary folder, reachable through a socket in it only."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = "dfstrans"


def programs() -> Path:
    """The folder with initdb and pg_ctl, or a skip."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    pytest.skip("needs initdb and pg_ctl of PostgreSQL (Debian: postgresql)")


@contextmanager
def server() -> Iterator[str]:
    """Start a server and give the address of its database."""
    tools, folder = programs(), Path(tempfile.mkdtemp(prefix="dfstrans-pg-"))
    as_user: list[str] = []
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv to start PostgreSQL as another user than root")
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        as_user = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]

    def run(*words: str) -> None:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": str(folder)}
        done = subprocess.run([*as_user, *words], capture_output=True, text=True, cwd=folder, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr

    data, control = str(folder / "data"), [str(tools / "pg_ctl"), "-D", str(folder / "data"), "-w"]
    quick = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=16MB"
    try:
        run(str(tools / "initdb"), "-D", data, "-U", USER, "-E", "UTF8", "-A", "trust", "--no-sync")
        started = f"-k {folder} -c listen_addresses='' -c max_connections=200 {quick}"
        run(*control, "-l", str(folder / "log"), "-o", started, "start")
        try:
            yield f"postgresql://{USER}@/postgres?host={folder}"
        finally:
            run(*control, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
