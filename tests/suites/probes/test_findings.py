"""What several processes found becomes one entry with a number a process."""

from fuser.suites.probes.findings import Findings


def test_processes_are_gathered_by_subject_and_path() -> None:
    """Parts that one process lacks are left out; the rest have as many numbers as processes."""
    findings = Findings()
    for whole, parts in ((3.0, {"entry": 1.0, "kernel": 2.0}), (4.0, {"entry": 1.5})):
        findings.add({
            "event": "anatomy", "subject": "s", "path": "native", "method": "ablation",
            "parts_s": parts, "whole_s": whole, "unexplained_s": [-0.1, 0.0, 0.1],
        })
        findings.add({
            "event": "first_calls", "workload": "axpy", "state": "cold", "seconds": whole,
            "stages_s": {"trace": 0.5},
        })
    findings.add({
        "event": "arithmetic", "dtype": "float32", "operations": 8, "threads": 1, "process": 0,
        "seconds": [1.0],
    })
    fields = findings.fields()
    (anatomy,) = fields["anatomy"]
    assert (anatomy.parts_s, anatomy.whole_s) == ({"entry": [1.0, 1.5]}, [3.0, 4.0])
    assert anatomy.unexplained_s == [[-0.1, 0.0, 0.1]] * 2
    (first,) = fields["first_calls"]
    assert (first.seconds, first.stages_s) == ([3.0, 4.0], {"trace": [0.5, 0.5]})
    assert fields["arithmetic"][0].operations == 8
