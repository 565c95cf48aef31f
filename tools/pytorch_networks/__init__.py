# SPDX-License-Identifier: Apache-2.0
"""Small networks of PyTorch, of the kinds that people export. tools/export_pytorch.py exports each."""

from . import attention, convolutions, dense, graphs_and_control, images, sequences
from .entered import NETWORKS
