"""The codebooks are those of the format, element by element."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from gguf import quants

from pelton.checkpoint.codebooks import codebook, sign_codes

pytestmark = pytest.mark.unit

HASHES = {
    "IQ1": "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a",
    "IQ2_XXS": "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54",
    "IQ2_XS": "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de",
    "IQ2_S": "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88",
    "IQ3_XXS": "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d",
    "IQ3_S": "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f",
}


@pytest.mark.parametrize("name", HASHES)
def test_vectors_are_those_of_the_format(name: str) -> None:
    reference = getattr(quants, "IQ1_S" if name == "IQ1" else name)
    reference.init_grid()
    np.testing.assert_array_equal(codebook(name), reference.grid.reshape(reference.grid_shape))
    assert sha256(codebook(name).tobytes()).hexdigest() == HASHES[name]


def test_signs_are_those_of_the_format() -> None:
    assert sign_codes().tobytes() == quants.IQ2_XXS.ksigns


def test_nobody_can_change_them() -> None:
    with pytest.raises(ValueError, match="read-only"):
        codebook("IQ3_S")[0, 0] = 1
