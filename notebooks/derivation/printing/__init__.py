"""How symbols and terms are printed, in LaTeX and in plain text.

``latex_and_text`` holds the two styles; ``term_printer`` prints the terms of the kernel with them.
"""

from .term_printer import (in_the_book, in_the_kernel, is_a_place_of_a_letter, names_in, readable,
                       show_condition, show_position, show_table, show_term, words_in)  # fmt: skip
from .latex_and_text import (ATOM, POWER, PRODUCT, SIGNED, SUM, Latex, Style, Text, beside, check_words,
                     in_words, name_parts, superscript)  # fmt: skip

__all__ = ["ATOM", "POWER", "PRODUCT", "SIGNED", "SUM", "Latex", "Style", "Text", "beside",
           "check_words", "in_the_book", "in_the_kernel", "in_words", "is_a_place_of_a_letter",
           "name_parts", "names_in", "readable", "show_condition", "show_position", "show_table",
           "show_term", "superscript", "words_in"]  # fmt: skip
