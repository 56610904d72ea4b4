{{/* mlkeeper.image is the image by its digest, if there is one, else by its tag. */}}
{{- define "mlkeeper.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}{{ with $image.tag }}:{{ . }}{{ end }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* mlkeeper.participantConfigMap is the ConfigMap with the participant's application.yaml. */}}
{{- define "mlkeeper.participantConfigMap" -}}
{{ .Values.participant.existingConfigMap | default "mlkeeper-participant" }}
{{- end -}}

{{/* mlkeeper.selector has the labels of the manager's pods, which never change. */}}
{{- define "mlkeeper.selector" -}}
app.kubernetes.io/name: mlkeeper
control-plane: controller-manager
{{- end -}}

{{/* mlkeeper.pod says where pods run, and what their image is pulled with. */}}
{{- define "mlkeeper.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* mlkeeper.user is whom a container runs as; nobody by name where the cluster says it. */}}
{{- define "mlkeeper.user" -}}
{{- with .Values.runAsUser }}
runAsUser: {{ . }}
{{- end }}
{{- with .Values.runAsGroup }}
runAsGroup: {{ . }}
{{- end }}
{{- end -}}
