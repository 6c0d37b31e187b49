{{/* Everything that a plugin's chart makes: its configuration, its wall to the network, its DaemonSet. */}}
{{- define "nri-plugin.all" -}}
{{- $need := .Files.Get "needs.yaml" | fromYaml -}}
{{- $follows := include "nri-plugin.follows" . -}}
{{- if $follows }}
{{ include "nri-plugin.follow.objects" . }}
{{- else if .Values.config }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "nri-plugin.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
data:
  config.yaml: |
    {{- toYaml .Values.config | nindent 4 }}
{{- end }}
{{- if and .Values.networkPolicy (not $need.hostNetwork) }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "nri-plugin.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "nri-plugin.selector" . | nindent 6 }}
  policyTypes:
    - Ingress
    {{- if not $follows }}
    - Egress
    {{- end }}
{{- end }}
---
{{ include "nri-plugin.daemonset" . }}
{{- end -}}

{{- define "nri-plugin.notes" -}}
{{- $name := include "nri-plugin.name" . -}}
{{ $name }} is on its way to every node. Containers that were there before it are not adjusted.

  kubectl -n {{ .Release.Namespace }} rollout status daemonset/{{ $name }}
  kubectl -n {{ .Release.Namespace }} logs daemonset/{{ $name }}

A plugin is a part of the container runtime: a person who controls it owns the nodes.
{{- end -}}
