"""Rewrites of plans that compute the same. Pure; a backend names those it wants, in order."""

from pelton.plan.passes.dead_nodes import drop_dead_nodes
from pelton.plan.passes.fuse_gated import fuse_gated
from pelton.plan.passes.fuse_residual import fuse_residual

__all__ = ["drop_dead_nodes", "fuse_gated", "fuse_residual"]
