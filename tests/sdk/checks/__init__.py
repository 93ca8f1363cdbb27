"""The checks. Importing a module registers its checks."""

from checks import answers, catalogue, content, failures, thinking, tools

__all__ = ["answers", "catalogue", "content", "failures", "thinking", "tools"]
