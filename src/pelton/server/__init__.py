"""The HTTP border: routes, checks, answers and streams in the shapes of the OpenAI API."""
