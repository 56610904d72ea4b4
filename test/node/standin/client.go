package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// caEnv is how ModelMesh is told which certificate to trust. A client with it
// trusts no other.
const caEnv = "MM_TLS_KEY_CERT_PATH"

func newClient() (*http.Client, error) {
	path := os.Getenv(caEnv)
	if path == "" {
		return &http.Client{}, nil
	}
	return clientOf(path)
}

// clientOf trusts the certificates of a file and no others.
func clientOf(path string) (*http.Client, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", path)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}, nil
}
