{{- define "workload" -}}
apiVersion: apps/v1
kind: {{ .kind }}
metadata:
  name: seldon-core-analytics-{{ .name }}
spec:
  {{- if ne .kind "DaemonSet" }}
  replicas: 1
  {{- end }}
  selector:
    matchLabels: {app: "{{ .name }}"}
  template:
    metadata:
      labels: {app: "{{ .name }}"}
    spec:
      containers:
        {{- range until .containers }}
        - {name: "c{{ . }}", image: "registry.k8s.io/pause:3.10"}
        {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: seldon-core-analytics-{{ .name }}
spec:
  selector: {app: "{{ .name }}"}
  ports: [{port: 80, targetPort: 9090}]
---
{{- end }}
