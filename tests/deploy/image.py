"""A Dockerfile carried out without a container engine, for there is none where the tests run.

Each stage is an overlay over the file system of this machine, which is the base image.  The last one becomes a
container (`container`): its root read-only, a volume, a /tmp of its own, no network, a user without rights.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from dockerfile_parse import DockerfileParser

LONGEST = 240.0
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Enter a root: $1 below, $2 the upper folder, $3 that of overlay's work, $4 the mount point; then the command.
_ENTER = """
set -e
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$4"
mount --rbind /proc "$4/proc"
mount --rbind /dev "$4/dev"
root=$4 cwd=$5
shift 5
exec chroot "$root" sh -c 'cd "$0" && exec "$@"' "$cwd" "$@"
"""


@dataclass
class Stage:
    """One FROM and what follows.

    Attributes:
        folder: has `upper`, which holds what the stage adds to its base.
        said: what is kept for the container: USER, ENTRYPOINT, CMD, HEALTHCHECK and the like.
    """

    folder: Path
    cwd: str = "/"
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    said: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True)

    @property
    def upper(self) -> Path:
        return self.folder / "upper"

    def place(self, path: str) -> Path:
        """Where a path of the stage is on this machine; it may be of the base, and not there."""
        return self.upper / os.path.normpath(os.path.join(self.cwd, path)).lstrip("/")

    def run(self, command: list[str], *, told: str = "", alone: bool = False) -> str:
        """Carry it out inside, as root, with that input; what it writes.  Alone, it sees an empty network."""
        folders = ["/", str(self.upper), str(self.folder / "work"), str(self.folder / "root")]
        apart = ["unshare", "--mount", *["--net"] * alone]
        inside = [*apart, "sh", "-c", _ENTER, "sh", *folders, self.cwd, *command]
        own = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "VIRTUAL_ENV"))}
        environment = own | self.variables
        done = subprocess.run(inside, env=environment, input=told, capture_output=True, text=True, timeout=LONGEST)
        words = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == 0, f"{shlex.join(command)} failed:\n{words}"
        return done.stdout


class Context:
    """The folder that an image is built from, as far as .dockerignore lets it through."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        lines = (folder / ".dockerignore").read_text().splitlines()
        self._rules = [line for line in lines if line and not line.startswith("#")]

    def has(self, path: str) -> bool:
        """The last rule that fits decides; one that fits a folder fits what is in it."""
        kept = True
        parts = path.split("/")
        heads = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        for rule in self._rules:
            pattern = rule.removeprefix("!")
            if any(self._fits(head, pattern) for head in heads):
                kept = rule.startswith("!")
        return kept

    @staticmethod
    def _fits(path: str, pattern: str) -> bool:
        if pattern.startswith("**/"):
            return fnmatchcase(path.rsplit("/", 1)[-1], pattern[3:])
        # A star stops at a slash, and fnmatch's does not.
        return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)

    def files(self, source: str) -> list[Path]:
        """All files at or below that path, relative to the folder; there are some, or a build would end here."""
        top = self._folder / source
        every = [path for path in ([top] if top.is_file() else sorted(top.rglob("*"))) if path.is_file()]
        found = [path.relative_to(self._folder) for path in every]
        found = [path for path in found if self.has(path.as_posix())]
        assert found, f"COPY {source}: the context has no such file; does .dockerignore let it through?"
        return found


class Build:
    """An image that is built step by step, of a context, with a folder for its stages."""

    def __init__(self, dockerfile: Path, context: Path, folder: Path) -> None:
        self._context = context
        self._visible = Context(context)
        self._folder = folder
        self._stages: dict[str, Stage] = {}
        parser = DockerfileParser(fileobj=io.BytesIO(dockerfile.read_bytes()))
        self._steps = [(step["instruction"], step["value"]) for step in parser.structure]

    def carry_out(self) -> Stage:
        stage: Stage | None = None
        for instruction, value in self._steps:
            if instruction == "FROM":
                _, _, name = value.partition(" AS ")
                stage = self._stages[name] = Stage(self._folder / (name or "last"))
            elif instruction != "COMMENT":
                assert stage is not None
                self._carry_out(stage, instruction, value)
        assert stage is not None
        return stage

    def _carry_out(self, stage: Stage, instruction: str, value: str) -> None:
        match instruction:
            case "RUN":
                stage.run(["/bin/sh", "-c", value])
            case "COPY":
                self._copy(stage, value.split())
            case "WORKDIR":
                stage.cwd = value
                stage.place(".").mkdir(parents=True, exist_ok=True)
            case "ENV" | "ARG":
                for word in shlex.split(value):
                    name, _, text = word.partition("=")
                    known = stage.variables
                    stage.variables[name] = re.sub(r"\$(\w+)", lambda found: known[found[1]], text)  # noqa: B023
            case "LABEL" | "USER" | "VOLUME" | "EXPOSE" | "STOPSIGNAL" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD":
                stage.said[instruction] = value
            case _:
                raise AssertionError(f"what to do at {instruction}?")

    def _copy(self, stage: Stage, words: list[str]) -> None:
        *sources, target = words
        place = stage.place(target)
        if sources[0].startswith("--from="):
            (source,) = sources[1:]
            other = self._stages[sources[0].removeprefix("--from=")]
            shutil.copytree(other.place(source), place, symlinks=True, dirs_exist_ok=True)
            return
        for source in sources:
            for path in self._visible.files(source):
                inside = path.relative_to(source) if (self._context / source).is_dir() else Path(path.name)
                goal = place / inside if target.endswith("/") else place
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._context / path, goal)


def run_container(stage: Stage, volume: Path) -> dict[str, object]:
    """Start what the stage became, look at it, stop it; what was seen."""
    facts = {
        "layers": f"lowerdir=/,upperdir={stage.upper},workdir={stage.folder / 'work'}",
        "root": str(stage.folder / "root"),
        "volume": str(volume),
        "cwd": stage.cwd,
        "variables": stage.variables,
        "user": stage.said["USER"],
        "command": json.loads(stage.said["ENTRYPOINT"]),
        "arguments": json.loads(stage.said["CMD"]),
        "health": json.loads(stage.said["HEALTHCHECK"].partition("CMD ")[2]),
        "state": json.loads(stage.said["VOLUME"])[0],
        "signal": stage.said["STOPSIGNAL"],
    }
    inside = ["unshare", "--mount", "--net", sys.executable, "-m", "tests.deploy.container", json.dumps(facts)]
    done = subprocess.run(inside, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found
