"""Packages installed without pip: their modules, and the metadata that Python finds them by."""

import shutil
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
GOOD = REPOSITORY / "examples" / "outside-feature"
BROKEN = REPOSITORY / "tests" / "data" / "broken_package"


def install(
    project: Path, site: Path, *, name: str | None = None, version: str | None = None
) -> None:
    """Install the package of a project into a folder, under another name or version if given."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    found = settings["project"]
    name, version = name or found["name"], version or found["version"]
    for module in settings["tool"]["setuptools"]["py-modules"]:
        shutil.copy(project / f"{module}.py", site)
    for old in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
        shutil.rmtree(old)
    metadata = site / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (metadata / "METADATA").write_text(text)
    entries = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in names.items())
        for group, names in found["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(entries))
