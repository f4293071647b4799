"""Place workers on the nodes of a cluster: pure functions of nodes, needs and present workers."""
