"""Templates of networks: the results are those of Go's text/template with containerd's fields."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nri.engine.network.template import Template, read_template, values_of, write_network
from nri.errors import ConfigError

ONE, TWO = "10.1.0.0/24", "10.1.0.0/24, fd00::/64"


@pytest.mark.parametrize(
    ("text", "one", "two"),
    [
        ("{{.PodCIDR}}", "10.1.0.0/24", "10.1.0.0/24"),
        ("a {{- .PodCIDR -}} b", "a10.1.0.0/24b", "a10.1.0.0/24b"),
        ("{{range .PodCIDRRanges}}[{{.}}]{{end}}", "[10.1.0.0/24]", "[10.1.0.0/24][fd00::/64]"),
        ("{{range $r := .Routes}}<{{$r}}>{{end}}", "<0.0.0.0/0>", "<0.0.0.0/0><::/0>"),
        ("{{range $i, $r := .Routes}}{{if $i}}, {{end}}{{$r}}{{end}}", "0.0.0.0/0", "0.0.0.0/0, ::/0"),
        ("{{range .Routes}}{{$.PodCIDR}};{{end}}", "10.1.0.0/24;", "10.1.0.0/24;10.1.0.0/24;"),
        ("{{range $i, $a := .Routes}}{{range $j, $b := $.Routes}}{{$i}}{{$j}} {{end}}{{end}}", "00 ", "00 01 10 11 "),
        ("{{range $i, $r := .Routes}}{{if eq $i 0}}a{{else}}b{{end}}{{end}}", "a", "ab"),
        ('{{if eq .PodCIDR "x"}}a{{else if ne .PodCIDR "y"}}b{{else}}c{{end}}', "b", "b"),
        ("{{if not .Routes}}a{{end}}b{{/* }} */}}", "b", "b"),
        ("{{if false}}{{range .Routes}}x{{else}}y{{end}}{{else}}z{{end}}", "z", "z"),
        ("{{index .PodCIDRRanges 0}} {{len .Routes}} {{.Routes}}", "10.1.0.0/24 1 [0.0.0.0/0]",
         "10.1.0.0/24 2 [0.0.0.0/0 ::/0]"),
        ('{"a": {"b": {{len .Routes}}}}', '{"a": {"b": 1}}', '{"a": {"b": 2}}'),
    ],
)  # fmt: skip
def test_a_template_has_the_result_of_go(text: str, one: str, two: str) -> None:
    template = Template(text)
    assert [template.render(values_of(cidrs)) for cidrs in (ONE, TWO)] == [one, two]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{end}}", "line 1: unexpected {{end}}"),
        ("\n{{else}}", "line 2: unexpected {{else}}"),
        ("{{if .Routes}}", "a block has no {{end}}"),
        ("{{.PodCIDR", "an action has no }}"),
        ("{{.PodCIDR | html}}", "line 1: {{.PodCIDR | html}} is not supported"),
        ("{{with .Routes}}{{end}}", "line 1: {{with .Routes}} is not supported"),
        ("{{range $a, $b, $c := .Routes}}{{end}}", "the variables of a loop must be"),
        ("{{if .Routes}}{{else}}{{else}}{{end}}", "unexpected {{else}}"),
        ("{{}}", "is not supported"),
        ("\n" + '{{"a"' * 100, "line 2: an action has no }}"),
        ("{{/* a }}", "line 1: an action has no }}"),
        ("{{" * 100_000, "line 1: an action has no }}"),
    ],
)
def test_an_invalid_or_unsupported_template_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Template(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{.Gateway}}", ".Gateway has no value"),
        ("{{$i}}", "$i has no value"),
        ("{{index .Routes 5}}", "index .Routes 5 has no value"),
        ("{{range .PodCIDR}}{{end}}", ".PodCIDR is not a list"),
        ('{{if eq .Routes "a"}}{{end}}', "compares values of different types"),
        ("{{.}}", "all fields together have no text"),
        ("{{range $.Routes}}" * 15 + "x" + "{{end}}" * 15, "takes more than 10000 steps"),
        ("{{range $.Routes}}" * 8 + "x" * 5000 + "{{end}}" * 8, "the result has more than 1048576 characters"),
    ],
)
def test_an_expression_without_a_value_is_an_error(text: str, problem: str) -> None:
    template = Template(text)
    with pytest.raises(ValueError, match=re.escape(problem)):
        template.render(values_of(TWO))


@pytest.mark.parametrize(
    "cidrs", ["", "10.0.0.0", "10.0.0.0/255.0.0.0", "10.0.0.0/33", "x/8", "10.0.0.0/8,", "1/8," * 40]
)
def test_address_ranges_are_checked(cidrs: str) -> None:
    with pytest.raises(ValueError, match="is not an address range"):
        values_of(cidrs)


NETWORK = """{"name": "pods", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [
{{- range $i, $range := .PodCIDRRanges}}{{if $i}}, {{end}}[{"subnet": "{{$range}}"}]{{end}}]}}]}"""


def test_a_network_is_written_for_the_address_ranges(tmp_path: Path) -> None:
    (tmp_path / "template").write_text(NETWORK)
    path = write_network(read_template(f"{tmp_path}/template"), tmp_path / "new/net.d", TWO)
    network = json.loads(path.read_text())
    subnets = [[{"subnet": "10.1.0.0/24"}], [{"subnet": "fd00::/64"}]]
    assert network["plugins"][0]["ipam"]["ranges"] == subnets
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "No such file or directory"),
        ("{{.Gateway}}", ".Gateway has no value"),
        ("{", "the result is not a network"),
        ('{"plugins": []}', "the result is not a network: 'plugins' must be a list"),
    ],
)
def test_an_unusable_template_is_an_error_that_names_file_and_key(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    if text is not None:
        (tmp_path / "template").write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_template(f"{tmp_path}/template")
    assert str(refused.value).startswith(f"{tmp_path}/template: cannot be used as a template: ")
    assert problem in str(refused.value) and "network.conf_template" in str(refused.value)
