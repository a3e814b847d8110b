"""Checks on rules, saved or in force, whoever wrote them: one file for one family of findings."""
