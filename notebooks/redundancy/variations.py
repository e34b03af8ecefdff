from .inputs import variations  # noqa: F401
