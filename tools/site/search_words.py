"""Let the search find a page by the words on it, and by other spellings of these words.

Sphinx indexes words only as they are written.  With this module, “FlashAttention” is also found as
“flash attention”, “batch norm” as “batchnorm”, and “rotary” as “RoPE”.
"""

import re

from sphinx.search.en import SearchEnglish

CAPITAL_INSIDE = re.compile(r"(?<=[A-Za-z])(?=[A-Z][a-z])")
NORM = re.compile(r"(\w+)[ -]norm\b", re.IGNORECASE)
ALSO_CALLED = {"rotary": "RoPE"}


class SearchWords(SearchEnglish):
    def split(self, text):
        words = super().split(text)
        parts = [part for word in words for part in CAPITAL_INSIDE.split(word) if part != word]
        norms = [f"{kind}norm" for kind in NORM.findall(text)]
        names = [ALSO_CALLED[word.lower()] for word in words if word.lower() in ALSO_CALLED]
        return words + parts + norms + names


def setup(app):
    app.add_search_language(SearchWords)
