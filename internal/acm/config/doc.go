// Package config reads the application.yaml of ONAP's Kserve participant, of every release from London on, so that the file
// that a site has configures MLKeeper too. It opens no connection.
package config
