"""The sdist and the wheel: exactly what is in them, how they describe themselves, and that each installs and starts."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from pathlib import Path

import pytest

from gateway import __version__
from hatch_build import described
from tests.clients.driver import ROOT

NAME = f"stomp_gateway-{__version__}"


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_of(*folders: str) -> set[str]:
    """Files of the repository, and those of npm's packages that the pages need."""
    tracked = run("git", "-C", ROOT, "ls-files", *folders).split()
    vendored = [path for path in (ROOT / "static/vendor").rglob("*") if path.is_file()] if "static" in folders else []
    return {*tracked, *(path.relative_to(ROOT).as_posix() for path in vendored)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.mark.long
@pytest.mark.timeout(600)
class TestBuilt:
    def test_the_sdist(self, built: Path) -> None:
        with tarfile.open(built / f"{NAME}.tar.gz") as archive:
            names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
        tops = ["gateway", "pyspark_stomp", "static", "docs", "README.md", "CHANGELOG.md", "LICENSE"]
        added = {"PKG-INFO", "pyproject.toml", "hatch_build.py", ".gitignore"}
        assert names == files_of(*tops) | added

    def test_the_wheel(self, built: Path) -> None:
        with zipfile.ZipFile(built / f"{NAME}-py3-none-any.whl") as archive:
            names = {name for name in archive.namelist() if ".dist-info/" not in name}
            about = message_from_bytes(archive.read(f"{NAME}.dist-info/METADATA"))
            entry_points = ConfigParser()
            entry_points.read_string(archive.read(f"{NAME}.dist-info/entry_points.txt").decode())
        pages = {f"gateway/{path}" for path in files_of("static")}
        assert names == files_of("gateway", "pyspark_stomp") | pages
        assert entry_points["pytest11"]["stomp-gateway"] == "gateway.testing.plugin"
        assert {"3.11", "3.12", "3.13"} <= {each.rpartition(" ")[2] for each in about.get_all("Classifier", [])}
        text = about.get_payload()
        assert isinstance(text, str)
        assert "\n# stomp-gateway\n" in f"\n{text}"
        assert described(text, "") == text, "links that lead nowhere"

    @pytest.mark.parametrize("file", [f"{NAME}.tar.gz", f"{NAME}-py3-none-any.whl"])
    def test_it_installs_and_starts(self, built: Path, tmp_path: Path, file: str) -> None:
        python = (tmp_path / "bin/python", "-I")
        run(sys.executable, "-m", "venv", tmp_path)
        run(*python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", built / file)
        assert "Usage: gateway" in run("env", "--unset=PYTHONPATH", tmp_path / "bin/gateway", "--help")
        found = Path(run(*python, "-c", "from gateway.admin import site; print(site.static_folder())").strip())
        assert found.is_relative_to(tmp_path)
        assert (found / "vendor/stomp.umd.min.js").is_file()


CLIENT = ROOT / "client"
MOST_PACKAGES = 6
"""Of the client's distribution, itself included."""
PROGRAM = """
import sys
import anyio, gateway.client
from gateway.client import StompError, connect

async def main():
    for scheme in ("stomp", "ws"):
        try:
            async with connect(f"{scheme}://127.0.0.1:1"):
                pass
        except StompError as error:
            print(error)

anyio.run(main)
"""


@pytest.mark.long
@pytest.mark.timeout(600)
class TestClient:
    """The Python client alone."""

    @pytest.fixture(scope="class")
    @staticmethod
    def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("client")
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, CLIENT)
        return folder / f"stomp_gateway_client-{__version__}-py3-none-any.whl"

    def test_the_wheel(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            names = {name for name in archive.namelist() if ".dist-info/" not in name}
            kept = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
        assert names == files_of("gateway/__init__.py", "gateway/py.typed", "gateway/client", "gateway/codec")
        assert len(kept) == 1

    def test_it_installs_few_packages_and_works(self, wheel: Path, tmp_path: Path) -> None:
        python = ("env", "--unset=PYTHONPATH", tmp_path / "bin/python", "-I")
        run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
        pip = (sys.executable, "-m", "pip", "--python", tmp_path / "bin/python", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", wheel)
        installed = json.loads(run(*pip, "list", "--format", "json"))
        assert len(installed) <= MOST_PACKAGES, installed
        said = "cannot connect to 127.0.0.1:1: no server listens there\n"
        assert run(*python, "-c", PROGRAM) == said * 2


def test_the_client_asks_for_what_the_gateway_asks_for() -> None:
    """In the same versions."""
    client, whole = (tomllib.loads((each / "pyproject.toml").read_text())["project"] for each in (CLIENT, ROOT))
    assert set(client["dependencies"]) < set(whole["dependencies"])
    for key in ("license", "requires-python"):
        assert client[key] == whole[key]


@pytest.mark.parametrize("repository", ["", "https://forge.example/gateway/"])
def test_the_address_of_the_repository_is_set_in_one_place(tmp_path: Path, repository: str) -> None:
    for name in ("README.md", "LICENSE", "hatch_build.py", "pyproject.toml", "gateway/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(
            (ROOT / name).read_text().replace('repository = ""', f'repository = "{repository}"')
        )
    found = json.loads(run("env", "-C", tmp_path, sys.executable, "-m", "hatchling", "metadata"))
    assert found.get("urls", {}).get("Source", "") == repository.rstrip("/")
    assert ("forge.example/gateway/blob/HEAD/docs/" in found["readme"]["text"]) is bool(repository)
    assert all(each.startswith("https://forge.example/gateway") for each in found.get("urls", {}).values())


def test_links_of_the_description() -> None:
    text = '![A](docs/a.svg) [b](b.md#c) [c](https://c) [d](#d) [![e](e.png)](e.md)\n<img src="f.png"> end'
    assert described(text, "").split() == ["b", "[c](https://c)", "d", "end"]
    at = "https://forge.example/gateway"
    assert described(text, at).split() == [
        f"![A]({at}/raw/HEAD/docs/a.svg)",
        f"[b]({at}/blob/HEAD/b.md#c)",
        "[c](https://c)",
        f"[d]({at}/blob/HEAD/README.md#d)",
        f"[![e]({at}/raw/HEAD/e.png)]({at}/blob/HEAD/e.md)",
        "<img",
        f'src="{at}/raw/HEAD/f.png">',
        "end",
    ]
