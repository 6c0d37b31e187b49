{{/* The plugin's DaemonSet: access to the node by needs.yaml, which states the reasons; everything else by values. */}}
{{- define "nri-plugin.daemonset" -}}
{{- $need := include "nri-plugin.need" . | fromYaml -}}
{{- $values := .Values -}}
{{- $follows := include "nri-plugin.follows" . -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "nri-plugin.name" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "nri-plugin.labels" . | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "nri-plugin.selector" . | nindent 6 }}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: {{ $values.maxUnavailable }}
  template:
    metadata:
      labels:
        {{- include "nri-plugin.selector" . | nindent 8 }}
        app.kubernetes.io/component: nri-plugin
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- if $values.podPriorityClassNodeCritical }}
      priorityClassName: {{ $values.priorityClassName }}
      {{- end }}
      {{- if $follows }}
      serviceAccountName: {{ include "nri-plugin.name" . }}
      {{- end }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 5
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      nodeSelector:
        kubernetes.io/os: linux
        {{- with $values.nodeSelector }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $need.hostNetwork }}
      hostNetwork: true
      {{- end }}
      {{- /* patch-runtime runs systemctl, which needs the PID namespace of the node's systemd. */}}
      {{- if or $need.hostPID $values.nri.runtime.patchConfig }}
      hostPID: true
      {{- end }}
      {{- if or $follows $values.nri.runtime.patchConfig }}
      initContainers:
      {{- end }}
      {{- with $values.nri.runtime }}
      {{- if .patchConfig }}
        - name: patch-runtime
          image: {{ include "nri-plugin.image" $ }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: ["/plugin/bin/python", "-I", "-B", "-m", "nri", "config-manager", "--root", "/host", "--restart"]
          args:
            {{- with .name }}
            - "--runtime={{ . }}"
            {{- end }}
            - "--nri-plugin-registration-timeout={{ .config.pluginRegistrationTimeout }}"
            - "--nri-plugin-request-timeout={{ .config.pluginRequestTimeout }}"
          resources:
            {{- include "nri-plugin.resources" $ | nindent 12 }}
          securityContext: # writes the runtime's configuration and has the node's systemd restart the runtime
            runAsUser: 0
            privileged: true
            readOnlyRootFilesystem: true
          volumeMounts:
            - name: host-root
              mountPath: /host
      {{- end }}
      {{- end }}
      {{- if $follows }}
        {{- include "nri-plugin.follow.container" (dict "root" . "name" "first" "once" true) | nindent 8 }}
      {{- end }}
      containers:
        - name: plugin
          image: {{ include "nri-plugin.image" . }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            {{- include "nri-plugin.args" . | nindent 12 }}
          env:
            - name: NRI_PLUGIN_NAME
              value: {{ $values.plugin }}
          {{- if $values.health.enabled }}
          readinessProbe:
            httpGet:
              {{- if $need.hostNetwork }}
              host: 127.0.0.1
              {{- end }}
              path: /readyz
              port: {{ $values.health.port }}
          {{- end }}
          resources:
            {{- include "nri-plugin.resources" $ | nindent 12 }}
          securityContext:
            {{- include "nri-plugin.securityContext" . | nindent 12 }}
          volumeMounts:
            - name: nri-socket
              mountPath: /var/run/nri
              readOnly: true
            {{- range $need.mounts }}
            {{- $host := get ($values.hostPaths | default dict) .name | default .host }}
            - name: {{ .name }}
              {{- /* The runtime reports paths below this folder, so it has the same place in the container as on the node. */}}
              mountPath: {{ ternary $host .at (and .changes (ne $host .host)) }}
              readOnly: {{ not .write }}
              {{- if .changes }}
              mountPropagation: HostToContainer
              {{- end }}
            {{- end }}
            {{- range $index, $path := $values.readOnlyPaths }}
            - name: path-{{ $index }}
              mountPath: {{ $path | quote }}
              readOnly: true
            {{- end }}
            {{- if and $values.config (not $follows) }}
            - name: config
              mountPath: /etc/nri-plugin
              readOnly: true
            {{- end }}
        {{- if $follows }}
        {{- include "nri-plugin.follow.container" (dict "root" . "name" "follow") | nindent 8 }}
        {{- end }}
      volumes:
        - name: nri-socket
          hostPath:
            path: {{ $values.socketDir }}
            type: {{ ternary "DirectoryOrCreate" "Directory" $values.nri.runtime.patchConfig }}
        {{- if $values.nri.runtime.patchConfig }}
        - name: host-root
          hostPath:
            path: /
            type: Directory
        {{- end }}
        {{- range $need.mounts }}
        - name: {{ .name }}
          hostPath:
            path: {{ get ($values.hostPaths | default dict) .name | default .host }}
            type: {{ .type }}
        {{- end }}
        {{- range $index, $path := $values.readOnlyPaths }}
        - name: path-{{ $index }}
          hostPath:
            path: {{ $path | quote }}
        {{- end }}
        {{- if $follows }}
        - name: token
          projected:
            sources:
              - serviceAccountToken:
                  path: token
                  expirationSeconds: 3607
              - configMap:
                  name: kube-root-ca.crt
                  items:
                    - key: ca.crt
                      path: ca.crt
              - downwardAPI:
                  items:
                    - path: namespace
                      fieldRef:
                        fieldPath: metadata.namespace
        {{- else if $values.config }}
        - name: config
          configMap:
            name: {{ include "nri-plugin.name" . }}
        {{- end }}
{{- end -}}
