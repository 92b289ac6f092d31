"""Launch spec: what a slot starts arrives as it was given, as plain values, and what is not given is safe."""

from __future__ import annotations

import json

from aiostorm.spark.workers.launch_spec import LaunchSpec

LEAST = LaunchSpec("slot-1", "worker-1", "*:7000", "parent", ("worker", "--fd", "3"), "0.1")


def test_a_spec_arrives_as_it_was_given() -> None:
    whole = LaunchSpec("s", "w", "p", "n", ("worker",), "0.1", "/certs", True, True, "host", "/jobs")
    for spec in (LEAST, whole):
        values = spec.to_dict()
        assert values["command"] == list(spec.command)
        assert LaunchSpec.from_dict(json.loads(json.dumps(values))) == spec


def test_what_is_not_given_asks_for_no_file_and_for_encryption() -> None:
    assert (LEAST.credentials, LEAST.is_file, LEAST.insecure, LEAST.host, LEAST.folder) == ("", False, False, "", "")
