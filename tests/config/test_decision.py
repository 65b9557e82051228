import pytest
from tests.config.facts import MACHINE, MODEL

from pelton.config.decision import Draft
from pelton.config.user_config import ask

pytestmark = pytest.mark.unit


def test_asked_before_decided_before_default():
    draft = Draft(asked=ask(port=1), model=MODEL, hardware=MACHINE, decided={"block_size": 64})
    assert (draft.value("port"), draft.value("block_size"), draft.value("host")) == (1, 64, "127.0.0.1")
    assert not draft.is_open("port")
    assert draft.is_open("block_size")
    assert draft.name("block_size") == "--block-size=64"
