"""The words that both planes share: plain frozen values, no behaviour."""
