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

{{/* mlkeeper.pod is what all pods of the chart have: where they run, and what their image is pulled with. */}}
{{- define "mlkeeper.pod" -}}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "priorityClassName" -}}
{{- with index $.Values $field }}
{{ toYaml (dict $field .) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* mlkeeper.user is whom the containers run as. The numbers of a file are floating-point numbers, which would be written with an exponent. */}}
{{- define "mlkeeper.user" -}}
{{- range $field := list "runAsUser" "runAsGroup" -}}
{{- $id := index $.Values $field -}}
{{- if not (kindIs "invalid" $id) }}
{{ $field }}: {{ int64 $id }}
{{- end }}
{{- end }}
{{- end -}}

{{/* mlkeeper.monitoringLabels are those of the PodMonitor and the PrometheusRule. */}}
{{- define "mlkeeper.monitoringLabels" -}}
{{ toYaml (merge (deepCopy .Values.monitoring.labels) (dict "app.kubernetes.io/name" "mlkeeper" "app.kubernetes.io/part-of" "mlkeeper")) }}
{{- end -}}

{{/* mlkeeper.pruning is a line of the spec of a definition of this name that keeps unknown fields, since it was applied as apiextensions v1beta1. The
     API server takes the schemas of apiextensions v1 only together with it. Others do not have it, since it would be a conflict for who applies them next. */}}
{{- define "mlkeeper.pruning" -}}
{{- if dig "spec" "preserveUnknownFields" false (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .) }}
  preserveUnknownFields: false
{{- end }}
{{- end -}}
