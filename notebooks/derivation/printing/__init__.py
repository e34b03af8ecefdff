"""How single signs look, in LaTeX and in plain text.

``styles`` holds the two styles; ``notation`` prints the terms of the kernel with them.
"""
