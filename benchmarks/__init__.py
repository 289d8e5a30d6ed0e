"""Measurements of the suite itself; none of them runs with the tests as a whole."""
