{{/* Names, labels, image and rights of the agent: the parts of its objects. */}}
{{- define "nri-agent.selector" -}}
app.kubernetes.io/name: nri-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "nri-agent.labels" -}}
{{ include "nri-agent.selector" . }}
app.kubernetes.io/component: nri-agent
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "nri-agent.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.name $image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" $image.name ($image.tag | default .Chart.AppVersion) | quote -}}
{{- end -}}
{{- end -}}

{{/*
What the operator's choices open: the rows of needs.yaml that are asked for, joined. A path that one row reads and another
writes is written.
*/}}
{{- define "nri-agent.opened" -}}
{{- $config := .Values.config -}}
{{- $anolis := .Values.anolis -}}
{{- $mounts := dict -}}
{{- $capabilities := dict -}}
{{- $roles := dict "nri-agent" true -}}
{{- $order := list -}}
{{- $found := dict "hostPID" false "hostNetwork" false -}}
{{- range (.Files.Get "needs.yaml" | fromYaml).rows -}}
{{- $asked := eq .choice "always" -}}
{{- if eq .choice "mode" -}}{{- $asked = has .value $config.modes -}}{{- end -}}
{{- if eq .choice "pods" -}}{{- $asked = eq .value (dig "pods" "source" "cri" $config) -}}{{- end -}}
{{- if eq .choice "gate" -}}{{- $asked = dig "gates" .value false $config -}}{{- end -}}
{{- if eq .choice "kernel" -}}{{- $asked = $anolis -}}{{- end -}}
{{- if $asked -}}
{{- range .mounts -}}
{{- if hasKey $mounts .name -}}
{{- if .write -}}{{- $_ := set (get $mounts .name) "write" true -}}{{- end -}}
{{- else -}}
{{- $_ := set $mounts .name . -}}
{{- $order = append $order .name -}}
{{- end -}}
{{- end -}}
{{- range .capabilities -}}{{- $_ := set $capabilities .name true -}}{{- end -}}
{{- if .hostPID -}}{{- $_ := set $found "hostPID" true -}}{{- end -}}
{{- if .hostNetwork -}}{{- $_ := set $found "hostNetwork" true -}}{{- end -}}
{{- if .role -}}{{- $_ := set $roles .role true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $listed := list -}}
{{- range $order -}}{{- $listed = append $listed (get $mounts .) -}}{{- end -}}
{{- $_ := set $found "mounts" $listed -}}
{{- $_ := set $found "capabilities" (keys $capabilities | sortAlpha) -}}
{{- $_ := set $found "roles" (keys $roles | sortAlpha) -}}
{{- toYaml $found -}}
{{- end -}}
