"""A Hugging Face Hub of one's own."""

from collections.abc import Iterator

import pytest

from tests.support.hub import Hub, serving


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Iterator[Hub]:
    """Yield a Hugging Face Hub with an empty folder to fill, and an empty cache."""
    from huggingface_hub import constants

    folder = tmp_path / "published"
    folder.mkdir()
    # The library reads the environment when it is loaded.
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving(folder, "models/albert/albert-base-v2") as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("{")
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.endpoint}/{''.join(template[1:])}"
        )
        yield hub
