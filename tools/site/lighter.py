"""Make pages lighter: send only the icons that a page shows, and pictures in 256 colours."""

import re
from io import BytesIO
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
    texts = [
        path.read_text("utf-8") for path in site.rglob("*.*") if path.suffix in (".html", ".js")
    ]
    styles = [path.read_text("utf-8") for path in static.rglob("*.css")]
    icons = icons_of("".join(styles), set(re.findall(r"\bfa-[\w-]+", " ".join(texts))))
    for font in (static / "vendor" / "fontawesome" / "webfonts").glob("*.woff2"):
        font.write_bytes(lighter_font(font, icons))
    for picture in Path(app.outdir, "_images").glob("*.png"):
        lighter_picture(picture)


def icons_of(css: str, used: set[str]) -> set[int]:
    """The code points of the icons that a style sheet shows, given the classes that pages use."""
    found = {ord(letter) for letter in css if not letter.isascii()}
    for selectors, style in RULE.findall(css):
        names = set(re.findall(r"\.(fa-[\w-]+)", selectors))
        if not names or names & used:
            found |= {int(number, 16) for number in ICON.findall(style)}
    return found


def lighter_font(path: Path, icons: set[int]) -> bytes:
    """The font with these icons only."""
    options, written = subset.Options(flavor="woff2"), BytesIO()
    font = subset.load_font(path, options)
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=icons)
    chosen.subset(font)
    subset.save_font(font, written, options)
    return written.getvalue()


def lighter_picture(path: Path) -> None:
    """Rewrite the file of an opaque picture with 256 colours."""
    picture = Image.open(path).convert("RGBA")
    if picture.getextrema()[3] == (255, 255):  # the picture is opaque
        method = Image.Quantize.MAXCOVERAGE
        few = picture.convert("RGB").quantize(method=method, kmeans=1, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


def setup(app):
    app.connect("build-finished", lighten, priority=900)  # after every page is written
