{{- define "common.names.fullname" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name }}
{{- end }}
