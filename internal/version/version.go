// Package version tells which version of MLKeeper this binary is.
package version

// Version is set by the linker (-ldflags "-X mlkeeper.dev/internal/version.Version=v1.2.3"); a binary built without it
// says so.
var Version = "v0.0.0-dev"
