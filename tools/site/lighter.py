"""Make pages lighter: send only the icons that a page shows, and pictures in 256 colours."""

import re
from pathlib import Path

from fontTools import subset
from PIL import Image

#: A rule that contains no other rule, and the number of an icon in it.
RULE = re.compile(r"([^{}]*)\{([^{}]*)\}")
ICON = re.compile(r'"\\([0-9a-f]{2,5})"')
#: Names, punctuation and white space in code; without a span they have the same colour.
PLAIN = re.compile(r'<span class="[npw]">([^<]*)</span>')


def lighten(app, failed):
    if failed or app.builder.name != "html":
        return
    site, static = Path(app.outdir), Path(app.outdir, "_static")
    # the icons come from the font, so the theme's script of 1.5 MB that draws them is not needed
    (static / "scripts" / "fontawesome.js").write_text("", encoding="utf-8")
    (static / "webpack-macros.html").unlink(missing_ok=True)  # a template left over by the theme
    for page in site.rglob("*.html"):
        page.write_text(PLAIN.sub(r"\1", page.read_text("utf-8")), encoding="utf-8")
    shown = text_in(site, "html") + text_in(site, "js")
    icons = icons_of(text_in(static, "css"), set(re.findall(r"\bfa-[\w-]+", shown)))
    for font in (static / "vendor" / "fontawesome" / "webfonts").glob("*.woff2"):
        few = font.with_suffix(".few")
        numbers = ",".join(f"{number:x}" for number in icons)
        subset.main([str(font), f"--unicodes={numbers}", "--flavor=woff2", f"--output-file={few}"])
        few.replace(font)
    for picture in Path(app.outdir, "_images").glob("*.png"):
        lighter_picture(picture)


def text_in(folder, suffix):
    """All text of the files below a folder that have this suffix."""
    return "\n".join(path.read_text("utf-8") for path in folder.rglob(f"*.{suffix}"))


def icons_of(css: str, used: set[str]) -> set[int]:
    """The code points of the icons that a style sheet shows, given the classes that pages use."""
    found = {ord(letter) for letter in css if not letter.isascii()}
    for selectors, style in RULE.findall(css):
        names = set(re.findall(r"\.(fa-[\w-]+)", selectors))
        if not names or names & used:
            found |= {int(number, 16) for number in ICON.findall(style)}
    return found


def lighter_picture(path: Path) -> None:
    """Rewrite the file of an opaque picture with 256 colours."""
    picture = Image.open(path).convert("RGBA")
    if picture.getextrema()[3] == (255, 255):  # the picture is opaque
        method = Image.Quantize.MAXCOVERAGE
        few = picture.convert("RGB").quantize(method=method, kmeans=1, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


def setup(app):
    app.connect("build-finished", lighten, priority=900)  # after every page is written
