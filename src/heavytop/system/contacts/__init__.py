"""Contacts: the description of pairs that may touch, their gaps, normals and points, and the inequality rows of rigid ones."""

from __future__ import annotations
