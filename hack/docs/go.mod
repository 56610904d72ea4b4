module mlkeeper.dev/hack/docs

go 1.26.0

require (
	github.com/yuin/goldmark v1.8.0
	sigs.k8s.io/yaml v1.6.0
)

require go.yaml.in/yaml/v2 v2.4.2 // indirect
