"""`nri pod`: the group and its help."""

from __future__ import annotations


def test_help_has_each_verb_and_examples_before_options(nri) -> None:
    text = nri("pod", "--help").stdout
    verbs = text.partition("Verbs:")[2].partition("Options:")[0]
    assert [line.split()[0] for line in verbs.strip().splitlines()] == [
        "run", "ps", "describe", "inspect", "logs", "stats", "events", "exec", "attach", "cp", "port-forward",
        "stop", "rm", "images", "pull", "rmi",
    ]  # fmt: skip
    assert "does not replace a kubelet" in " ".join(text.split())
    assert text.index("nri pod run -f web.yaml") < text.index("Verbs:")


def test_a_verb_without_its_group_is_suggested_with_the_group(nri) -> None:
    short = nri("ps")
    assert (short.returncode, short.stderr) == (2, 'error: no verb "ps", did you mean nri pod ps? try: nri --help\n')
