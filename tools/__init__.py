"""What makes the site, the PDF, the copies for Colab, the course and the records.

`python -m tools` lists the commands.  The modules beside this file serve all folders: `site` makes
pages, `course` makes what a teacher hands out, `records` makes what is measured or proved apart.
"""
