"""How the engine process is started. Imports nothing heavy: servers start it before they import their own half."""

from __future__ import annotations

import sys
from typing import Final

ENGINE_COMMAND: Final = (sys.executable, "-m", "pelton.api.engine_main")
