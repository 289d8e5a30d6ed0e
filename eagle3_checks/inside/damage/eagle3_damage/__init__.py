"""Damages a running SGLang server on purpose: faults that its files and flags do not show.

The folder above goes on the PYTHONPATH of a server that is to be damaged, and ``EAGLE3_DAMAGE``
names what is done to it (`table.TITLES` lists the names). Nothing happens without that variable; an
unknown name ends the server. For tests and demonstrations only: no command of the suite sets it.
"""

from __future__ import annotations
