"""The fixtures of the tests in Chromium."""

from browser import address, browser, visit  # noqa: F401
