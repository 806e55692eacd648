"""What a build adds to pyproject.toml: the project's addresses, and README.md as a package index can show it.

README.md links to files beside it, which a package index does not have.  These links lead into the repository, whose
address is `repository` in pyproject.toml.  As long as there is none, they become plain text, and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:)(?P<path>[^)\s]+)\)")
_ATTRIBUTE = re.compile(r'\b(?P<name>src|srcset|href)="(?!\w+:)(?P<path>[^"]+)"')
_TAG = re.compile(r"<(?:picture|/picture|source|img)\b[^>]*>\n?")


class ProjectMetadata(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        repository = self.config["repository"].rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, repository)}
        if repository:
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/tree/HEAD/docs",
                "Changelog": f"{repository}/blob/HEAD/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }


def described(text: str, repository: str) -> str:
    """README.md for readers who see no other file; `repository` is empty, or an address."""

    def placed(path: str, kind: str) -> str:
        return f"{repository}/{kind}/HEAD/{'README.md' if path.startswith('#') else ''}{path}"

    def link(found: re.Match[str]) -> str:
        if not repository:
            return "" if found["picture"] else _LINK.sub(link, found["text"])
        text = _LINK.sub(link, found["text"])  # a picture may be a link, too
        return f"{found['picture']}[{text}]({placed(found['path'], 'raw' if found['picture'] else 'blob')})"

    def attribute(found: re.Match[str]) -> str:
        return f'{found["name"]}="{placed(found["path"], "blob" if found["name"] == "href" else "raw")}"'

    text = _LINK.sub(link, text)
    return _ATTRIBUTE.sub(attribute, text) if repository else _TAG.sub("", text)
