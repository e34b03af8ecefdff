"""A release has the stated version, all its archives, and a correct checksum of each."""

import hashlib
import re
import tomllib

from derivation import versions

from tools import release


def test_versions_and_pins_of_the_packages_agree_with_the_book():
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    grouped = set().union(*project["dependency-groups"].values())
    project = project["project"]
    pins = (release.ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)", pins, re.M))
    assert project["version"] == release.version()
    assert grouped | {"sympy", "torch", "transformers"} == set(pinned)
    asked = [*project["dependencies"], *project["optional-dependencies"]["audit"]]
    oldest = dict(re.findall(r"(\w+)>=([\d.]+)", " ".join(asked)))
    for name, version in versions.OLDEST.items():
        assert tuple(map(int, oldest[name].split("."))) == version
        assert tuple(map(int, pinned[name].split(".")[:2])) in versions.TRIED[name]


def test_every_archive_has_its_checksum(tmp_path, monkeypatch):
    for name in ("html/index.html", "book.pdf", "student.zip", "instructor.zip"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    places = {"SITE": tmp_path / "html", "PDF": tmp_path / "book.pdf", "COURSE": tmp_path}
    for name, path in places.items():
        monkeypatch.setattr(release, name, path)
    monkeypatch.setattr(release, "copies", lambda site: {"03.ipynb": b"{}"})
    for folder in ("out", "again"):  # the same contents give the same bytes
        release.archive(tmp_path / folder, "1.2")
    lines = (tmp_path / "out" / "SHA256SUMS").read_text()
    assert lines == (tmp_path / "again" / "SHA256SUMS").read_text()
    sums = dict(reversed(line.split("  ")) for line in lines.splitlines())
    ends = ("-html.zip", "-notebooks.zip", ".pdf", "-student.zip", "-instructor.zip")
    assert set(sums) == {f"where-did-the-bias-go-1.2{end}" for end in ends}
    for name, expected in sums.items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == expected
