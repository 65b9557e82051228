"""Which variables a chat template reads, found without running it: a walk over its parsed form.

Parsing alone computes nothing of the template, unlike jinja2's own analysis, which folds its constants.
"""

from __future__ import annotations

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


def find_variables(template: str) -> tuple[list[str], str | None]:
    """Names that are read and set nowhere, sorted; and what is wrong with the template's syntax, if anything."""
    try:
        tree = make_environment().parse(template)
        names = list(tree.find_all(nodes.Name))
        defined = {name.name for name in names if name.ctx != "load"}
        defined |= {macro.name for macro in tree.find_all(nodes.Macro)}
    except jinja2.TemplateSyntaxError as error:
        return [], f"line {error.lineno}: {error.message}"
    except RecursionError:
        return [], "it is nested too deeply"
    return sorted({name.name for name in names if name.ctx == "load"} - defined - _OF_JINJA), None
