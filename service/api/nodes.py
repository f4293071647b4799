"""``/nodes``: the nodes of the cluster, and draining one."""

from fastapi import APIRouter, Response

from service.api import problems
from service.api.deps import ExpectJson, ThisDaemon, documented
from service.schemas.nodes import DrainRequest, NodeBody

router = APIRouter(tags=["nodes"])


@router.get("/nodes", responses={200: {"model": list[NodeBody]}, **documented(503)})
def all_nodes(daemon: ThisDaemon) -> Response:
    """Return the nodes on which workers may be: cores, GPUs, memory, state, and workers of each app."""
    return problems.Body(daemon.nodes.all())


@router.post(
    "/nodes/{node}/drain", dependencies=[ExpectJson], responses={200: {"model": NodeBody}, **documented(404, 409, 503)}
)
def drain_node(node: str, daemon: ThisDaemon, asked: DrainRequest | None = None) -> Response:
    """Empties a node, given by its id or address: workers elsewhere take over, then those there end. At the deadline
    Ray ends the node."""
    return problems.Body(daemon.nodes.drain(node, asked or DrainRequest(deadline_s=30.0)))
