{{/* Parts of the objects: names, labels, image, arguments, resources, security context. */}}
{{- define "nri-plugin.name" -}}
{{- printf "nri-plugin-%s" .Values.plugin -}}
{{- end -}}

{{/* The plugin's row of needs.yaml. It is not a value, so no value can give a plugin more access than it needs. */}}
{{- define "nri-plugin.need" -}}
{{- get (.Files.Get "needs.yaml" | fromYaml) .Values.plugin | toYaml -}}
{{- end -}}

{{- define "nri-plugin.selector" -}}
app.kubernetes.io/name: {{ include "nri-plugin.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nri-plugin.labels" -}}
{{ include "nri-plugin.selector" . }}
app.kubernetes.io/component: nri-plugin
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "nri-plugin.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.name $image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" $image.name ($image.tag | default .Chart.AppVersion) | quote -}}
{{- end -}}
{{- end -}}

{{- define "nri-plugin.args" -}}
{{- $need := include "nri-plugin.need" . | fromYaml -}}
{{- $index := .Values.nri.plugin.index -}}
{{- /* The charts of nri-plugins have a number here: 5 means 05. */ -}}
{{- if or (kindIs "int64" $index) (kindIs "float64" $index) }}{{ $index = printf "%02d" (int $index) }}{{ end -}}
- {{ $need.indexFlag | quote }}
- {{ $index | default $need.index | quote }}
{{- if include "nri-plugin.follows" . }}
- "--config={{ (first $need.mounts).at }}/{{ .Values.plugin }}.policy.json"
{{- else if .Values.config }}
- "--config=/etc/nri-plugin/config.yaml"
{{- end }}
- "--log-level={{ .Values.log.level }}"
- "--log-format={{ .Values.log.format }}"
{{- if .Values.health.enabled }}
- "--health-addr={{ ternary "127.0.0.1" "0.0.0.0" (not (not $need.hostNetwork)) }}:{{ .Values.health.port }}"
{{- end }}
{{- range .Values.args }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* With `cpu` or `memory`, as in the charts of nri-plugins, these are requests and there are no limits. */}}
{{- define "nri-plugin.resources" -}}
{{- with .Values.resources -}}
{{- if or .cpu .memory -}}
requests:
  {{- toYaml (pick . "cpu" "memory") | nindent 2 }}
{{- else -}}
{{- toYaml (pick . "requests" "limits") }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nri-plugin.securityContext" -}}
{{- $need := include "nri-plugin.need" . | fromYaml -}}
runAsUser: {{ .Values.runAsUser }}
runAsGroup: {{ .Values.runAsGroup }}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
  {{- with $need.capabilities }}
  add:
    {{- range . }}
    - {{ .name }}
    {{- end }}
  {{- end }}
seccompProfile:
  type: RuntimeDefault
{{- with .Values.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
