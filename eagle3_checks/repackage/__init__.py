"""Mechanical fixes of a drafter's files: names, fields and d2t, weights untouched."""
