{{/* Names, labels, image, arguments and rights of a plugin: the parts of its objects. */}}
{{- define "nri-plugin.name" -}}
{{- printf "nri-plugin-%s" (.Files.Get "needs.yaml" | fromYaml).plugin -}}
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
{{- printf "%s@%s" $image.repository $image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) | quote -}}
{{- end -}}
{{- end -}}

{{- define "nri-plugin.args" -}}
{{- $need := .Files.Get "needs.yaml" | fromYaml -}}
{{- if hasKey .Values "indices" -}}
- "-indices"
- {{ .Values.indices | quote }}
{{- else -}}
- "-idx"
- {{ .Values.idx | quote }}
{{- end }}
{{- if include "nri-plugin.follows" . }}
- "--config={{ (first $need.mounts).at }}/{{ $need.plugin }}.policy.json"
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

{{- define "nri-plugin.securityContext" -}}
{{- $need := .Files.Get "needs.yaml" | fromYaml -}}
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
