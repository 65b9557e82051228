"""What a chat template does, found without running it: a walk over its parsed form.

Which variables it reads, whether it reaches for the program that renders it, and whether it looks for words in what is
said. Parsing alone computes nothing of the template, unlike jinja2's own analysis, which folds its constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import jinja2
from jinja2 import nodes

from pelton.tokenization.template_child import make_environment

# What every template may count on: the conversation, the special tokens, and the functions of the dialect.
SUPPLIED = frozenset(
    {
        *("messages", "tools", "add_generation_prompt", "raise_exception", "strftime_now"),
        *("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"),
    }
)
_OF_JINJA = frozenset(
    {"range", "dict", "lipsum", "cycler", "joiner", "namespace", "loop", "caller", "varargs", "kwargs"}
)
_MARKER = re.compile(r"\s*[<\[{|/#]")  # markup of the dialect: "</think>", "[INST]", "{", "<|python_tag|>"
_LOOKS = {"startswith", "endswith", "find", "count", "index", "split", "partition", "replace", "rsplit"}


@dataclass(slots=True, kw_only=True)
class TemplateFacts:
    """`problem` is what is wrong with the syntax; the rest is empty then."""

    variables: list[str] = field(default_factory=list)  # read and set nowhere
    escapes: list[str] = field(default_factory=list)  # names that lead out of the sandbox
    triggers: list[str] = field(default_factory=list)  # words it looks for in the content of messages
    problem: str | None = None


def read_template(template: str) -> TemplateFacts:
    """The facts of one template. Never raises for what is in it."""
    try:
        tree = make_environment().parse(template)
        return TemplateFacts(
            variables=_find_variables(tree),
            escapes=sorted(set(_find_escapes(tree))),
            triggers=sorted(set(_find_triggers(tree))),
        )
    except jinja2.TemplateSyntaxError as error:
        return TemplateFacts(problem=f"line {error.lineno}: {error.message}")
    except RecursionError:
        return TemplateFacts(problem="it is nested too deeply")


def _find_variables(tree: nodes.Template) -> list[str]:
    names = list(tree.find_all(nodes.Name))
    defined = {name.name for name in names if name.ctx != "load"}
    defined |= {macro.name for macro in tree.find_all(nodes.Macro)}
    return sorted({name.name for name in names if name.ctx == "load"} - defined - _OF_JINJA)


def _find_escapes(tree: nodes.Template) -> Iterator[str]:
    """Attributes of Python's own: no template of a conversation needs them."""
    for attribute in tree.find_all(nodes.Getattr):
        if attribute.attr.startswith("__"):
            yield attribute.attr
    for constant in tree.find_all(nodes.Const):
        if isinstance(constant.value, str) and re.search(r"__\w+__", constant.value):
            yield constant.value[:60]


def _find_triggers(tree: nodes.Template) -> Iterator[str]:
    for compare in tree.find_all(nodes.Compare):
        sides = [compare.expr, *(operand.expr for operand in compare.ops)]
        if any(_is_content(side) for side in sides):
            yield from (word for side in sides for word in _words(side))
    for call in tree.find_all(nodes.Call):
        looked = call.node
        if isinstance(looked, nodes.Getattr) and looked.attr in _LOOKS and _is_content(looked.node):
            yield from (word for argument in call.args for word in _words(argument))


def _is_content(node: nodes.Node) -> bool:
    """Whether an expression is made of the content of a message."""
    if isinstance(node, nodes.Name) and node.name == "content":
        return True
    if isinstance(node, nodes.Getattr) and node.attr == "content":
        return True
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == "content":
        return True
    return any(_is_content(child) for child in node.iter_child_nodes() if not isinstance(node, nodes.Getitem))


def _words(node: nodes.Node) -> Iterator[str]:
    """Constants that somebody might write, and not markup."""
    if isinstance(node, nodes.Const) and isinstance(node.value, str):
        text = node.value.strip()
        if sum(char.isalpha() for char in text) >= 3 and not _MARKER.match(text):
            yield text[:60]
