"""Make pages lighter: remove unused styles and icons, and reduce pictures to 256 colours."""

import re
from io import BytesIO
from pathlib import Path

from fontTools import subset
from PIL import Image

#: A comment, or a rule that contains no other rule.
PART = re.compile(r"/\*.*?\*/|[^{}/]+\{[^{}]*\}|/", re.DOTALL)
CLASS = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
ICON = re.compile(r'"\\([0-9a-f]{2,5})"')
#: Beginnings of class names that Bootstrap composes while a page is in use.
PUT_TOGETHER = ("bs-",)


def words_of(folder):
    """Every word of the pages and scripts, including every class that they use."""
    files = [path for path in folder.rglob("*") if path.suffix in (".html", ".js")]
    return set(re.findall(r"[A-Za-z_][\w-]*", " ".join(path.read_text("utf-8") for path in files)))


def used(rule, words):
    """Whether a selector of the rule can match, because each of its classes occurs on some page."""
    selectors = rule.partition("{")[0]
    if "(" in selectors:  # a parser would be needed for :not and :is
        return True
    return any(
        all(name in words or name.startswith(PUT_TOGETHER) for name in CLASS.findall(selector))
        for selector in selectors.split(",")
    )


def lighter(css, words):
    """The style sheet without the rules that match nothing on any page."""

    def kept(part):
        text = part[0]
        return text if not text.endswith("}") or used(text, words) else ""

    return PART.sub(kept, css)


def lighter_font(path, css):
    """The font with only the icons that the style sheet still uses."""
    options = subset.Options(flavor="woff2")
    font = subset.load_font(path, options)
    chosen = subset.Subsetter(options)
    escaped = {int(number, 16) for number in ICON.findall(css)}
    chosen.populate(unicodes=escaped | {ord(letter) for letter in css if not letter.isascii()})
    chosen.subset(font)
    written = BytesIO()
    subset.save_font(font, written, options)
    return written.getvalue()


def lighter_picture(path):
    """Rewrite the file of an opaque picture with 256 colours."""
    picture = Image.open(path).convert("RGBA")
    if picture.getextrema()[3] == (255, 255):  # the picture is opaque
        method = Image.Quantize.MAXCOVERAGE
        few = picture.convert("RGB").quantize(method=method, kmeans=1, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


#: Names, punctuation and white space in code; without a span they have the same colour.
PLAIN = re.compile(r'<span class="[npw]">([^<]*)</span>')


def lighten(app, failed):
    if failed or app.builder.name != "html":
        return
    static = Path(app.outdir) / "_static"
    # the icons come from the font, so the theme's script of 1.5 MB that draws them is not needed
    (static / "scripts" / "fontawesome.js").write_text("", encoding="utf-8")
    (static / "webpack-macros.html").unlink(missing_ok=True)  # a template left over by the theme
    words, ours, css = words_of(Path(app.outdir)), Path(app.srcdir, "book", "static"), ""
    for sheet in static.rglob("*.css"):
        if not (ours / sheet.relative_to(static)).is_file():
            css += (left := lighter(sheet.read_text("utf-8"), words))
            sheet.write_text(left, encoding="utf-8")
    for page in Path(app.outdir).rglob("*.html"):
        page.write_text(PLAIN.sub(r"\1", page.read_text("utf-8")), encoding="utf-8")
    for font in (static / "vendor" / "fontawesome" / "webfonts").glob("*.woff2"):
        font.write_bytes(lighter_font(font, css))
    for picture in Path(app.outdir, "_images").glob("*.png"):
        lighter_picture(picture)


def setup(app):
    app.connect("build-finished", lighten, priority=900)  # after every page is written
