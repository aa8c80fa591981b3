"""Addresses of machines and of what the loop decided."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from queues import queries
from queues.api.shapes import nodes as shapes
from queues.queries.decisions import decision_row, found_decisions
from queues.queries.evictions import eviction_rows, found_evictions
from queues.queries.nodes import found_nodes, node_rows
from tenants.rest.schema import PAGING, paged
from tenants.rest.views import RestView


class NodesView(RestView):
    """/nodes."""

    @extend_schema(operation_id="listNodes", parameters=[shapes.NodeQuery, *PAGING], responses=paged(shapes.NodeOut))
    def get(self, request: Request) -> Response:
        """List the machines that are there, in the order in which they came."""
        wanted = self.query(shapes.NodeQuery)
        found = found_nodes(self.actor, flavor=wanted["flavor"], state=wanted["state"], text=wanted["q"])
        return self.page(found, rows=lambda page: shapes.NodeOut(node_rows(page), many=True).data, order=("id",))


class ClustersView(RestView):
    """/clusters."""

    @extend_schema(operation_id="listClusters", responses=shapes.ClustersOut)
    def get(self, request: Request) -> Response:
        """List the clusters, whether each answers, and what it has."""
        self.query()
        return self.answer({"items": shapes.ClusterOut(queries.clusters(self.actor), many=True).data})


class InventoryView(RestView):
    """/inventory."""

    @extend_schema(operation_id="getInventory", responses=shapes.InventoryOut)
    def get(self, request: Request) -> Response:
        """Tell where machines differ from what is expected, and which GPU types would take in those that match none."""
        self.query()
        found = {"drift": queries.drift(self.actor), "suggestions": queries.suggestions(self.actor)}
        return self.answer(shapes.InventoryOut(found).data)


class NodeView(RestView):
    """/nodes/{name}."""

    @extend_schema(operation_id="getNode", parameters=[shapes.ClusterQuery], responses=shapes.NodeDetailOut)
    def get(self, request: Request, name: str) -> Response:
        """Show a machine with what is on it."""
        cluster = self.query(shapes.ClusterQuery)["cluster"]
        return self.answer(shapes.NodeDetailOut(queries.node(self.actor, name, cluster=cluster)).data)


class AllocationView(RestView):
    """/allocation."""

    @extend_schema(operation_id="getAllocation", parameters=[shapes.FlavorQuery], responses=shapes.AllocationOut)
    def get(self, request: Request) -> Response:
        """Show every machine with its tasks; of jobs that you may not see only the units."""
        rows = queries.allocation(self.actor, flavor=self.query(shapes.FlavorQuery)["flavor"])
        return self.answer({"items": shapes.NodeWithTasksOut(rows, many=True).data})


class DecisionsView(RestView):
    """/decisions."""

    @extend_schema(
        operation_id="listDecisions", parameters=[shapes.DecisionQuery, *PAGING], responses=paged(shapes.DecisionOut)
    )
    def get(self, request: Request) -> Response:
        """List the cycles of the loop, newest first (admins and auditors)."""
        found = found_decisions(self.actor, busy=self.query(shapes.DecisionQuery)["busy"])
        return self.page(found, rows=lambda page: shapes.DecisionOut(map(decision_row, page), many=True).data)


class DecisionView(RestView):
    """/decisions/{cycle}."""

    @extend_schema(operation_id="getDecision", responses=shapes.DecisionDetailOut)
    def get(self, request: Request, cycle: int) -> Response:
        """Show one cycle and what it admitted (admins and auditors)."""
        return self.answer(shapes.DecisionDetailOut(queries.decision(self.actor, cycle)).data)


class EvictionsView(RestView):
    """/evictions."""

    @extend_schema(
        operation_id="listEvictions", parameters=[shapes.EvictionQuery, *PAGING], responses=paged(shapes.EvictionOut)
    )
    def get(self, request: Request) -> Response:
        """List who had to go for whom, newest first: of the teams that you see, on either side."""
        wanted = self.query(shapes.EvictionQuery)
        found = found_evictions(
            self.actor,
            team=wanted["team"],
            job=wanted.get("job"),
            rule=wanted["rule"],
            since=wanted.get("at__gte"),
            until=wanted.get("at__lt"),
        )
        return self.page(found, rows=lambda page: shapes.EvictionOut(eviction_rows(page, self.actor), many=True).data)
