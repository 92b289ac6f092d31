"""The world of a cluster: nimbuses, supervisors, a parent and its workers, over a store that is away now and then."""
