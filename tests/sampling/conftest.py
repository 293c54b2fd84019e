from models.conftest import tiny_model  # noqa: F401
