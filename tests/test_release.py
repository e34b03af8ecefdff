"""A release holds what it says, under the version that is stated, with checksums that are right."""

import hashlib
import re
import tomllib

import pytest
import release
from derivation import versions
from files import Fault


@pytest.fixture
def built(tmp_path, monkeypatch):
    """What `make release` builds first, in little."""
    (tmp_path / "site").mkdir()
    for name in ("site/index.html", "book.pdf", "student.zip", "instructor.zip"):
        (tmp_path / name).write_text(name)
    for name, path in {
        "ROOT": tmp_path,
        "SITE": tmp_path / "site",
        "PDF": tmp_path / "book.pdf",
        "COURSE": tmp_path,
    }.items():
        monkeypatch.setattr(release, name, path)
    monkeypatch.setattr(release, "copies", lambda: {"03.ipynb": b"{}"})
    return tmp_path


def test_the_packages_have_the_version_of_the_book_and_take_what_has_been_tried():
    text = (release.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    assert project["version"] == release.version()
    asked = [*project["dependencies"], *project["optional-dependencies"]["audit"]]
    oldest = dict(re.findall(r"(\w+)>=([\d.]+)", " ".join(asked)))
    for name, version in versions.OLDEST.items():
        assert tuple(map(int, oldest[name].split("."))) == version


def test_each_package_that_is_pinned_has_a_group_and_the_other_way_round():
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = (release.ROOT / "requirements.txt").read_text(encoding="utf-8")
    of_the_packages = {"sympy", "torch", "transformers"}
    grouped = set().union(*project["dependency-groups"].values())
    assert grouped | of_the_packages == set(re.findall(r"^([\w-]+)==", pins, re.M))


def test_every_archive_has_its_checksum_and_the_same_contents_give_the_same_bytes(built):
    for folder in ("out", "again"):
        release.archive(built / folder, "1.2")
    lines = (built / "out" / "SHA256SUMS").read_text()
    assert lines == (built / "again" / "SHA256SUMS").read_text()
    sums = dict(reversed(line.split("  ")) for line in lines.splitlines())
    assert set(sums) == {
        f"where-did-the-bias-go-1.2{end}"
        for end in ("-html.zip", "-notebooks.zip", ".pdf", "-student.zip", "-instructor.zip")
    }
    for name, expected in sums.items():
        assert hashlib.sha256((built / "out" / name).read_bytes()).hexdigest() == expected


def test_what_is_not_built_is_named(built):
    (built / "book.pdf").unlink()
    with pytest.raises(Fault, match=r"book\.pdf is not there: run `make release`"):
        release.archive(built / "out", "1.2")


def test_two_versions_are_refused(tmp_path):
    (tmp_path / "CITATION.cff").write_text('version: "0.2"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## 0.1\n")
    with pytest.raises(Fault, match=r"0\.2, CHANGELOG\.md begins with 0\.1"):
        release.version(tmp_path)
