"""The engine for programs: `LLM` for scripts, `AsyncLLM` for services; the only package that assembles an engine."""
