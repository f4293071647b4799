{{- define "head" }}{{ .Release.Name }}-head-svc{{ end }}

{{- define "labels" -}}
app.kubernetes.io/name: recompose
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pod" -}}
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 10001, runAsGroup: 10001, fsGroup: 10001, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{- define "container" -}}
image: {{ .Values.image }}
imagePullPolicy: {{ .Values.pullPolicy }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{- /* Without a token everybody who reaches Ray's ports can run code on it. */}}
{{- define "env" -}}
- {name: RAY_AUTH_MODE, value: token}
- {name: RAY_AUTH_TOKEN, valueFrom: {secretKeyRef: {name: {{ .Values.tokens }}, key: ray}}}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: shm, mountPath: /dev/shm}
{{- if .Values.journals.enabled }}
- {name: journals, mountPath: /var/lib/recompose/journals}
{{- end }}
{{- if .Values.apps.claim }}
- {name: apps, mountPath: /apps, readOnly: true}
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "volumes" -}}
- {name: tmp, emptyDir: {sizeLimit: 2Gi}}
- {name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
{{- if .Values.journals.enabled }}
- {name: journals, persistentVolumeClaim: {claimName: {{ .Release.Name }}-journals}}
{{- end }}
{{- if .Values.apps.claim }}
- {name: apps, persistentVolumeClaim: {claimName: {{ .Values.apps.claim }}, readOnly: true}}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "resources" -}}
{{- $gpus := .gpus | default 0 -}}
limits: {cpu: {{ .resources.cpu | quote }}, memory: {{ .resources.memory }}{{ if $gpus }}, nvidia.com/gpu: {{ $gpus }}{{ end }}}
requests: {cpu: {{ .resources.cpu | quote }}, memory: {{ .resources.memory }}{{ if $gpus }}, nvidia.com/gpu: {{ $gpus }}{{ end }}}
{{- end }}

{{- define "bytes" -}}
{{- mul (trimSuffix "Mi" .rayMemory) 1048576 -}}
{{- end }}

{{- define "rayPort" -}}
tcpSocket: {port: 6380}
{{- end }}
