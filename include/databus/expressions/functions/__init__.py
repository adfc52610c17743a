"""Functions and operators of compiled expressions, by area; `names()` lists them."""

from databus.expressions.functions.registry import MISSING, Arguments, Resolved, names, register, resolve

__all__ = ["MISSING", "Arguments", "Resolved", "names", "register", "resolve"]
