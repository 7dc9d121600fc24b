"""Small tensors on one core: handing pieces to a second thread costs more than it saves."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)
