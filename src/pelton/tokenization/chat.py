"""From a conversation to a prompt: template, protection against forged control tokens, token ids.

Every string that a client sent is protected before the template sees it, so control tokens in the prompt are the
template's own (`control_text`). The template brings its own BOS; none is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from pelton.errors import RequestError, nearest
from pelton.tokenization.chat_template import TemplateWorker
from pelton.tokenization.control_text import remove_breaks
from pelton.tokenization.tokenizer import Tokenizer, check_unicode


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered conversation."""

    text: str
    token_ids: list[int]


@final
class Chat:
    """The conversations of one model. Safe to use from many threads; rendering may block (see `TemplateWorker`)."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        worker: TemplateWorker,
        template: str | None,
        named_templates: Mapping[str, str] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._worker = worker
        self._template = template
        self._named_templates = named_templates or {}

    def find_template(self, *, has_tools: bool, name: str | None = None) -> str | None:
        """The template to use: the one of that name, else "tool_use" where there are tools, else the default one."""
        if name is not None:
            if name not in self._named_templates:
                raise RequestError(
                    f"chat template {name!r} is not in this model. {nearest(name, self._named_templates)}"
                )
            return self._named_templates[name]
        if has_tools and "tool_use" in self._named_templates:
            return self._named_templates["tool_use"]
        return self._template

    def make_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
        template_name: str | None = None,
    ) -> Prompt:
        """The prompt of a conversation. Raises RequestError as `TemplateWorker.render` does."""
        protect = self._tokenizer.control_text.protect_all
        rendered = self._worker.render(
            self.find_template(has_tools=bool(tools), name=template_name),
            protect(messages),
            protect(tools),
            add_generation_prompt,
            continue_final_message,
            variables={**self._tokenizer.special_texts, **protect(variables or {})},
        )
        check_unicode(rendered)
        ids = self._tokenizer.encode(rendered, add_special_tokens=False)
        return Prompt(remove_breaks(rendered), ids)
