// Package console tests the page of mlkeeper console in a Chromium, on the demo (make test-console), and takes the screenshots of
// docs/console.md (make screenshots).
package console
