"""Whose key a request brings: names of tenants, by the hashes of their keys.

Invariant: keys are kept and compared by their SHA-256 only, every one of them at every look, so neither time nor memory
tells of a key. The name of a tenant is what logs and metrics show.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from pelton.config.schema import ServerConfig
from pelton.errors import ConfigError

OPERATOR: Final = "operator"  # whoever has the key of --api-key
MAX_TENANTS: Final = 4096
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHA256: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")


@final
class Keys:
    """The tenants of one server. Without any, everybody may use it and is the tenant ""."""

    def __init__(self, digests: dict[bytes, str]) -> None:
        self._digests = digests

    def __bool__(self) -> bool:
        return bool(self._digests)

    @property
    def num_tenants(self) -> int:
        """How many different tenants have a key; 1 if nobody needs one."""
        return len(set(self._digests.values())) or 1

    def find(self, key: bytes) -> str | None:
        """The tenant that has this key."""
        digest, found = hashlib.sha256(key).digest(), None
        for known, tenant in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = tenant
        return found


def load_keys(config: ServerConfig) -> Keys:
    """The keys that `config` names. Raises ConfigError for a file that cannot be read or understood."""
    digests: dict[bytes, str] = {}
    if config.api_key is not None:
        digests[hashlib.sha256(config.api_key.encode()).digest()] = OPERATOR
    if config.api_keys_file is not None:
        for line, tenant, digest in _read_file(Path(config.api_keys_file)):
            if digest in digests:
                raise ConfigError(
                    f"--api-keys-file: line {line} repeats the key of {digests[digest]!r}. Give everybody another key."
                )
            digests[digest] = tenant
    if len(digests) > MAX_TENANTS:
        raise ConfigError(f"--api-keys-file: {len(digests)} keys, expected at most {MAX_TENANTS}.")
    return Keys(digests)


def _read_file(path: Path) -> Iterator[tuple[int, str, bytes]]:
    """(line, tenant, digest of the key) of every line. What is wrong is named by its line, never quoted."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"--api-keys-file: {path} cannot be read ({why}).") from error
    found = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()  # noqa: PLW2901
        if not line or line.startswith("#"):
            continue
        tenant, _, key = (part.strip() for part in line.partition(":"))
        if not _NAME.fullmatch(tenant) or not key:
            raise ConfigError(
                f"--api-keys-file: line {number} is not of the form 'tenant: key' or 'tenant: sha256:HEX', "
                "with a tenant of up to 64 letters, digits, '.', '_' and '-'."
            )
        hashed = _SHA256.fullmatch(key)
        found = True
        yield number, tenant, bytes.fromhex(hashed[1]) if hashed else hashlib.sha256(key.encode()).digest()
    if not found:
        raise ConfigError(f"--api-keys-file: {path} has no key in it. Without keys leave the flag out.")
