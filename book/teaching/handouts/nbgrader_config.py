"""The configuration of an nbgrader course; run the nbgrader commands in this folder."""

c = get_config()  # noqa: F821  nbgrader defines it

c.CourseDirectory.course_id = "where-did-the-bias-go"
