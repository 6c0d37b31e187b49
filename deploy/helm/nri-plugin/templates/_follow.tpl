{{/*
`nri placement follow` next to a plugin: it gives the plugin the custom resource of the node and writes the plugin's state
back. Only its containers have a token.
*/}}
{{- define "nri-plugin.follows" -}}
{{- if .Values.follow.enabled }}yes{{ end -}}
{{- end -}}

{{/* A container for the context `root`, called `name`; with `once` it exits when it has written the plugin's file. */}}
{{- define "nri-plugin.follow.container" -}}
{{- $values := .root.Values -}}
{{- $need := include "nri-plugin.need" .root | fromYaml -}}
{{- $mount := first $need.mounts -}}
- name: {{ .name }}
  {{- if contains "@" $values.follow.image }}
  image: {{ $values.follow.image | quote }}
  {{- else }}
  image: {{ printf "%s:%s" $values.follow.image ($values.image.tag | default .root.Chart.AppVersion) | quote }}
  {{- end }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  args:
    - placement
    - follow
    - {{ $values.plugin }}
    - "--namespace={{ .root.Release.Namespace }}"
    - "--group-label={{ $values.configGroupLabel }}"
    - "--state-dir={{ $mount.at }}"
    {{- if .once }}
    - "--once"
    {{- end }}
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
  resources:
    {{- include "nri-plugin.resources" .root | nindent 4 }}
  securityContext:
    {{- include "nri-plugin.securityContext" .root | nindent 4 }}
  volumeMounts:
    - name: {{ $mount.name }}
      mountPath: {{ $mount.at }}
    - name: token
      mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      readOnly: true
{{- end -}}

{{- define "nri-plugin.follow.objects" -}}
{{- $need := include "nri-plugin.need" . | fromYaml -}}
{{- $name := include "nri-plugin.name" . -}}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
rules:
  - apiGroups: [""]
    resources: [nodes]
    verbs: [list, watch]
  - apiGroups: [config.nri]
    resources: [{{ $need.followed }}]
    verbs: [list, watch]
  - apiGroups: [config.nri]
    resources: [{{ $need.followed }}/status]
    verbs: [patch]
  - apiGroups: [topology.node.k8s.io]
    resources: [noderesourcetopologies]
    verbs: [create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ .Release.Namespace }}
{{- if .Values.config }}
---
apiVersion: config.nri/v1alpha1
kind: {{ $need.follows }}
metadata:
  name: default
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
spec:
  {{- toYaml .Values.config | nindent 2 }}
{{- end }}
{{- end -}}
