"""``/nodes``: the nodes of the cluster, and draining one."""

from fastapi import APIRouter, Response

from service.api import problems
from service.api.deps import ExpectJson, KnownQuery, ThisDaemon, answers
from service.schemas.figures import DrainRequest, NodeBody

router = APIRouter(tags=["nodes"], dependencies=[KnownQuery, ExpectJson])


@router.get("/nodes", responses=answers(list[NodeBody], 503))
def all_nodes(daemon: ThisDaemon) -> Response:
    """Return the nodes on which workers may be: cores, GPUs, memory, state, and workers of each app."""
    return problems.Body(daemon.nodes.all())


@router.post("/nodes/{node}/drain", responses=answers(NodeBody, 404, 409, 503))
def drain_node(node: str, daemon: ThisDaemon, asked: DrainRequest | None = None) -> Response:
    """Empties a node, given by its id or address: workers elsewhere take over, then those there end. At the deadline
    Ray ends the node."""
    return problems.Body(daemon.nodes.drain(node, asked or DrainRequest(deadline_s=30.0)))
