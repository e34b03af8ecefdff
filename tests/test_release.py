"""A release holds what it says, under the version that is stated, with checksums that are right."""

import hashlib
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
import release
from derivation import versions

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def built(tmp_path, monkeypatch):
    """What `make release` builds first, in little."""
    for name in (
        "site/index.html",
        "site/notebooks/a.html",
        "book.pdf",
        "student.zip",
        "instructor.zip",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "SITE", tmp_path / "site")
    monkeypatch.setattr(release, "PDF", tmp_path / "book.pdf")
    monkeypatch.setattr(release, "COURSE", tmp_path)
    monkeypatch.setattr(release, "copies", lambda: {"03.ipynb": b"{}"})
    return tmp_path


def test_the_packages_have_the_version_of_the_book_and_take_what_has_been_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == release.version()
    audit = project["optional-dependencies"]["audit"]
    oldest = dict(re.findall(r"(\w+)>=([\d.]+)", " ".join([*project["dependencies"], *audit])))
    for name, version in versions.OLDEST.items():
        assert tuple(map(int, oldest[name].split("."))) == version


def test_every_archive_has_its_checksum(built):
    release.archive(built / "out", "1.2")
    lines = (built / "out" / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(line.split("  ")) for line in lines)
    assert set(sums) == {
        f"where-did-the-bias-go-1.2{end}"
        for end in ("-html.zip", "-notebooks.zip", ".pdf", "-student.zip", "-instructor.zip")
    }
    for name, expected in sums.items():
        assert hashlib.sha256((built / "out" / name).read_bytes()).hexdigest() == expected


def test_the_same_contents_give_the_same_bytes(built):
    found = []
    for folder in ("one", "two"):
        release.archive(built / folder, "1.2")
        found.append((built / folder / "SHA256SUMS").read_text())
    assert found[0] == found[1]
    with zipfile.ZipFile(built / "one" / "where-did-the-bias-go-1.2-html.zip") as pages:
        assert (
            pages.read("where-did-the-bias-go-1.2-html/notebooks/a.html")
            == b"site/notebooks/a.html"
        )


def test_what_is_not_built_is_named(built):
    (built / "book.pdf").unlink()
    with pytest.raises(
        release.CannotRelease, match=r"book\.pdf is not there: run `make pdf` first"
    ):
        release.archive(built / "out", "1.2")


def test_the_changelog_begins_with_the_version_that_is_cited():
    assert re.fullmatch(r"\d+\.\d+", release.version(ROOT))


def test_two_versions_are_refused(tmp_path):
    (tmp_path / "CITATION.cff").write_text('version: "0.2"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.1\n")
    with pytest.raises(release.CannotRelease, match=r"0\.2, CHANGELOG\.md begins with 0\.1"):
        release.version(tmp_path)
